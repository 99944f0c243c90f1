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
    for (const lockstep::KernelInfo& info : lockstep::kernels()) {
      const lockstep::KernelPoints* points = lockstep::points_of(rates, info.kernel, 3, 2);
      if (points == nullptr && info.may_be_missing) continue;
      LOCKSTEP_CHECK(points != nullptr, "a kernel that plans ask for is missing");
      const lockstep::KernelTable table(points->points);
      const double s = table.seconds(info.kernel, lockstep::config::Dtype::bf16, 3, 5, 7).forward_s;
      LOCKSTEP_CHECK(std::isfinite(s) && s >= 0, "a time that is none");
    }
    const double exchange_s = lockstep::exchange_seconds(rates, 2, 2, 1e6);
    LOCKSTEP_CHECK(std::isfinite(exchange_s) && exchange_s >= 0, "an exchange without end");
    lockstep::fuzz::accepted = true;
  } catch (const lockstep::BadData&) {  // NOLINT(bugprone-empty-catch)
  }
  return 0;
}
