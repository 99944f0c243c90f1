#include "lockstep/base/error.h"

#include <gtest/gtest.h>

namespace lockstep {
namespace {

TEST(ProblemText, HasPlaceCodeFaultAndFix) {
  EXPECT_EQ(to_text({{"LS-1", "a:3", "wrong", "right it"}, {"LS-2", "", "also wrong", ""}}),
            "a:3: error LS-1: wrong\n  fix: right it\nerror LS-2: also wrong\n");
}

TEST(ProblemText, NothingInItSteersATerminal) {
  EXPECT_EQ(to_text({{"LS-1", "\x1b]0;x\x07",
                      "a\rb\x7f\xc2\x9b"
                      "2J",
                      "two\nlines\t\xc3\xa9"}}),
            "?]0;x?: error LS-1: a?b??2J\n  fix: two\nlines\t\xc3\xa9\n");
  EXPECT_EQ(to_text({{"LS-1", "", "cut \xc2", ""}}), "error LS-1: cut \xc2\n");
}

TEST(ProblemText, AsJsonIsOneLineOfUtf8) {
  EXPECT_EQ(to_json_text({{"LS-1", "w", "a\n\x1b\xff", ""}}),
            R"({"errors":[{"code":"LS-1","where":"w","what":"a\n\u001b)"
            "\xef\xbf\xbd"
            R"(","fix":""}]})");
}

}  // namespace
}  // namespace lockstep
