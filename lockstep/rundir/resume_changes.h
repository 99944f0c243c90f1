// What changed since a checkpoint was saved: each key of the configuration that differs is free to
// change, goes on with a note, is refused unless --allow-change names it, or cannot be at all.
#pragma once
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "lockstep/base/error.h"
#include "lockstep/config/run_config.h"

namespace lockstep::rundir {

enum class ChangeClass : std::uint8_t {
  free,       // nothing to say
  noted,      // goes on, with a line about it
  refused,    // other samples, steps or roundings than promised: LS-5021 unless allowed
  impossible  // other tensors: LS-5006
};

/// What a change of a key is; a few depend on the values (resume_changes.cpp).
struct ResumeRule {
  std::string_view key;
  ChangeClass change;
  std::string_view why;  // what the change does, one clause
};

/// One row for each key of the registry, in its order.
[[nodiscard]] std::span<const ResumeRule> resume_rules();

/// The key of a change of the data files themselves; no key of the registry.
inline constexpr const char* kDataKey = "data";

struct ResumeChange {
  std::string key;
  ChangeClass change;
  std::string stored;   // as JSON, cut where long; "unset"; empty of kDataKey
  std::string present;  // the same
  std::string why;
};

/// What a comparison needs beside the two configurations. What is not known is not compared.
struct ResumeFacts {
  int stored_ranks = 0;      // data-parallel; 0 = not known
  int present_ranks = 0;     // the same
  std::string stored_data;   // training_data_hash() of the run that saved; empty = not known
  std::string present_data;  // that of this run
};

/// N of a manifest's layout "data=N"; 0 when it says something else.
[[nodiscard]] int data_ranks_of(const std::string& layout);

/// SHA-256 (hex) over names and sizes of the files of data.train: data_manifest() without
/// data.eval. Empty for synthetic data and commands.
[[nodiscard]] std::string training_data_hash(config::DataSection data);

/// The keys that differ and that both configurations read, in the registry's order; then keys that
/// this version does not know, and kDataKey. batch.global_batch, batch.micro_batch and
/// parallel.data are compared as the ranks settle them. A key that is not stored counts as its
/// default. A family that differs stands alone, and so does optimizer.name in its section.
/// \param stored_json "config" of a manifest; anything that is no configuration changes nothing.
[[nodiscard]] std::vector<ResumeChange> resume_changes(const config::RunConfig& config,
                                                       const std::string& stored_json,
                                                       const ResumeFacts& facts = {});

/// Values of --allow-change that are no key (LS-1013), or one whose change cannot be allowed.
[[nodiscard]] std::vector<Problem> allowed_key_problems(const std::vector<std::string>& allowed);

/// allowed_key_problems(), then what forbids going on from `where`: LS-5006 of changes that are
/// impossible, LS-5021 of refused ones that are not allowed.
[[nodiscard]] std::vector<Problem> change_problems(const std::vector<ResumeChange>& changes,
                                                   const std::vector<std::string>& allowed,
                                                   const std::string& where);

/// A line about each change that is noted, or refused and allowed: "optimizer.lr is 0.01, the
/// checkpoint was trained with 0.1: updates are others from here on".
[[nodiscard]] std::vector<std::string> change_notes(const std::vector<ResumeChange>& changes,
                                                    const std::vector<std::string>& allowed);

/// A line about each library that both name with another version. \param stored "versions" of a
/// manifest.
[[nodiscard]] std::vector<std::string> version_notes(
    const std::map<std::string, std::string>& stored,
    const std::map<std::string, std::string>& present);

}  // namespace lockstep::rundir
