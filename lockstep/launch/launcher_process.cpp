#include "lockstep/launch/launcher_process.h"

#include <signal.h>

namespace lockstep::launch {

LauncherProcess::LauncherProcess() {
  if (::getrlimit(RLIMIT_NOFILE, &before_) == 0) {
    const rlimit raised{before_.rlim_max, before_.rlim_max};
    (void)::setrlimit(RLIMIT_NOFILE, &raised);
  }
  ::signal(SIGPIPE, SIG_IGN);
}

LauncherProcess::~LauncherProcess() {
  if (before_.rlim_max != 0) (void)::setrlimit(RLIMIT_NOFILE, &before_);
}

}  // namespace lockstep::launch
