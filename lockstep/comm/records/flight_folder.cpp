#include "lockstep/comm/records/flight_folder.h"

#include <algorithm>
#include <system_error>
#include <utility>

#include "lockstep/base/error.h"
#include "lockstep/comm/records/flight_file.h"

namespace lockstep::comm {
namespace {

namespace fs = std::filesystem;
constexpr std::chrono::milliseconds kErrorLimit{250};

/// Times of a record are of its host's monotonic clock; another host's is found by its wall clock.
RankView view_of(RankFlight flight, const ProcessIdentity& own) {
  RankView view;
  view.process = look_at(flight.process, own);
  view.now_ns =
      flight.process.boot_id == own.boot_id ? monotonic_ns() : wall_ns() - flight.wall_offset_ns;
  view.flight = std::move(flight);
  return view;
}

std::vector<fs::path> ring_files(const fs::path& folder) {
  std::vector<fs::path> files;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(folder, error)) {
    const std::string name = entry.path().filename().string();
    if (name.starts_with("rank-") && name.ends_with(".ring")) files.push_back(entry.path());
  }
  std::sort(files.begin(), files.end());
  return files;
}

/// Two files of one rank can only be copies by hand; the first stays.
void keep_one_job(std::vector<RankView>& views, std::uint64_t job) {
  std::erase_if(views, [&](const RankView& view) { return view.flight.job != job; });
  std::stable_sort(views.begin(), views.end(), [](const RankView& a, const RankView& b) {
    return a.flight.rank < b.flight.rank;
  });
  views.erase(std::unique(views.begin(), views.end(),
                          [](const RankView& a, const RankView& b) {
                            return a.flight.rank == b.flight.rank;
                          }),
              views.end());
}

}  // namespace

std::filesystem::path flight_file(const std::filesystem::path& run_dir, int rank) {
  return run_dir / "flight" / ("rank-" + std::to_string(rank) + ".ring");
}

FlightFolder look_at_folder(const std::filesystem::path& folder, std::chrono::milliseconds limit) {
  const auto end = std::chrono::steady_clock::now() + limit;
  const ProcessIdentity own = own_identity();
  FlightFolder out;
  for (const fs::path& file : ring_files(folder)) {
    if (std::chrono::steady_clock::now() > end) {
      out.notes.push_back("not all flight files were read in time");
      break;
    }
    try {
      out.views.push_back(view_of(read_flight(file), own));
    } catch (const Error& error) {
      const Problem& problem = error.problems().front();
      out.notes.push_back(problem.where + ": " + problem.what);
    }
  }
  const auto newest = std::max_element(out.views.begin(), out.views.end(),
                                       [](const RankView& a, const RankView& b) {
                                         return a.flight.created_wall_ns < b.flight.created_wall_ns;
                                       });
  if (newest != out.views.end()) keep_one_job(out.views, newest->flight.job);
  return out;
}

std::string verdict_beside(const FlightRecorder& own) {
  if (own.file().empty()) return "";
  FlightFolder folder = look_at_folder(own.file().parent_path(), kErrorLimit);
  const RankFlight mine = own.snapshot();
  keep_one_job(folder.views, mine.job);
  if (folder.views.size() < 2) return "";
  const Verdict verdict = judge(folder.views, {.patience_s = 0});
  return verdict.is_wrong() ? verdict.text : "";
}

}  // namespace lockstep::comm
