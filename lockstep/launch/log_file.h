// A rank's output in a file that cannot fill the disk.
#pragma once
#include <cstdint>
#include <filesystem>
#include <string_view>

#include "lockstep/base/fd.h"
#include "lockstep/launch/line_splitter.h"
#include "lockstep/launch/lost_output.h"

namespace lockstep::launch {

/// Appends; beyond kMaxLogBytes the file becomes "<name>.1" (its predecessor goes) and a new one
/// starts. A disk that is full or gone loses lines, never the job.
inline constexpr std::uint64_t kMaxLogBytes = std::uint64_t{64} << 20;

class LogFile : public ByteSink {
 public:
  /// Makes the folder. \param lost told of what cannot be written; it must outlive this.
  /// \throws EnvironmentFault when the file cannot be made.
  LogFile(std::filesystem::path path, LostOutput& lost, std::uint64_t max_bytes = kMaxLogBytes);
  void feed(std::string_view bytes) override;

 private:
  void open();
  void turn_over();

  std::filesystem::path path_;
  LostOutput& lost_;
  std::uint64_t max_bytes_;
  std::uint64_t bytes_ = 0;
  Fd fd_;
};

}  // namespace lockstep::launch
