// What was measured of this machine, in a file: written by `bench kernels` and `plan --calibrate`,
// read by every plan of a run on this machine.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "lockstep/topology/cluster.h"
#include "lockstep/topology/kernel_rates.h"

namespace lockstep {

/// What the ranks of `bench kernels` are to time.
struct KernelRequest {
  std::vector<Kernel> kernels;
  std::vector<config::Dtype> types;
  double seconds_a_point = 0.02;  // at least five rounds, however long they take
  bool few = false;               // two sizes of each: for tests
};

[[nodiscard]] std::string to_json_text(const KernelRequest& request);
/// \throws BadData when the text is not a request.
[[nodiscard]] KernelRequest kernel_request_from(const std::string& json);

/// {"kernel":"linear","dtype":"fp32","m":...,"n":...,"k":...,"forward_us":...,...} on one line.
[[nodiscard]] std::string to_json_text(const KernelPoint& point);
/// \throws BadData when the text is not a point.
[[nodiscard]] KernelPoint kernel_point_from(const std::string& json);

/// The file of what `host` was measured to be: kernels-<hash of its CPU and cores>.txt
/// in $LOCKSTEP_CACHE, else $XDG_CACHE_HOME/lockstep, else ~/.cache/lockstep. Empty without any.
[[nodiscard]] std::string rates_file(const Host& host);

/// Looks whether write_rates() could write it, before minutes of measuring. \throws as it does.
void require_rates_file(const std::string& file);
/// Lines of text, one a point. Written whole, to a temporary name first. \throws EnvironmentFault.
void write_rates(const std::string& file, const KernelRates& rates);
/// Nothing without a file. \throws BadData when it is no such file.
[[nodiscard]] std::optional<KernelRates> read_rates(const std::string& file);
[[nodiscard]] std::string to_json_text(const KernelRates& rates);
[[nodiscard]] std::string to_file_text(const KernelRates& rates);
/// \param file named in what is thrown. \throws BadData, LS-6131, with the line.
[[nodiscard]] KernelRates rates_from(const std::string& text, const std::string& file);

}  // namespace lockstep
