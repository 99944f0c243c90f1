#include "lockstep/launch/failure_text.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/scratch_folder.h"

namespace lockstep::launch {
namespace {

using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;

TEST(FailureText, ReadsWhatTorchsRecordWrites) {
  const auto file = parse_error_file(
      R"({"message": {"message": "ValueError: boom", "extraInfo": {"py_callstack":
          "Traceback (most recent call last):\n  File x\nValueError: boom\n", "timestamp": "1"}}})");
  ASSERT_TRUE(file);
  EXPECT_EQ(file->message, "ValueError: boom");
  EXPECT_THAT(file->traceback, HasSubstr("File x"));
  EXPECT_EQ(parse_error_file(R"({"message": "in one line"})")->message, "in one line");
}

TEST(FailureText, WhatIsNotSuchAFileIsNothing) {
  for (const char* text : {"", "{", "[]", "{}", R"({"message": 3})", "null"}) {
    EXPECT_FALSE(parse_error_file(text)) << text;
  }
  EXPECT_FALSE(read_error_file(""));
  EXPECT_FALSE(read_error_file("/nowhere/error.json"));
  const test::ScratchFolder folder;
  EXPECT_TRUE(read_error_file(folder.write("error.json", R"({"message": "x"})")));
}

TEST(FailureText, TheLastTracebackOfPythonIsFoundAmongOtherLines) {
  const std::string text = find_traceback(
      "starting\n"
      "Traceback (most recent call last):\n  File \"a.py\", line 1, in f\nKeyError: 'old'\n"
      "went on\n"
      "Traceback (most recent call last):\n"
      "  File \"train.py\", line 4, in <module>\n"
      "    raise ValueError('two\\nlines')\n"
      "ValueError: two\n"
      "lines\n"
      "\n"
      "bye\n");
  EXPECT_THAT(text, StartsWith("Traceback"));
  EXPECT_THAT(text, HasSubstr("ValueError: two\nlines"));
  EXPECT_THAT(text, Not(HasSubstr("old")));
  EXPECT_THAT(text, Not(HasSubstr("bye")));
}

TEST(FailureText, AnExceptionIsShownWithTheOneThatCausedIt) {
  const std::string text = find_traceback(
      "Traceback (most recent call last):\n  File \"a.py\", line 1, in f\nKeyError: 'root'\n"
      "\n"
      "During handling of the above exception, another exception occurred:\n"
      "\n"
      "Traceback (most recent call last):\n  File \"b.py\", line 2, in g\nRuntimeError: later\n");
  EXPECT_THAT(text, HasSubstr("KeyError: 'root'"));
  EXPECT_THAT(text, HasSubstr("RuntimeError: later"));
}

TEST(FailureText, TheRankThatPytorchPutsBeforeEachLineIsTakenOff) {
  EXPECT_EQ(find_traceback("[rank1]: Traceback (most recent call last):\n"
                           "[rank1]:   File \"a.py\", line 1, in f\n"
                           "[rank1]: KeyError: 'x'\n"
                           "WARNING something else\n"),
            "Traceback (most recent call last):\n  File \"a.py\", line 1, in f\nKeyError: 'x'");
}

TEST(FailureText, TheLastWordsOfACppProgramCount) {
  EXPECT_EQ(find_traceback("hello\n"
                           "terminate called after throwing an instance of 'std::runtime_error'\n"
                           "  what():  no data\n"),
            "terminate called after throwing an instance of 'std::runtime_error'\n"
            "  what():  no data");
  EXPECT_THAT(find_traceback("Fatal Python error: Segmentation fault\n\nCurrent thread 1:\n"),
              StartsWith("Fatal Python error"));
  EXPECT_EQ(find_traceback("nothing of the kind\n"), "");
}

}  // namespace
}  // namespace lockstep::launch
