#include "lockstep/cli/train_front.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <sstream>
#include <string>

#include "lockstep/cli/parser.h"

namespace lockstep::cli {
namespace {

TEST(TrainFront, TheCommandToGoOnIsWholeAndReadyForAShell) {
  std::ostringstream sink;
  const Context context{.out = sink, .err = sink, .program_path = "/opt/bin/lockstep"};
  const Args args =
      parse_args(*find_command("train"), {"my runs/a.toml", "--set", "optimizer.lr=0.05", "--set",
                                          "data.train=!zcat it's.gz", "--nproc-per-node", "2",
                                          "--resume", "none", "--quiet"})
          .args;
  EXPECT_EQ(command_to_go_on(args, context, "runs/a-1"),
            "/opt/bin/lockstep train 'my runs/a.toml' --set optimizer.lr=0.05 --set "
            "'data.train=!zcat it'\\''s.gz' --nproc-per-node 2 --quiet --run-dir runs/a-1");
}

TEST(TrainFront, AProgramOfTheWorkingDirectoryIsNamedSoThatAShellFindsIt) {
  std::ostringstream sink;
  const std::string here = std::filesystem::current_path() / "lockstep";
  const Context context{.out = sink, .err = sink, .program_path = here};
  const Args args = parse_args(*find_command("train"), {"a.toml"}).args;
  const std::string line = command_to_go_on(args, context, "runs/a-1");
  EXPECT_EQ(line, "./lockstep train a.toml --run-dir runs/a-1");
}

}  // namespace
}  // namespace lockstep::cli
