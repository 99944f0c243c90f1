// lockstep ckpt verify: every byte of a checkpoint that can be compared with something.
#include <algorithm>
#include <array>
#include <ostream>

#include "lockstep/base/units.h"
#include "lockstep/checkpoint/foreign/torch_file.h"
#include "lockstep/checkpoint/format/step_folder.h"
#include "lockstep/checkpoint/format/step_source.h"
#include "lockstep/cli/ckpt_common.h"
#include "lockstep/cli/commands.h"

namespace lockstep::cli {
namespace {

namespace fs = std::filesystem;
using checkpoint::TensorSource;
using nlohmann::ordered_json;

constexpr std::array kFlags{kMaxHeaderFlag};

constexpr auto kExamples = std::to_array<Example>({
    {"lockstep ckpt verify runs/mnist", "every complete checkpoint of the run"},
    {"lockstep ckpt verify model.pt shards/", "files of other programs"},
});

constexpr std::size_t kReadBytes = std::size_t{4} << 20;

/// Checks one open checkpoint, tensor by tensor, and says how far it is.
class Verifier {
 public:
  Verifier(const TensorSource& source, WorkLine& line) : source_(source), line_(line) {
    for (const auto& tensor : source.tensors()) bytes_ += tensor.bytes();
  }

  std::vector<Problem> run() {
    if (const auto* torch = dynamic_cast<const checkpoint::TorchFileSource*>(&source_)) {
      check_entries(torch->archive().zip());
      return std::move(problems_);
    }
    const auto* step = dynamic_cast<const checkpoint::StepSource*>(&source_);
    for (std::size_t index = 0; index < source_.tensors().size(); ++index) {
      if (step == nullptr) {
        read(index);
      } else {
        for (Problem& problem : step->verify(index)) problems_.push_back(std::move(problem));
        pass(source_.tensors()[index].bytes());
      }
    }
    return std::move(problems_);
  }

  [[nodiscard]] std::uint64_t bytes() const { return bytes_; }

 private:
  /// Each entry of the archive has a checksum, those that hold no tensor too.
  void check_entries(const checkpoint::ZipArchive& zip) {
    bytes_ = 0;
    for (const auto& entry : zip.entries()) bytes_ += entry.bytes;
    for (const auto& entry : zip.entries()) {
      guarded([&] { zip.verify(entry); });
      pass(entry.bytes);
    }
  }

  void read(std::size_t index) {
    const std::uint64_t bytes = source_.tensors()[index].bytes();
    guarded([&] {
      for (std::uint64_t begin = 0; begin < bytes; begin += kReadBytes) {
        buffer_.resize(std::min<std::uint64_t>(kReadBytes, bytes - begin));
        source_.read(index, begin, buffer_);
        line_.show(done_ + begin, bytes_);
      }
    });
    pass(bytes);
  }

  template <typename Work>
  void guarded(const Work& work) {
    try {
      work();
    } catch (const Error& error) {
      problems_.insert(problems_.end(), error.problems().begin(), error.problems().end());
    }
  }

  void pass(std::uint64_t bytes) {
    done_ += bytes;
    line_.show(done_, bytes_);
  }

  const TensorSource& source_;
  WorkLine& line_;
  std::vector<Problem> problems_;
  std::vector<std::byte> buffer_;
  std::uint64_t bytes_ = 0;
  std::uint64_t done_ = 0;
};

/// Of a run all complete steps.
std::vector<std::string> targets_of(const Args& args) {
  std::vector<std::string> targets;
  for (const std::string& given : args.words()) {
    const checkpoint::FolderKind found = checkpoint::folder_kind(given);
    if (found.kind != checkpoint::CheckpointKind::run) {
      targets.push_back(given);
      continue;
    }
    for (const auto& step : checkpoint::complete_steps(found.path)) {
      targets.push_back(step.path.string());
    }
  }
  return targets;
}

/// Prints what is right, gives back what is wrong.
std::vector<Problem> verify(const std::string& path, const Args& args, const Context& context) {
  try {
    WorkLine line(context, "verifying " + shown(path, context));
    const checkpoint::OpenCheckpoint open = open_given(args, path);
    Verifier verifier(*open.source, line);
    std::vector<Problem> problems = verifier.run();
    if (!context.json && !context.quiet && problems.empty()) {
      const double seconds = line.elapsed_s();
      context.out << shown(path, context) << ": good, "
                  << counted(static_cast<std::int64_t>(open.source->tensors().size()), "tensor")
                  << ", " << bytes_text(verifier.bytes()) << " in " << format_duration(seconds)
                  << ", " << rate_text(verifier.bytes(), seconds) << std::endl;
    }
    return problems;
  } catch (const Error& error) {
    return error.problems();
  }
}

std::vector<Problem> check(const Args& args, const Context&) {
  std::vector<Problem> problems;
  check_size(args, kMaxHeaderFlag.name, problems);
  return problems;
}

Exit run(const Args& args, const Context& context) {
  std::vector<Problem> all;
  for (const std::string& path : targets_of(args)) {
    std::vector<Problem> problems = verify(path, args, context);
    if (!context.json) context.err << to_text(problems) << std::flush;
    all.insert(all.end(), std::make_move_iterator(problems.begin()),
               std::make_move_iterator(problems.end()));
  }
  if (context.json) {
    context.out << to_line({{"ok", all.empty()}, {"problems", problems_json(all)}}) << std::endl;
  }
  return exit_of(all);
}

}  // namespace

Command ckpt_verify_command() {
  return {
      .name = "ckpt verify",
      .summary = "read all of a checkpoint and compare it with its checksums",
      .description =
          "Own checkpoints have a checksum for each 4 MiB of a tensor, the entries of a file of "
          "torch.save() one each: every one is compared. safetensors have none: their headers "
          "are compared with the files and every tensor is read. All problems are found before "
          "it ends, each with file, tensor and offset. Exit code 0 when all is well, 4 when "
          "something is damaged, 3 when only the disk refused.",
      .examples = kExamples,
      .positional = {.name = "PATH",
                     .help = "files and folders; of a run directory all complete checkpoints",
                     .at_least = 1,
                     .at_most = 1'000'000},
      .flags = kFlags,
      .json = "ok and problems (code, where, what, fix).",
      .run = run,
      .check = check};
}

}  // namespace lockstep::cli
