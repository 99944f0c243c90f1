// Hosts that come and go are held off for longer each time.
#pragma once
#include <map>
#include <string>
#include <vector>

#include "lockstep/rendezvous/node_values.h"

namespace lockstep::rendezvous {

class Holds {
 public:
  explicit Holds(const NodeTimes& times) : times_(times) {}

  void host_has_gone(const Agent& agent, double now_s);
  /// When an agent of this host may take part again; 0 = now.
  [[nodiscard]] double held_until_s(const Agent& agent) const;
  [[nodiscard]] int times_gone(const Agent& agent) const;

  [[nodiscard]] std::vector<Strikes> to_strikes(double now_s) const;
  void continue_from(const std::vector<Strikes>& strikes, double now_s);

 private:
  struct Row {
    int count = 0;
    double last_s = 0;
    double until_s = 0;
  };
  [[nodiscard]] static const std::string& key_of(const Agent& agent);

  NodeTimes times_;
  std::map<std::string, Row> rows_;
};

}  // namespace lockstep::rendezvous
