#include "lockstep/rendezvous/leader_link.h"

#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <system_error>

#include "lockstep/base/error.h"
#include "lockstep/base/port_holder.h"
#include "lockstep/rendezvous/records.h"

namespace lockstep::rendezvous {
namespace {

using std::chrono::milliseconds;
constexpr std::size_t kLineageBytes = 16;
constexpr std::size_t kNumberBytes = 8;
constexpr milliseconds kFirstPause{5};
constexpr milliseconds kLongestPause{250};
constexpr milliseconds kPauseWithoutAnswer{500};
constexpr milliseconds kRepeatedAttempt{3000};  // SYNs of a new one come sooner than the third

/// An agent that leads may be slow to answer; another program never will.
bool is_another_lockstep(int pid) {
  namespace fs = std::filesystem;
  std::error_code error;
  const auto other = fs::read_symlink("/proc/" + std::to_string(pid) + "/exe", error);
  return pid > 0 && !error && other == fs::read_symlink("/proc/self/exe", error) &&
         pid != static_cast<int>(::getpid());
}

/// Whether ranks may have been started by a state; what cannot be read says nothing against it.
bool has_begun(const std::string& state) {
  try {
    return !state.empty() && state_from(state).generation > 0;
  } catch (const BadData&) {
    return true;
  }
}

std::string leader_for_people(const std::string& state) {
  try {
    return state_from(state).leader_name + ", which leads this job,";
  } catch (const BadData&) {
    return "the agent that leads this job";
  }
}

}  // namespace

LeaderLink::LeaderLink(const TcpBoardOptions& options)
    : options_(options), tell_at_(started_ + kTellWaitingEvery) {}

void LeaderLink::tend(std::vector<BoardEvent>& events) {
  if (link_.has_value()) {
    look_at_link(events);
  } else if (attempt_.has_value()) {
    look_at_attempt(events);
  } else if (Clock::now() >= try_at_) {
    seek(events);
  }
  if (!joined_) tell_waiting();
}

void LeaderLink::seek(std::vector<BoardEvent>& events) {
  link_since_ = Clock::now();
  if (!was_joined()) {
    try {
      addresses_ = resolve(options_.endpoint.host, options_.endpoint.port);
    } catch (const EnvironmentFault& fault) {
      return in_trouble(Unreached::name, fault.problems().front().what);
    }
  }
  BindTest test = test_bind(options_.endpoint, addresses_);
  if (test.result == BindTest::Result::bound) {
    listener_ = std::move(test.listener);
    const bool is_name =
        options_.endpoint.host.find_first_not_of("0123456789.:abcdefABCDEF") != std::string::npos;
    if (test.only_loopback && is_name && options_.endpoint.host != "localhost" &&
        options_.on_note) {
      options_.on_note("'" + options_.endpoint.host +
                       "' is a loopback address on this host: agents of other hosts cannot "
                       "connect; name the address by number, or mend /etc/hosts");
    }
    return;
  }
  is_own_host_ = test.result == BindTest::Result::in_use;
  attempt_.emplace(options_.endpoint, addresses_);
  look_at_attempt(events);
}

void LeaderLink::look_at_attempt(std::vector<BoardEvent>& events) {
  if (!attempt_->look()) {
    if (Clock::now() < attempt_end()) return;
    attempt_->give_up();
  }
  if (attempt_->is_connected()) {
    link_.emplace(attempt_->take_connected(), Side::caller, options_.key);
    attempt_.reset();
    link_since_ = Clock::now();
    return look_at_link(events);
  }
  const Unreached unreached = attempt_->unreached();
  const std::string text = attempt_->text();
  attempt_.reset();
  in_trouble(unreached, text);
}

void LeaderLink::look_at_link(std::vector<BoardEvent>& events) {
  const bool was_proved = link_->is_proved();
  link_->flush();
  link_->receive();
  if (!was_proved && link_->is_proved()) {
    link_->send(FrameKind::join, options_.agent);
    link_->receive();
  }
  while (auto frame = link_->next()) take(*frame, events);
  if (joined_) send_newest();
  const auto now = Clock::now();
  if (link_->end() != ControlLink::End::open) {
    if (!link_->is_proved() && link_->end() != ControlLink::End::closed) fail_for(*link_);
    return in_trouble(link_->is_proved() ? Unreached::other : Unreached::no_proof,
                      "what listens there " + link_->end_text());
  }
  if (!joined_ && now >= link_since_ + proof_limit()) {
    return in_trouble(Unreached::no_proof,
                      "what listens there accepts a connection and says nothing");
  }
  if (joined_ && !sent_.empty() && now >= answered_ + options_.times.silence) {
    return in_trouble(Unreached::no_answer, "the leading agent does not answer");
  }
}

void LeaderLink::take(Frame& frame, std::vector<BoardEvent>& events) {
  if (frame.kind == FrameKind::welcome && !joined_ && frame.payload.size() > kLineageBytes) {
    welcome(frame.payload, events);
  } else if (frame.kind == FrameKind::state && joined_) {
    last_state_ = frame.payload;
    events.push_back({BoardEvent::Kind::state, {}, std::move(frame.payload)});
  } else if (frame.kind == FrameKind::heard && joined_ && frame.payload.size() == kNumberBytes) {
    heard(frame.payload, events);
  }
}

void LeaderLink::welcome(const std::string& payload, std::vector<BoardEvent>& events) {
  const std::string lineage = payload.substr(0, kLineageBytes);
  if (was_joined() && lineage != lineage_ && has_begun(last_state_)) {
    fail("LS-3064",
         "the agent that led this job has ended, and another start of the job is led there",
         "start the agents of all hosts again");
  }
  lineage_ = lineage;
  joined_ = true;
  trouble_.reset();
  pause_ = {};
  answered_ = Clock::now();
  record_waits_ = !record_.empty();
  events.push_back({BoardEvent::Kind::not_leading, payload.substr(kLineageBytes), {}});
}

void LeaderLink::heard(const std::string& payload, std::vector<BoardEvent>& events) {
  std::uint64_t number = 0;
  std::memcpy(&number, payload.data(), kNumberBytes);
  answered_ = Clock::now();
  while (!sent_.empty() && sent_.front().first <= number) {
    const auto [sent_number, published] = sent_.front();
    sent_.pop_front();
    if (sent_number != number) continue;
    events.push_back({BoardEvent::Kind::heard, {}, {}, published});
  }
}

void LeaderLink::publish(const std::string& record) {
  record_ = record;
  published_ = Clock::now();
  record_waits_ = true;
  if (joined_) send_newest();
}

/// Older records that did not leave in time are left out.
void LeaderLink::send_newest() {
  if (!record_waits_ || link_->has_output()) return;
  record_waits_ = false;
  if (sent_.empty()) answered_ = Clock::now();
  sent_.emplace_back(++number_, published_);
  std::string payload(kNumberBytes, '\0');
  std::memcpy(payload.data(), &number_, kNumberBytes);
  link_->send(FrameKind::record, payload + record_);
}

void LeaderLink::leave() {
  if (!joined_) return;
  link_->send(FrameKind::leave, {});
  link_->finish_sending();
}

void LeaderLink::in_trouble(Unreached trouble, const std::string& text) {
  const auto now = Clock::now();
  if (trouble_ != trouble) {
    trouble_ = trouble;
    trouble_since_ = joined_ ? now : link_since_;
    pause_ = kFirstPause;
  }
  trouble_text_ = text;
  link_.reset();
  joined_ = false;
  sent_.clear();
  judge_trouble();
  const bool answers = trouble == Unreached::refused || trouble == Unreached::no_proof ||
                       trouble == Unreached::other;
  try_at_ = now + (answers ? pause_ : kPauseWithoutAnswer);
  pause_ = std::min(pause_ * 2, kLongestPause);
}

Deadline LeaderLink::attempt_end() const {
  if (!was_joined()) return link_since_ + options_.times.hopeless;
  return std::min(link_since_ + kRepeatedAttempt, answered_ + options_.times.lost);
}

milliseconds LeaderLink::proof_limit() const {
  return is_own_host_ && !was_joined() ? options_.times.stranger : options_.times.silence;
}

milliseconds LeaderLink::patience() const {
  const TcpBoardTimes& times = options_.times;
  if (was_joined()) return trouble_ == Unreached::refused ? times.ended : times.lost;
  if (trouble_ == Unreached::refused) return times.join;
  const bool is_strange = trouble_ == Unreached::no_proof && is_own_host_ &&
                          !is_another_lockstep(port_holder_pid(options_.endpoint.port));
  return is_strange ? times.stranger : times.hopeless;
}

void LeaderLink::judge_trouble() {
  const auto now = Clock::now();
  const bool is_over = now >= trouble_since_ + patience();
  const bool is_late =
      was_joined() ? now >= answered_ + options_.times.lost : now >= started_ + options_.times.join;
  if (is_over || is_late) fail_for_trouble();
}

void LeaderLink::tell_waiting() {
  if (Clock::now() < tell_at_) return;
  tell_at_ = Clock::now() + kTellWaitingEvery;
  if (!options_.on_waiting) return;
  const std::string where = options_.endpoint.text();
  if (!trouble_) return options_.on_waiting("no answer from " + where + " yet");
  if (trouble_ == Unreached::refused) {
    return options_.on_waiting("nobody listens at " + where + " yet (" + trouble_text_ +
                               "): the agent of that host has not started, or has ended");
  }
  options_.on_waiting(where + ": " + trouble_text_);
}

void LeaderLink::fail(const char* code, const std::string& what, const std::string& fix) const {
  throw EnvironmentFault({code, options_.endpoint.text(), what, fix});
}

void LeaderLink::fail_for_trouble() const {
  if (was_joined()) {
    fail("LS-3064", leader_for_people(last_state_) + " was lost: " + trouble_text_,
         "see on its host why it has ended or cannot be reached; a job outlives its leader's host "
         "with --rdzv-backend etcd");
  }
  if (trouble_ == Unreached::no_proof) fail_unproved(trouble_text_);
  throw unreached_fault(options_.endpoint, *trouble_, trouble_text_,
                        std::chrono::duration<double>(Clock::now() - started_).count());
}

/// Something listens that has not shown that it is an agent of this job.
void LeaderLink::fail_unproved(const std::string& text) const {
  if (!is_own_host_) {
    fail("LS-3063", text, "name the address and port where the agents of this job meet");
  }
  const std::string holder = port_holder(options_.endpoint.port);
  fail("LS-3001",
       "the address is in use by " +
           (holder.empty() ? "a program that this user may not see" : holder) + ": " + text,
       "end that program, or choose another port");
}

void LeaderLink::fail_for(const ControlLink& link) const {
  const std::string text = "what listens there " + link.end_text();
  switch (link.end()) {
    case ControlLink::End::other_secret:
      fail("LS-3062", text,
           "give the agents of all hosts the same secret file (mode 0600), by copying "
           "~/.config/lockstep/job-secret or by naming one");
    case ControlLink::End::other_version:
      fail("LS-3063", text, "install one version of lockstep on all hosts");
    case ControlLink::End::other_job:
      fail("LS-3063", text,
           "give jobs that run at the same time different ports, and all hosts of one job the same "
           "--rdzv-id");
    default:
      fail_unproved(text);
  }
}

void LeaderLink::add_polls(std::vector<pollfd>& polls) const {
  if (attempt_.has_value()) {
    for (const Fd& socket : attempt_->sockets()) polls.push_back({socket.get(), POLLOUT, 0});
  }
  if (link_.has_value()) {
    const int wanted = POLLIN | (link_->has_output() ? POLLOUT : 0);
    polls.push_back({link_->fd(), static_cast<short>(wanted), 0});
  }
}

Deadline LeaderLink::wake_at() const {
  auto at = joined_ ? Clock::time_point::max() : tell_at_;
  if (link_.has_value()) {
    if (!joined_) return std::min(at, link_since_ + proof_limit());
    return sent_.empty() ? at : std::min(at, answered_ + options_.times.silence);
  }
  if (attempt_.has_value()) return std::min(at, attempt_end());
  return std::min(at, try_at_);
}

}  // namespace lockstep::rendezvous
