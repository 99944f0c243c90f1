// What the collectives that this thread is about to issue are for: the words that verdicts and
// disagreements show beside them.
#pragma once
#include <string_view>

namespace lockstep::comm {

/// Names the purpose of the collectives that are issued while it lives; an inner one hides the
/// outer.
class Purpose {
 public:
  /// \param text outlives it: "bucket 4: layer3.0.conv1.weight ..".
  explicit Purpose(std::string_view text);
  Purpose(const Purpose&) = delete;
  Purpose& operator=(const Purpose&) = delete;
  ~Purpose();

  /// Of the calling thread; empty when nobody said.
  [[nodiscard]] static std::string_view current();

 private:
  std::string_view outer_;
};

}  // namespace lockstep::comm
