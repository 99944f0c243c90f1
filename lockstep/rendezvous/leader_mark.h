// What an agent that leads leaves on its host until its job has ended, for the one that takes its
// place: until when it may have answered others, whose ranks live on for a while after an answer.
#pragma once
#include <filesystem>

#include "lockstep/base/socket.h"
#include "lockstep/rendezvous/endpoint.h"
#include "lockstep/rendezvous/job_secret.h"

namespace lockstep::rendezvous {

/// A file of eight bytes, closed to other users. A restart of the machine should empty its folder.
class LeaderMark {
 public:
  /// Opens the file of a job at an endpoint and reads what the agent before left there.
  LeaderMark(const std::filesystem::path& folder, const JobKey& key, const Endpoint& endpoint);

  /// Whether there is one: the folder may be missing or full.
  [[nodiscard]] bool is_kept() const { return static_cast<bool>(file_); }
  /// Until when an agent before may have answered; long ago when none did, or its job had ended.
  [[nodiscard]] Deadline before() const { return before_; }
  /// This one may answer for a moment from now on. To be called before answers; mostly a look at
  /// the clock.
  void renew();
  /// No rank of the job runs anywhere.
  void clear();

 private:
  void write(Deadline until);

  std::filesystem::path path_;
  Fd file_;
  Deadline before_{};
  Deadline until_{};
};

}  // namespace lockstep::rendezvous
