// All that can be wrong with a run before it is started, found in one go.
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "lockstep/base/error.h"
#include "lockstep/config/parse.h"
#include "lockstep/data/formats/data_size.h"
#include "lockstep/parallel/plan/parallel_plan.h"
#include "lockstep/topology/cluster.h"

namespace lockstep::rundir {

/// A run that may start.
struct CheckedRun {
  config::RunConfig config;
  parallel::ParallelPlan plan;
  data::DataSize data_size;
  std::vector<std::string> notes;  // what was taken otherwise than the file says
};

/// Collects faults. A later check leaves out what is only the consequence of an earlier fault: of a
/// batch, say, whose numbers could not be read.
class RunCheck {
 public:
  /// Takes the faults of the configuration's text over, and looks how large its data are.
  explicit RunCheck(config::ParsedConfig parsed);

  [[nodiscard]] const config::RunConfig& config() const { return parsed_.config; }
  [[nodiscard]] const std::vector<std::string>& notes() const { return parsed_.notes; }

  /// The plan of `config`, which reads the data of config(), on `ranks` ranks; nothing where batch,
  /// model or strategy are at fault.
  /// \param where is added to the place of a fault, as in " on 2 ranks".
  std::optional<parallel::ParallelPlan> plan(const config::RunConfig& config, const Host& host,
                                             int ranks, const std::string& where = "");
  void add(const Error& error, const std::string& where = "");
  /// Looks at the data files of config() (data::check_data()).
  void check_data();

  /// \throws Error with every fault: exit code 2 when one is of the configuration, else that of the
  /// first fault of the data.
  void require_none() const;
  /// \throws as require_none(). \param plan that plan() gave.
  [[nodiscard]] CheckedRun checked(std::optional<parallel::ParallelPlan> plan) const;

 private:
  [[nodiscard]] bool is_consequence(const Problem& problem) const;

  config::ParsedConfig parsed_;
  data::DataSize data_size_;
  std::vector<Problem> problems_;
  Exit exit_ = Exit::ok;
};

}  // namespace lockstep::rundir
