// The membership of a job of one host: nobody to wait for, restarts are counted here.
#pragma once
#include <memory>
#include <optional>
#include <string>

#include "lockstep/launch/crash_loop.h"
#include "lockstep/rendezvous/session.h"
#include "lockstep/store/server.h"

namespace lockstep::launch {

class LocalSession : public rendezvous::Session {
 public:
  struct Settings {
    rendezvous::Agent agent;
    std::string run_id;
    int max_restarts = 0;
    std::string store_host = "127.0.0.1";
    int store_port = 0;  // 0 = a free one
    bool ours = false;   // ranks keep the exit codes of docs/cli.md
  };
  explicit LocalSession(Settings settings);

  /// Each round has a store of its own: keys of an earlier one would mislead its ranks.
  [[nodiscard]] std::variant<rendezvous::Round, rendezvous::Verdict> next(int stop_fd) override;
  [[nodiscard]] int interrupt_fd() const override { return -1; }
  [[nodiscard]] std::string interrupt_reason() const override { return ""; }
  [[nodiscard]] bool is_fenced() const override { return false; }
  void report(const rendezvous::RoundEnd& end) override;

 private:
  void end_job(Exit exit, const rendezvous::RoundEnd& end, std::string because);

  Settings settings_;
  CrashLoop crash_loop_;
  int restarts_ = 0;
  int rounds_ = 0;
  std::unique_ptr<store::Server> store_;
  std::optional<rendezvous::Verdict> verdict_;
};

}  // namespace lockstep::launch
