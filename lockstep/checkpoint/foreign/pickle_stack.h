// The machine's memory: the values made so far, the stack, its marks and what was remembered.
#pragma once
#include <bit>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "lockstep/checkpoint/foreign/pickle_cursor.h"
#include "lockstep/checkpoint/foreign/pickle_tree.h"

namespace lockstep::checkpoint {

/// Makes at most 1024 values and one for two bytes of the pickle. All methods throw as
/// PickleCursor::fail() when the pickle asks for what is not there.
class PickleStack {
 public:
  PickleStack(std::string pickle, const std::string& where)
      : tree_(own(std::move(pickle))), in_(tree_.storage_->pickle, where) {}

 protected:
  using Items = std::vector<const PickleValue*>;

  PickleValue* make(PickleKind kind);
  PickleValue* make_bool(bool value) {
    PickleValue* made = make(PickleKind::boolean);
    made->number_ = value ? 1 : 0;
    return made;
  }
  void push(PickleValue* value) { stack_.push_back(value); }
  void push_integer(std::int64_t number) {
    push(make(PickleKind::integer));
    stack_.back()->number_ = number;
  }
  void push_real(double number) {
    push(make(PickleKind::real));
    stack_.back()->number_ = std::bit_cast<std::int64_t>(number);
  }
  /// \param text lies in the pickle or was given by keep(). A text must be UTF-8.
  void push_text(PickleKind kind, std::string_view text);
  void push_items(PickleKind kind, Items items) {
    push(make(kind));
    stack_.back()->items_ = std::move(items);
  }
  /// An object made by `made_by` (its name) of `args`; a persistent id has no maker.
  void push_object(PickleKind kind, std::string_view made_by, const PickleValue* args) {
    push(make(kind));
    stack_.back()->text_ = made_by;
    stack_.back()->args_ = args;
  }
  std::string_view keep(std::string text) {
    return tree_.storage_->texts.emplace_back(std::move(text));
  }

  PickleValue* top();
  PickleValue* pop();
  Items pop_to_mark();
  void mark() { marks_.push_back(stack_.size()); }
  void pop_one();  // a value, or a mark when it is on top
  void put(std::uint64_t key) { memo_[key] = top(); }
  void put_next() { put(memo_.size()); }
  void get(std::uint64_t key);

  static void add(PickleValue& target, const Items& items) {
    target.items_.insert(target.items_.end(), items.begin(), items.end());
  }
  static void set_state(PickleValue& object, const PickleValue* state) { object.state_ = state; }

  /// The only value left, after the last opcode, with all limits checked.
  PickleTree finish();
  [[nodiscard]] PickleCursor& in() { return in_; }

 private:
  static PickleTree own(std::string pickle) {
    PickleTree tree;
    tree.storage_->pickle = std::move(pickle);
    return tree;
  }
  [[nodiscard]] std::size_t floor() const { return marks_.empty() ? 0 : marks_.back(); }

  PickleTree tree_;
  PickleCursor in_;
  std::vector<PickleValue*> stack_;
  std::vector<std::size_t> marks_;  // sizes of the stack
  std::unordered_map<std::uint64_t, PickleValue*> memo_;
};

}  // namespace lockstep::checkpoint
