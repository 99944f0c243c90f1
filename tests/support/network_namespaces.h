// Networks of their own for programs that a test starts.
#pragma once
#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include "tests/support/run_program.h"

namespace lockstep::test {

/// Network namespaces, numbered from 0. A sleeping process holds each open: nothing is left over
/// when the test is killed. Needs `ip` of iproute2, and root or a system that gives every user
/// namespaces.
class NetworkNamespaces {
 public:
  /// \throws std::runtime_error saying what is missing.
  NetworkNamespaces();

  /// One more. \throws std::runtime_error saying what the system does not allow.
  void open();
  /// The process that holds it.
  [[nodiscard]] int holder(int number) const;
  /// The command that runs `argv` in it.
  [[nodiscard]] std::vector<std::string> in(int number, const std::vector<std::string>& argv) const;
  /// Runs `ip` with the words in it, "lo" of "link set lo up". \throws std::runtime_error.
  void ip(int number, const std::vector<std::string>& words) const;
  /// A cable between two of them. \param end, other_end names of the devices.
  void connect(int number, const std::string& end, int other, const std::string& other_end) const;

 private:
  std::string ip_;  // the program
  std::vector<std::unique_ptr<RunningProgram>> holders_;
};

}  // namespace lockstep::test
