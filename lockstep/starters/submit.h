// Scripts and manifests by which a scheduler starts a training, as text. Pure functions: one file a
// kind, and a table of them.
#pragma once
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace lockstep::starters {

/// A training as a scheduler is to start it.
struct Submission {
  std::string run_file;                 // RUN.toml as it was named
  std::string run_text;                 // what stands in it
  std::string name = "run";             // of the run
  std::vector<std::string> more_words;  // of `lockstep train`: "--set", "optimizer.lr=0.1"
  std::string run_dir;                  // empty = a default of the kind
  int nnodes = 1;
  int nproc_per_node = 1;
  int threads = 1;                        // of a rank
  std::int64_t rank_memory_bytes = 0;     // planned
  std::int64_t shared_memory_bytes = 0;   // of them in /dev/shm, planned
  bool saves_between = false;             // checkpoint.every is set
  std::string time_limit = "1-00:00:00";  // of Slurm: days-hours:minutes:seconds
  std::string image = "lockstep:latest";  // of a container that holds lockstep
  std::string secret_hex;                 // 64 digits, new for each manifest
};

struct SubmitKind {
  std::string_view name;     // "slurm"
  std::string_view summary;  // one line, lower case
  std::string (*print)(const Submission& submission);
};

[[nodiscard]] std::span<const SubmitKind> submit_kinds();

/// The kinds' own files.
[[nodiscard]] std::string slurm_script(const Submission& submission);
[[nodiscard]] std::string indexed_job_manifest(const Submission& submission);
[[nodiscard]] std::string pytorch_job_manifest(const Submission& submission);

}  // namespace lockstep::starters
