// JSON that somebody else wrote, read event by event: a text of a hundred megabytes needs no
// document in memory. As strict as strict_json.h.
#pragma once
#include <cstdint>
#include <set>
#include <string>
#include <string_view>
#include <vector>

namespace lockstep::checkpoint {

/// A value that is neither object nor list.
struct JsonScalar {
  enum class Type { null, boolean, natural, negative, real, text };

  Type type = Type::null;
  std::uint64_t natural = 0;
  double real = 0;
  const std::string* text = nullptr;
};

/// One kind of document: what to do at each event.
class JsonEvents {
 public:
  /// \param where the file, for messages; it outlives this.
  JsonEvents(int max_depth, const std::string& where) : max_depth_(max_depth), where_(where) {}
  JsonEvents(const JsonEvents&) = delete;
  JsonEvents& operator=(const JsonEvents&) = delete;
  virtual ~JsonEvents() = default;

  /// Reads all of `text`. \throws BadData (LS-5004) for invalid JSON or UTF-8, a key given twice in
  /// one object, nesting deeper than `max_depth`, and as the events do.
  void read(std::string_view text);

 protected:
  /// Open objects and lists around this event: 0 outside the document, 1 in its root.
  [[nodiscard]] int level() const { return level_; }
  [[nodiscard]] const std::string& where() const { return where_; }

  virtual void on_key(const std::string& key) = 0;
  virtual void on_scalar(const JsonScalar& scalar) = 0;
  virtual void on_open(bool is_object) = 0;  // level() counts the new one
  virtual void on_close() = 0;               // level() still counts it
  /// Whether keys of the open object are compared with each other here; where there may be very
  /// many, a reader does that itself at the end.
  [[nodiscard]] virtual bool are_keys_compared() const { return true; }

 private:
  struct Adapter;
  void open(bool is_object);
  void close();
  void key(const std::string& key);

  int max_depth_;
  const std::string& where_;
  int level_ = 0;
  std::vector<std::set<std::string>> keys_;  // by level
};

/// The first of the names that stands twice; nullptr when there is none.
[[nodiscard]] const std::string* first_twice(std::vector<const std::string*> names);

}  // namespace lockstep::checkpoint
