// docs/cli.md, docs/config.md, docs/run.schema.json and docs/guides/choosing.md are what the
// program prints: a changed flag, key or rule takes them along.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/support/run_program.h"

namespace lockstep::test {
namespace {

/// \param flags of `lockstep help`.
void expect_document(const std::string& path, const std::vector<std::string>& flags) {
  std::vector<std::string> argv{program("lockstep"), "help"};
  argv.insert(argv.end(), flags.begin(), flags.end());
  const ProgramResult result = run_program(argv);
  ASSERT_EQ(result.exit_code, 0) << result.describe();
  std::string command = "build/release/bin/lockstep help";
  for (const std::string& flag : flags) command += " " + flag;
  EXPECT_EQ(read_file(std::string(LOCKSTEP_SOURCE_DIR) + "/" + path), result.out)
      << "write it anew: " << command << " > " << path;
}

TEST(Documents, TheConfigurationPageIsWhatTheProgramPrints) {
  expect_document("docs/config.md", {"--markdown", "config"});
}

TEST(Documents, TheCommandLinePageIsWhatTheProgramPrints) {
  expect_document("docs/cli.md", {"--markdown", "cli"});
}

TEST(Documents, TheGuideForChoosingIsWhatTheProgramPrints) {
  expect_document("docs/guides/choosing.md", {"--markdown", "choosing"});
}

TEST(Documents, TheSchemaOfTheConfigurationIsWhatTheProgramPrints) {
  expect_document("docs/run.schema.json", {"--schema"});
}

}  // namespace
}  // namespace lockstep::test
