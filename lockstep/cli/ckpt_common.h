// What the commands `lockstep ckpt ...` have in common: tables, a line of progress, flags.
#pragma once
#include <cstdint>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "lockstep/base/clock.h"
#include "lockstep/checkpoint/tools/open_checkpoint.h"
#include "lockstep/cli/command.h"

namespace lockstep::cli {

/// "--max-header SIZE"; read by open_given().
inline constexpr Flag kMaxHeaderFlag{
    .name = "--max-header",
    .value = "SIZE",
    .help = "longest header of a safetensors file that is read; default 100MB"};

/// LS-1013 of a flag of the table whose value is no size above 0: for Command::check.
void check_size(const Args& args, std::string_view flag, std::vector<Problem>& problems);

/// Bytes of a flag that check_size() has passed.
[[nodiscard]] std::optional<std::uint64_t> size_of(const Args& args, std::string_view flag);

/// \throws as checkpoint::open_checkpoint(). \param args have --max-header.
[[nodiscard]] checkpoint::OpenCheckpoint open_given(const Args& args, const std::string& path);

/// Columns that are as wide as what stands in them, two blanks between them.
class TextTable {
 public:
  struct Column {
    std::string_view title;
    bool is_right = false;  // numbers
  };

  explicit TextTable(std::vector<Column> columns) : columns_(std::move(columns)) {}

  /// \param cells one for each column; of the last ones empty ones may be left out.
  void row(std::vector<std::string> cells) { rows_.push_back(std::move(cells)); }
  [[nodiscard]] bool empty() const { return rows_.empty(); }
  [[nodiscard]] std::string text(const Context& context) const;

 private:
  std::vector<Column> columns_;
  std::vector<std::vector<std::string>> rows_;
};

/// "verifying: 1.20 GB of 4.00 GB, 812 MB/s, 3.4 s left", written over on a terminal and gone at
/// the end; nothing elsewhere, and nothing of work that takes no time.
class WorkLine {
 public:
  WorkLine(const Context& context, std::string what);
  WorkLine(const WorkLine&) = delete;
  WorkLine& operator=(const WorkLine&) = delete;
  ~WorkLine();

  void show(std::uint64_t bytes_done, std::uint64_t bytes_all);
  [[nodiscard]] double elapsed_s() const { return watch_.elapsed_s(); }

 private:
  std::ostream& err_;
  bool is_live_;
  bool is_drawn_ = false;
  std::string what_;
  Stopwatch watch_;
  double shown_s_ = 0;
};

/// A name from a file, safe to print.
[[nodiscard]] std::string shown(std::string_view text, const Context& context);

[[nodiscard]] std::string bytes_text(std::uint64_t bytes);
/// "812 MB/s"; "?" of no time.
[[nodiscard]] std::string rate_text(std::uint64_t bytes, double seconds);

/// One line; bytes that are no UTF-8 become the replacement character.
[[nodiscard]] std::string to_line(const nlohmann::ordered_json& document);
[[nodiscard]] nlohmann::ordered_json problems_json(const std::vector<Problem>& problems);

/// "*" and "?" as a shell has them, where there is one; else whether `name` has `pattern` in it.
[[nodiscard]] bool is_named(std::string_view name, std::string_view pattern);

/// Elements of a whole tensor. \pre its size in bytes fits 64 bits.
[[nodiscard]] std::uint64_t elements_of(const checkpoint::Shape& shape);

/// 4 when anything is wrong with data, 3 when only the disk refused, 0 without problems.
[[nodiscard]] Exit exit_of(const std::vector<Problem>& problems);

/// A line for people on the error stream: "note: ...".
void note(const Context& context, std::string_view kind, const std::string& text);

/// --registry DIR, else config::tags_folder(). \throws EnvironmentFault (LS-5016) without either.
[[nodiscard]] std::filesystem::path registry_of(const Args& args);
inline constexpr Flag kRegistryFlag{
    .name = "--registry",
    .value = "DIR",
    .help = "folder of the tags; default $LOCKSTEP_TAGS or ~/.local/share/lockstep/tags"};

}  // namespace lockstep::cli
