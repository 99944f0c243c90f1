#include "lockstep/checkpoint/foreign/pickle_stack.h"

#include "lockstep/checkpoint/format/utf8.h"

namespace lockstep::checkpoint {
namespace {

// A pickler remembers each container it writes, so a value takes two bytes and more.
constexpr std::size_t kFreeValues = 1024;
constexpr std::size_t kBytesPerValue = 2;
constexpr std::uint64_t kFreeVisits = 65'536;
constexpr std::uint64_t kVisitsPerByte = 4;

}  // namespace

PickleValue* PickleStack::make(PickleKind kind) {
  auto& values = tree_.storage_->values;
  if (values.size() >= kFreeValues + in_.size() / kBytesPerValue) {
    in_.fail("more values than such a file has");
  }
  values.push_back(PickleValue(kind));
  values.back().index_ = static_cast<std::uint32_t>(values.size() - 1);
  return &values.back();
}

void PickleStack::push_text(PickleKind kind, std::string_view text) {
  if (kind == PickleKind::text && !is_utf8(text)) in_.fail("a text that is not UTF-8");
  push(make(kind));
  stack_.back()->text_ = text;
}

PickleValue* PickleStack::top() {
  if (stack_.size() <= floor()) in_.fail("a value is taken from an empty stack");
  return stack_.back();
}

PickleValue* PickleStack::pop() {
  PickleValue* value = top();
  stack_.pop_back();
  return value;
}

PickleStack::Items PickleStack::pop_to_mark() {
  if (marks_.empty()) in_.fail("there is no mark on the stack");
  const auto first = stack_.begin() + static_cast<std::ptrdiff_t>(marks_.back());
  Items items(first, stack_.end());
  stack_.erase(first, stack_.end());
  marks_.pop_back();
  return items;
}

void PickleStack::pop_one() {
  if (stack_.size() == floor() && !marks_.empty()) {
    marks_.pop_back();
  } else {
    pop();
  }
}

void PickleStack::get(std::uint64_t key) {
  const auto found = memo_.find(key);
  if (found == memo_.end()) in_.fail("nothing was remembered as " + std::to_string(key));
  push(found->second);
}

PickleTree PickleStack::finish() {
  tree_.root_ = pop();
  if (!stack_.empty() || !marks_.empty()) in_.fail("more than one value is left at the end");
  if (in_.left() > 0) in_.fail(std::to_string(in_.left()) + " bytes follow the end");
  PickleShape shape(tree_.storage_->values.size(), kFreeVisits + kVisitsPerByte * in_.size());
  if (const auto fault = shape.fault(*tree_.root_)) in_.fail(*fault);
  return std::move(tree_);
}

}  // namespace lockstep::checkpoint
