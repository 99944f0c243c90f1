// What a pickle describes, as plain values. Nothing in it is ever called: a class or function is
// its name, and what it would have made is an inert object of that name.
#pragma once
#include <bit>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace lockstep::checkpoint {

enum class PickleKind : std::uint8_t {
  none,
  boolean,
  integer,      // fits 64 bits
  big_integer,  // text() has its decimal digits
  real,
  text,  // valid UTF-8
  bytes,
  tuple,
  list,
  set,
  dict,
  global,      // text() is "module.name"
  object,      // global(args), with state and entries that were set on it
  persistent,  // args() is the id
  skipped,     // something of a class that is left out: text() is "module.name"
};

/// "a dict", "an integer"; for messages.
[[nodiscard]] std::string_view to_text(PickleKind kind);

/// One value of a PickleTree, which owns it: all pointers live as long as the tree. No value lies
/// within itself; for what a walk over all of them takes see PickleTree.
class PickleValue {
 public:
  using Entry = std::pair<const PickleValue*, const PickleValue*>;

  [[nodiscard]] PickleKind kind() const { return kind_; }
  [[nodiscard]] bool is(PickleKind kind) const { return kind_ == kind; }
  [[nodiscard]] bool is_global(std::string_view name) const {
    return is(PickleKind::global) && text_ == name;
  }
  /// An object made by calling or instantiating that class or function.
  [[nodiscard]] bool is_object_of(std::string_view name) const {
    return is(PickleKind::object) && global() == name;
  }

  [[nodiscard]] bool boolean() const { return number_ != 0; }
  [[nodiscard]] std::int64_t integer() const { return number_; }
  [[nodiscard]] double real() const { return std::bit_cast<double>(number_); }
  /// Of text, bytes, big_integer, global and skipped; else empty.
  [[nodiscard]] std::string_view text() const { return text_; }

  /// Of a tuple, list or set. For dicts and objects see entry().
  [[nodiscard]] std::span<const PickleValue* const> items() const { return items_; }

  /// Key and value pairs of a dict, or those that were set on an object (an OrderedDict), in the
  /// order of the file. A key may come twice.
  [[nodiscard]] std::size_t entries() const { return has_entries() ? items_.size() / 2 : 0; }
  [[nodiscard]] Entry entry(std::size_t index) const {
    return {items_[2 * index], items_[2 * index + 1]};
  }
  /// Value under a text key, of the last such entry; nullptr when there is none. Linear.
  [[nodiscard]] const PickleValue* find(std::string_view key) const;

  // Of an object; args() also of a persistent id, where it is the id.
  [[nodiscard]] std::string_view global() const { return text_; }
  [[nodiscard]] const PickleValue* args() const { return args_; }    // a tuple
  [[nodiscard]] const PickleValue* state() const { return state_; }  // nullptr: none

 private:
  friend class PickleStack;
  friend class PickleShape;
  explicit PickleValue(PickleKind kind) : kind_(kind) {}
  [[nodiscard]] bool has_entries() const {
    return kind_ == PickleKind::dict || kind_ == PickleKind::object;
  }

  PickleKind kind_;
  std::uint32_t index_ = 0;  // in the tree
  std::string_view text_;
  std::int64_t number_ = 0;  // of a real its bits
  std::vector<const PickleValue*> items_;
  const PickleValue* args_ = nullptr;
  const PickleValue* state_ = nullptr;
};

/// All values of one pickle. Its root is a finite tree, with parts shared: nesting is at most
/// kMaxPickleDepth, and walking it without remembering what was seen takes at most
/// 65,536 steps and 4 a byte of the pickle.
class PickleTree {
 public:
  PickleTree(const PickleTree&) = delete;
  PickleTree& operator=(const PickleTree&) = delete;
  PickleTree(PickleTree&&) noexcept;
  PickleTree& operator=(PickleTree&&) noexcept;
  ~PickleTree();

  [[nodiscard]] const PickleValue& root() const { return *root_; }

 private:
  friend class PickleStack;
  struct Storage;
  PickleTree();
  std::unique_ptr<Storage> storage_;
  const PickleValue* root_ = nullptr;
};

inline constexpr int kMaxPickleDepth = 500;

}  // namespace lockstep::checkpoint
