#include "lockstep/launch/start_trouble.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <cerrno>

#include "lockstep/launch/child_process.h"
#include "tests/support/problem_of.h"
#include "tests/support/scratch_folder.h"

namespace lockstep::launch {
namespace {

using testing::HasSubstr;

/// What starting a file of these bytes says.
Problem trouble_of(const test::ScratchFolder& folder, const std::string& bytes,
                   mode_t mode = 0700) {
  const std::string path = folder.write("program", bytes);
  ::chmod(path.c_str(), mode);
  return test::problem_of<EnvironmentFault>([&] {
    ChildSpec spec;
    spec.program = find_program(path, "");
    spec.argv = {path};
    ChildProcess child(spec);
  });
}

TEST(StartTrouble, NamesWhatTheFileLacks) {
  const test::ScratchFolder folder;
  const auto windows = trouble_of(folder, "#!/bin/sh\r\necho hello\r\n");
  EXPECT_THAT(windows.what, HasSubstr("/bin/sh with a carriage return"));
  EXPECT_THAT(windows.fix, HasSubstr("sed -i 's/\\r$//'"));
  EXPECT_THAT(trouble_of(folder, "#! /no/such/python -u\n").what,
              HasSubstr("asks for /no/such/python, which does not exist"));
  EXPECT_THAT(trouble_of(folder, "echo hello\n").fix, HasSubstr("#!/bin/sh"));
  EXPECT_THAT(trouble_of(folder, "").what, HasSubstr("neither a program"));
  EXPECT_THAT(trouble_of(folder, "#!/bin/sh\n", 0600).fix, HasSubstr("chmod +x"));
  const auto of_folder =
      test::problem_of<EnvironmentFault>([&] { (void)find_program(folder.path().string(), ""); });
  EXPECT_THAT(of_folder.what, HasSubstr("it is a folder"));
  const auto missing =
      test::problem_of<EnvironmentFault>([&] { (void)find_program("/no/such/program", ""); });
  EXPECT_THAT(missing.what, HasSubstr("No such file"));
}

TEST(StartTrouble, SaysWhatIsTooLong) {
  const auto of_arguments = test::problem_of<EnvironmentFault>([&] {
    ChildSpec spec;
    spec.program = "/bin/true";
    spec.argv = {"true", std::string(200'000, 'x')};
    ChildProcess child(spec);
  });
  EXPECT_THAT(of_arguments.what, HasSubstr("arguments and environment variables are too long"));
  EXPECT_THAT(of_arguments.fix, HasSubstr("in a file"));
  const auto of_name = test::problem_of<EnvironmentFault>(
      [&] { (void)find_program("./" + std::string(300, 'x'), ""); });
  EXPECT_THAT(of_name.what, HasSubstr("the name is too long"));
}

TEST(StartTrouble, OfAScriptShowsBeforeItIsStarted) {
  const test::ScratchFolder folder;
  EXPECT_FALSE(trouble_of_script(folder.write("good", "#!/bin/sh -e\n")));
  EXPECT_FALSE(trouble_of_script(folder.write("bare", "echo hello\n")));
  EXPECT_FALSE(trouble_of_script(folder.file("missing")));
  EXPECT_TRUE(trouble_of_script(folder.write("windows", "#!/bin/sh\r\n")));
}

TEST(StartTrouble, NamesTheLimitThatWasReached) {
  EXPECT_THAT(start_trouble("/bin/sh", EMFILE).problems()[0].fix, HasSubstr("ulimit -n, now "));
  EXPECT_THAT(start_trouble("/bin/sh", EAGAIN).problems()[0].fix, HasSubstr("ulimit -u, now "));
}

}  // namespace
}  // namespace lockstep::launch
