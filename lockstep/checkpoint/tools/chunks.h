// Work on parts of something, shared out among threads.
#pragma once
#include <cstdint>
#include <functional>

namespace lockstep::checkpoint {

/// Calls work(worker, chunk) once for every chunk from 0 to `chunks` - 1, from `threads` threads of
/// which the caller is one. Workers are numbered from 0 and have one call at a time. The first
/// exception ends the others at their next chunk and leaves here.
void for_each_chunk(std::uint64_t chunks, int threads,
                    const std::function<void(int worker, std::uint64_t chunk)>& work);

/// How many workers for_each_chunk() has: never more than chunks, at least one.
[[nodiscard]] int workers_of(std::uint64_t chunks, int threads);

}  // namespace lockstep::checkpoint
