#include "lockstep/worker/handle_errors.h"

#include <c10/util/Exception.h>

#include <algorithm>
#include <iostream>

#include "lockstep/base/limits.h"
#include "lockstep/config/starter.h"
#include "lockstep/memory/category.h"
#include "lockstep/worker/error_file.h"
#include "lockstep/worker/job_source.h"

namespace lockstep::worker {
namespace {

void print(const std::vector<Problem>& problems, bool json) {
  write_error_file(config::read_own_error_file(), problems);
  if (json) {
    std::cerr << to_json_text(problems) << std::endl;
  } else {
    std::cerr << to_text(problems) << std::flush;
  }
}

Exit report_bug(const char* what, bool json) {
  print({{"LS-9001", "lockstep-worker", what,
          "this is a bug of lockstep: please report it with the command you ran"}},
        json);
  return Exit::bug;
}

Exit report_memory(bool json) {
  print({{"LS-7203", "lockstep-worker", "out of memory",
          "lower batch.micro_batch (\"auto\" finds it); `lockstep plan` shows what the run needs"}},
        json);
  return Exit::environment;
}

}  // namespace

Exit handle_errors(const std::vector<std::string>& words,
                   const std::function<Exit(const std::vector<std::string>&)>& body) {
  const bool json = std::find(words.begin(), words.end(), "--json") != words.end();
  try {
    return body(words);
  } catch (const Error& error) {
    if (!is_echo(error)) print(error.problems(), json);
    return error.exit();
  } catch (const c10::Error& error) {
    if (memory::is_out_of_memory(error)) return report_memory(json);
    return report_bug(error.what_without_backtrace(), json);
  } catch (const std::exception& error) {
    if (memory::is_out_of_memory(error)) return report_memory(json);
    if (const auto fault = limit_fault_of(error)) {
      print(fault->problems(), json);
      return fault->exit();
    }
    return report_bug(error.what(), json);
  }
}

}  // namespace lockstep::worker
