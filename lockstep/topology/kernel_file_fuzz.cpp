// Fuzz target: any bytes as the file of measured rates: rates that plans can go by, or BadData.
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <string>

#include "lockstep/base/error.h"
#include "lockstep/topology/kernel_file.h"
#include "tests/fuzz/verdict.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* bytes, std::size_t count) {
  const std::string text(reinterpret_cast<const char*>(bytes), count);
  try {
    const lockstep::KernelRates rates = lockstep::rates_from(text, "kernels.txt");
    for (const lockstep::KernelPoints& busy : rates.busy) {
      if (busy.points.empty()) continue;
      const lockstep::KernelTable table(busy.points);
      const lockstep::KernelPoint& point = busy.points.front();
      const double s = table.seconds(point.kernel, point.type, 3, 5, 7).forward_s;
      LOCKSTEP_CHECK(std::isfinite(s) && s >= 0, "a time that is none");
    }
    LOCKSTEP_CHECK(std::isfinite(lockstep::exchange_seconds(rates, 2, 1e6)), "an endless exchange");
    lockstep::fuzz::accepted = true;
  } catch (const lockstep::BadData&) {  // NOLINT(bugprone-empty-catch)
  }
  return 0;
}
