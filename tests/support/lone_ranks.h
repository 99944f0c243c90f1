// Ranks of one host without a front, as torchrun starts them: nobody watches over them.
#pragma once
#include <memory>
#include <string>
#include <vector>

#include "lockstep/store/server.h"
#include "tests/support/run_program.h"

namespace lockstep::test {

class LoneRanks {
 public:
  /// \param variables of all, beside those that say which rank one is.
  LoneRanks(int count, const std::vector<std::string>& command,
            const std::vector<std::string>& variables = {})
      : store_("127.0.0.1", 0) {
    for (int rank = 0; rank < count; ++rank) {
      ProgramOptions options;
      options.extra_env = {"RANK=" + std::to_string(rank),
                           "LOCAL_RANK=" + std::to_string(rank),
                           "WORLD_SIZE=" + std::to_string(count),
                           "LOCAL_WORLD_SIZE=" + std::to_string(count),
                           "MASTER_ADDR=127.0.0.1",
                           "MASTER_PORT=" + std::to_string(store_.port()),
                           "TORCHELASTIC_USE_AGENT_STORE=True"};
      options.extra_env.insert(options.extra_env.end(), variables.begin(), variables.end());
      ranks_.push_back(std::make_unique<RunningProgram>(command, options));
    }
  }

  [[nodiscard]] RunningProgram& operator[](std::size_t rank) const { return *ranks_.at(rank); }

 private:
  const store::Server store_;
  std::vector<std::unique_ptr<RunningProgram>> ranks_;
};

}  // namespace lockstep::test
