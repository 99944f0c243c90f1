// The beginning and the end of a program of ours: what must hold before anything else runs, and
// whether all that was printed has arrived.
#pragma once
#include "lockstep/base/error.h"

namespace lockstep {

/// First line of main(). Descriptors 0 to 2 that are closed become /dev/null, so that no socket or
/// file of ours takes their number and gets what is printed. A file beyond `ulimit -f` becomes an
/// error of write(). Where a thread or the start runs out of memory, the program ends with
/// exit code 3 and a line that says so.
void prepare_process();

/// Last line of main(): flushes standard output. \returns `exit`, or environment when it was ok and
/// not all could be written, which is said on standard error. A reader that has left (`| head`)
/// wanted no more: that is no fault.
[[nodiscard]] Exit settle_output(Exit exit);

}  // namespace lockstep
