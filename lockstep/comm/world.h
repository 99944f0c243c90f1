// The group of all ranks of a job, joined from what a starter gave this process.
#pragma once
#include <memory>
#include <string>

#include "lockstep/comm/group.h"
#include "lockstep/config/starter.h"

namespace lockstep::comm {

/// Collective over the job. \param env from config::read_starter(); the default is one rank alone.
/// Rank 0 serves the store when no launcher does. \param flight records the collectives; null = the
/// group keeps its own record. \throws as make_group().
[[nodiscard]] std::unique_ptr<Group> join_world(const config::RankEnv& env,
                                                std::shared_ptr<FlightRecorder> flight = nullptr);

/// The same from this process's own environment: torchrun, lockstep, srun or mpirun variables; none
/// = one rank alone. \throws UsageError when they are half-set or contradict each other.
[[nodiscard]] std::unique_ptr<Group> join_world();

/// Collective: another group of all ranks, whose collectives do not wait for those of the first.
/// While the world is joined, whose rank 0 may serve the store. \param name unique in the job,
/// equal on all ranks. \throws as make_group().
[[nodiscard]] std::unique_ptr<Group> join_beside_world(
    const config::RankEnv& env, const std::string& name,
    std::shared_ptr<FlightRecorder> flight = nullptr);

/// The same from this process's own environment.
[[nodiscard]] std::unique_ptr<Group> join_beside_world(const std::string& name);

}  // namespace lockstep::comm
