// LibTorch's own flight recorder, which does not go with several groups in a process.
#pragma once

namespace lockstep::comm {

/// To be called before the first backend of LibTorch's is made. Its record (2.11) is one map for
/// the process that two groups' threads change without a lock (seen as a crash in
/// FlightRecorder::recordWithResetEnabled), and it keeps pointers to CUDA events that have gone.
/// Ours is comm/records.
void switch_off_upstream_recorder();

}  // namespace lockstep::comm
