// docs/cli.md and docs/config.md are what the program prints: a changed flag or key takes its page
// along.
#include <gtest/gtest.h>

#include <string>

#include "tests/support/run_program.h"

namespace lockstep::test {
namespace {

void expect_document(const std::string& name) {
  const ProgramResult result = run_program({program("lockstep"), "help", "--markdown", name});
  ASSERT_EQ(result.exit_code, 0) << result.describe();
  const std::string path = "docs/" + name + ".md";
  EXPECT_EQ(read_file(std::string(LOCKSTEP_SOURCE_DIR) + "/" + path), result.out)
      << "write it anew: build/release/bin/lockstep help --markdown " << name << " > " << path;
}

TEST(Documents, TheConfigurationPageIsWhatTheProgramPrints) { expect_document("config"); }

TEST(Documents, TheCommandLinePageIsWhatTheProgramPrints) { expect_document("cli"); }

}  // namespace
}  // namespace lockstep::test
