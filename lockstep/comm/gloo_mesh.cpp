#include "lockstep/comm/gloo_mesh.h"

#include <c10/util/Exception.h>

#include <algorithm>
#include <cerrno>
#include <torch/csrc/distributed/c10d/PrefixStore.hpp>
#include <torch/csrc/distributed/c10d/ProcessGroupGloo.hpp>

#include "lockstep/base/limits.h"
#include "lockstep/comm/join.h"
#include "lockstep/comm/upstream_recorder.h"

namespace lockstep::comm {
namespace {

// Measured with two ranks on loopback: eight reductions of 5 MiB in flight cost 19 ms of processor
// time with two threads, 26 to 37 ms with one; a single one costs the same.
constexpr int kGlooThreads = 2;
constexpr std::size_t kCauseLength = 200;

/// Gloo matches messages by a tag that ProcessGroupGloo counts up.
class TaggedGloo : public c10d::ProcessGroupGloo {
 public:
  using ProcessGroupGloo::ProcessGroupGloo;
  void set_next_tag(std::uint32_t tag) { collectiveCounter_ = tag; }
};

}  // namespace

c10::intrusive_ptr<c10d::Backend> connect_gloo(const c10::intrusive_ptr<c10d::Store>& store,
                                               const GroupOptions& options, const std::string& mesh,
                                               const std::string& address) {
  using c10d::ProcessGroupGloo;
  switch_off_upstream_recorder();
  const auto prefixed = c10::make_intrusive<c10d::PrefixStore>(options.name + "/" + mesh, store);
  auto gloo = ProcessGroupGloo::Options::create(options.deadline);
  gloo->threads = kGlooThreads;
  try {
    gloo->devices.push_back(ProcessGroupGloo::createDeviceForHostname(address));
    return c10::make_intrusive<TaggedGloo>(prefixed, options.rank, options.size, gloo);
  } catch (const Error&) {
    throw;
  } catch (const std::exception& error) {
    // No thread or memory for the connections is no fault of a peer.
    if (const auto fault = limit_fault_of(error)) throw EnvironmentFault(*fault);
    if (cause_text(error).find("Too many open files") != std::string::npos) {
      throw limit_fault("connecting to the other ranks failed", EMFILE);
    }
    throw PeerLost({"LS-4005", where_of(options),
                    "all ranks joined, but connecting from " + address +
                        " to each of them failed: " + cause_text(error),
                    "see whether a rank ended meanwhile, and whether a firewall stands between the "
                    "hosts (Gloo uses free ports)"});
  }
}

void tag_next(c10d::Backend& mesh, std::uint32_t tag) {
  dynamic_cast<TaggedGloo&>(mesh).set_next_tag(tag);
}

std::string cause_text(const std::exception& error) {
  const auto* torch_error = dynamic_cast<const c10::Error*>(&error);
  std::string text =
      torch_error != nullptr ? torch_error->what_without_backtrace() : std::string(error.what());
  for (auto begin = text.find('['); begin != std::string::npos; begin = text.find('[', begin + 1)) {
    const auto end =
        text.find("] ", begin);  // "[third_party/gloo/gloo/transport/tcp/pair.cc:534] "
    if (end == std::string::npos) break;
    if (text.substr(begin, end - begin).find(".cc:") != std::string::npos) {
      text.erase(begin, end + 2 - begin);
    }
  }
  text.resize(std::min({text.size(), text.find('\n'), kCauseLength}));
  while (!text.empty() && (text.back() == ' ' || text.back() == '.')) text.pop_back();
  return text;
}

}  // namespace lockstep::comm
