#include "lockstep/config/starter.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>

namespace lockstep::config {
namespace {

using testing::HasSubstr;
using testing::IsEmpty;
using testing::StartsWith;
using Variables = std::map<std::string, std::string>;

Starter read(const Variables& variables, const std::string& as = "") {
  return read_starter(
      [&](const char* name) -> const char* {
        const auto found = variables.find(name);
        return found == variables.end() ? nullptr : found->second.c_str();
      },
      as);
}

Variables torchrun_rank() {
  return {{"RANK", "3"},
          {"WORLD_SIZE", "4"},
          {"LOCAL_RANK", "1"},
          {"LOCAL_WORLD_SIZE", "2"},
          {"MASTER_ADDR", "10.0.0.1"},
          {"MASTER_PORT", "29500"}};
}

Variables slurm_rank() {
  return {{"SLURM_STEP_ID", "0"},          {"SLURM_JOB_ID", "987654"},
          {"SLURM_NTASKS", "6"},           {"SLURM_PROCID", "4"},
          {"SLURM_LOCALID", "0"},          {"SLURM_NODEID", "1"},
          {"SLURM_TASKS_PER_NODE", "4,2"}, {"SLURM_JOB_NODELIST", "gn[10,20,25-27]"}};
}

Variables open_mpi_rank() {
  return {{"OMPI_COMM_WORLD_RANK", "1"},
          {"OMPI_COMM_WORLD_SIZE", "2"},
          {"OMPI_COMM_WORLD_LOCAL_RANK", "1"},
          {"OMPI_COMM_WORLD_LOCAL_SIZE", "2"},
          {"PMIX_NAMESPACE", "1234"}};
}

RankEnv rank_of(const Variables& variables) {
  const Starter starter = read(variables);
  EXPECT_EQ(starter.role, Role::rank);
  EXPECT_THAT(starter.problems, IsEmpty()) << to_text(starter.problems);
  return starter.env;
}

/// Reads with one variable replaced, or removed when `value` is empty.
Starter with(Variables variables, const std::string& name, const std::string& value) {
  if (value.empty()) {
    variables.erase(name);
  } else {
    variables[name] = value;
  }
  return read(variables);
}

TEST(ReadStarter, WithoutVariablesItIsTheFront) {
  const Starter starter = read({});
  EXPECT_EQ(starter.role, Role::front);
  EXPECT_THAT(starter.problems, IsEmpty());
  EXPECT_EQ(read_starter(nullptr).role, Role::front);
}

TEST(ReadStarter, TorchrunsVariablesMakeARank) {
  Variables variables = torchrun_rank();
  variables["TORCHELASTIC_USE_AGENT_STORE"] = "True";
  const RankEnv rank = rank_of(variables);
  EXPECT_EQ(rank.rank, 3);
  EXPECT_EQ(rank.world_size, 4);
  EXPECT_EQ(rank.local_rank, 1);
  EXPECT_EQ(rank.local_world_size, 2);
  EXPECT_EQ(rank.store_host, "10.0.0.1");
  EXPECT_EQ(rank.store_port, 29500);
  EXPECT_TRUE(rank.store_hosted);
  EXPECT_EQ(rank.started_by, "torchrun");
  EXPECT_EQ(rank.report_fd, -1);
}

TEST(ReadStarter, AReportDescriptorMeansItWasUs) {
  Variables variables = torchrun_rank();
  variables["LOCKSTEP_REPORT_FD"] = "7";
  variables["MASTER_ADDR"] = "unix:/tmp/x.sock";
  variables.erase("MASTER_PORT");
  const RankEnv rank = rank_of(variables);
  EXPECT_EQ(rank.started_by, "lockstep");
  EXPECT_EQ(rank.report_fd, 7);
  EXPECT_EQ(rank.store_host, "unix:/tmp/x.sock");
  EXPECT_EQ(rank.store_port, 0);
}

TEST(ReadStarter, RankAndWorldSizeWithoutLocalRankIsAPodsAgent) {
  const Starter starter = read({{"RANK", "1"}, {"WORLD_SIZE", "2"}, {"PET_NNODES", "2"}});
  EXPECT_EQ(starter.role, Role::agent);
  EXPECT_THAT(starter.problems, IsEmpty());
}

TEST(ReadStarter, HalfSetVariablesAreAProblem) {
  for (const Variables& variables :
       {Variables{{"RANK", "1"}}, Variables{{"WORLD_SIZE", "2"}}, Variables{{"LOCAL_RANK", "0"}},
        Variables{{"RANK", "0"}, {"LOCAL_RANK", "0"}},
        Variables{{"WORLD_SIZE", "2"}, {"LOCAL_RANK", "0"}}}) {
    const Starter starter = read(variables);
    ASSERT_EQ(starter.problems.size(), 1U);
    EXPECT_EQ(starter.problems[0].code, "LS-1015");
    EXPECT_THAT(starter.problems[0].what, HasSubstr("but not"));
  }
}

TEST(ReadStarter, GarbageAndContradictionsAreProblemsThatNameTheVariable) {
  const Variables good = torchrun_rank();
  EXPECT_EQ(with(good, "RANK", "4").problems.at(0).where, "RANK");
  EXPECT_EQ(with(good, "RANK", "-1").problems.at(0).where, "RANK");
  EXPECT_EQ(with(good, "RANK", "two").problems.at(0).where, "RANK");
  EXPECT_EQ(with(good, "WORLD_SIZE", "0").problems.at(0).where, "WORLD_SIZE");
  EXPECT_EQ(with(good, "WORLD_SIZE", "99999999999999999999").problems.at(0).where, "WORLD_SIZE");
  EXPECT_EQ(with(good, "LOCAL_RANK", "2").problems.at(0).where, "LOCAL_RANK");
  EXPECT_EQ(with(good, "LOCAL_WORLD_SIZE", "8").problems.at(0).where, "LOCAL_RANK");
  EXPECT_EQ(with(good, "MASTER_PORT", "0").problems.at(0).where, "MASTER_PORT");
  EXPECT_EQ(with(good, "MASTER_PORT", "65536").problems.at(0).where, "MASTER_PORT");
  EXPECT_EQ(with(good, "MASTER_PORT", "").problems.at(0).where, "MASTER_PORT");
  EXPECT_EQ(with(good, "MASTER_ADDR", "").problems.at(0).where, "MASTER_ADDR");
  EXPECT_EQ(with(good, "LOCKSTEP_BACKEND", "mpi").problems.at(0).where, "LOCKSTEP_BACKEND");
  EXPECT_EQ(with(good, "LOCKSTEP_BACKEND", "nccl").env.backend, "nccl");
  EXPECT_EQ(with(good, "LOCKSTEP_REPORT_FD", "x").problems.at(0).where, "LOCKSTEP_REPORT_FD");
  EXPECT_EQ(with(good, "LOCKSTEP_HOST_ID", "two words").problems.at(0).where, "LOCKSTEP_HOST_ID");
  EXPECT_EQ(with(good, "LOCKSTEP_ADDRESS", "node7").problems.at(0).where, "LOCKSTEP_ADDRESS");
  EXPECT_THAT(with(good, "RANK", std::string("1\n\x1b[2J")).problems.at(0).what,
              HasSubstr("1??[2J"));
}

TEST(ReadStarter, WhereARankRunsCanBeSaidByHand) {
  const Variables good = torchrun_rank();
  EXPECT_EQ(read(good).env.host_id, "");
  EXPECT_EQ(with(good, "LOCKSTEP_HOST_ID", "rack1/node7").env.host_id, "rack1/node7");
  EXPECT_EQ(with(good, "LOCKSTEP_ADDRESS", "10.0.0.7").env.address, "10.0.0.7");
  EXPECT_EQ(with(good, "LOCKSTEP_ADDRESS", "fd00::7").env.address, "fd00::7");
}

TEST(ReadStarter, OpenMpiOnOneHostMeetsAtALocalSocketNamedAfterTheJob) {
  const RankEnv rank = rank_of(open_mpi_rank());
  EXPECT_EQ(rank.rank, 1);
  EXPECT_EQ(rank.world_size, 2);
  EXPECT_EQ(rank.started_by, "mpirun");
  EXPECT_THAT(rank.store_host, StartsWith("unix:/"));
  EXPECT_LT(rank.store_host.size(), 105U);
  EXPECT_FALSE(rank.store_hosted);
  EXPECT_NE(with(open_mpi_rank(), "PMIX_NAMESPACE", "5678").env.store_host, rank.store_host);
}

TEST(ReadStarter, MpirunOnSeveralHostsNeedsMasterAddr) {
  const Starter starter = with(open_mpi_rank(), "OMPI_COMM_WORLD_SIZE", "4");
  ASSERT_EQ(starter.problems.size(), 1U);
  EXPECT_EQ(starter.problems[0].code, "LS-1016");
  EXPECT_THAT(starter.problems[0].fix, HasSubstr("-x MASTER_ADDR"));
  Variables variables = open_mpi_rank();
  variables["OMPI_COMM_WORLD_SIZE"] = "4";
  variables["MASTER_ADDR"] = "head";
  EXPECT_EQ(rank_of(variables).store_port, 29500);
}

TEST(ReadStarter, HorovodrunMakesARankThatMeetsAsThoseOfMpirun) {
  Variables variables{{"HOROVOD_RANK", "1"},       {"HOROVOD_SIZE", "2"},
                      {"HOROVOD_LOCAL_RANK", "1"}, {"HOROVOD_LOCAL_SIZE", "2"},
                      {"HOROVOD_CROSS_RANK", "0"}, {"HOROVOD_GLOO_RENDEZVOUS_PORT", "35111"}};
  const RankEnv rank = rank_of(variables);
  EXPECT_EQ(rank.rank, 1);
  EXPECT_EQ(rank.local_world_size, 2);
  EXPECT_EQ(rank.started_by, "horovodrun");
  EXPECT_THAT(rank.store_host, StartsWith("unix:/"));
  EXPECT_NE(with(variables, "HOROVOD_GLOO_RENDEZVOUS_PORT", "35112").env.store_host,
            rank.store_host);
  variables["HOROVOD_SIZE"] = "4";
  ASSERT_EQ(read(variables).problems.size(), 1U);
  EXPECT_EQ(read(variables).problems[0].code, "LS-1016");
  EXPECT_THAT(read(variables).problems[0].fix, HasSubstr("horovodrun"));
}

TEST(ReadStarter, PmiVariablesOfMpichMakeARank) {
  const RankEnv rank = rank_of(
      {{"PMI_RANK", "1"}, {"PMI_SIZE", "2"}, {"MPI_LOCALRANKID", "1"}, {"MPI_LOCALNRANKS", "2"}});
  EXPECT_EQ(rank.local_rank, 1);
  EXPECT_THAT(rank.store_host, StartsWith("unix:/"));
  EXPECT_EQ(read({{"PMI_RANK", "1"}}).problems.at(0).where, "PMI_SIZE");
}

TEST(ReadStarter, ASlurmStepOfSeveralTasksMakesARank) {
  const RankEnv rank = rank_of(slurm_rank());
  EXPECT_EQ(rank.rank, 4);
  EXPECT_EQ(rank.world_size, 6);
  EXPECT_EQ(rank.local_rank, 0);
  EXPECT_EQ(rank.local_world_size, 2);
  EXPECT_EQ(rank.store_host, "gn10");
  EXPECT_EQ(rank.store_port, 15000 + 7654);
  EXPECT_EQ(rank.started_by, "srun");
}

TEST(ReadStarter, ASlurmStepOnOneHostMeetsAtALocalSocket) {
  Variables variables = slurm_rank();
  variables["SLURM_NTASKS"] = "4";
  variables["SLURM_PROCID"] = "3";
  variables["SLURM_LOCALID"] = "3";
  variables["SLURM_NODEID"] = "0";
  variables["SLURM_TASKS_PER_NODE"] = "4";
  EXPECT_THAT(rank_of(variables).store_host, StartsWith("unix:/"));
}

TEST(ReadStarter, BatchScriptsInteractiveShellsAndSingleTasksAreNoRanks) {
  for (const char* step : {"batch", "interactive", "extern", "4294967291", "4294967290"}) {
    EXPECT_EQ(with(slurm_rank(), "SLURM_STEP_ID", step).role, Role::front) << step;
  }
  EXPECT_EQ(with(slurm_rank(), "SLURM_NTASKS", "1").role, Role::front);
  EXPECT_EQ(with(slurm_rank(), "SLURM_STEP_NUM_TASKS", "1").role, Role::front);
}

TEST(ReadStarter, GarbageFromSlurmIsAProblem) {
  EXPECT_FALSE(with(slurm_rank(), "SLURM_TASKS_PER_NODE", "4(x").problems.empty());
  EXPECT_FALSE(with(slurm_rank(), "SLURM_JOB_NODELIST", "-oProxyCommand=x").problems.empty());
  EXPECT_FALSE(with(slurm_rank(), "SLURM_LOCALID", "").problems.empty());
  EXPECT_FALSE(with(slurm_rank(), "SLURM_NTASKS", "x").problems.empty());
}

TEST(ReadStarter, TheInnermostStarterWins) {
  Variables variables = slurm_rank();
  for (const auto& [name, value] : open_mpi_rank()) variables[name] = value;
  EXPECT_EQ(rank_of(variables).started_by, "mpirun");
  for (const auto& [name, value] : torchrun_rank()) variables[name] = value;
  EXPECT_EQ(rank_of(variables).started_by, "torchrun");
}

TEST(ReadStarter, SlurmsOwnPmiIsNotAnMpirun) {
  Variables variables = slurm_rank();
  variables["PMI_RANK"] = "4";
  variables["PMI_SIZE"] = "6";
  EXPECT_EQ(rank_of(variables).started_by, "srun");
}

TEST(ReadStarter, AsOverrides) {
  EXPECT_EQ(read({}, "agent").role, Role::agent);
  EXPECT_EQ(read(torchrun_rank(), "agent").role, Role::agent);
  const Starter alone = read({}, "rank");
  EXPECT_EQ(alone.role, Role::rank);
  EXPECT_EQ(alone.env.world_size, 1);
  EXPECT_EQ(alone.env.started_by, "alone");
  EXPECT_EQ(read({}, "boss").problems.at(0).where, "--as");
}

TEST(ReadStarter, ARankOfSeveralWithoutItsLocalRankDoesNotWorkAlone) {
  Variables variables = torchrun_rank();
  variables.erase("LOCAL_RANK");
  const Starter starter = read(variables, "rank");
  ASSERT_EQ(starter.problems.size(), 1U);
  EXPECT_EQ(starter.problems[0].code, "LS-1015");
  EXPECT_EQ(starter.problems[0].where, "LOCAL_RANK");
}

}  // namespace
}  // namespace lockstep::config
