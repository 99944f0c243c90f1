#include "lockstep/starters/job_environment.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <map>

namespace lockstep::starters {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Pair;
using testing::StartsWith;
using Values = std::map<std::string, std::string>;

/// The recorded environment environments/NAME.env.
Values recorded(const std::string& name) {
  std::ifstream in(std::string(LOCKSTEP_SOURCE_DIR "/lockstep/starters/environments/") + name +
                   ".env");
  EXPECT_TRUE(in.is_open()) << name;
  Values values;
  for (std::string line; std::getline(in, line);) {
    const std::size_t equals = line.find('=');
    if (line.starts_with('#') || equals == std::string::npos) continue;
    values[line.substr(0, equals)] = line.substr(equals + 1);
  }
  return values;
}

JobEnvironment read(const Values& values, const std::string& as = "") {
  return read_job_environment(
      [&](const char* name) -> const char* {
        const auto found = values.find(name);
        return found == values.end() ? nullptr : found->second.c_str();
      },
      as);
}

JobEnvironment read_recorded(const std::string& name, const std::string& as = "") {
  JobEnvironment job = read(recorded(name), as);
  EXPECT_THAT(job.problems, IsEmpty()) << name << to_text(job.problems);
  return job;
}

void expect_node(const JobEnvironment& job, const std::string& by, int rank, int nodes,
                 const std::string& address) {
  EXPECT_EQ(job.part, Part::node);
  EXPECT_EQ(job.node.started_by, by);
  EXPECT_EQ(job.node.node_rank, rank);
  EXPECT_EQ(job.node.nnodes, nodes);
  EXPECT_EQ(job.node.master_addr, address);
  EXPECT_FALSE(job.node.crowded);
}

TEST(JobEnvironment, WithoutVariablesItIsAJobOfThisHost) {
  const JobEnvironment job = read({});
  EXPECT_EQ(job.part, Part::single);
  EXPECT_EQ(job.node.started_by, "");
  EXPECT_THAT(pet_variables(job.node), IsEmpty());
}

TEST(JobEnvironment, RankOfAPyTorchJobIsThePodsIndex) {
  const JobEnvironment master = read_recorded("pytorchjob_v1_master");
  expect_node(master, "PyTorchJob", 0, 4, "mnist-master-0");
  EXPECT_EQ(master.node.master_port, 23456);
  expect_node(read_recorded("pytorchjob_v1_worker"), "PyTorchJob", 2, 4, "mnist-master-0");
}

TEST(JobEnvironment, AnOldOperatorCountsPodsInWorldSize) {
  expect_node(read_recorded("pytorchjob_v1_old_operator"), "PyTorchJob", 1, 3, "mnist-master-0");
}

TEST(JobEnvironment, AnElasticPyTorchJobIsANodeByTorchrunsDefaults) {
  const JobEnvironment job = read_recorded("pytorchjob_v1_elastic");
  EXPECT_EQ(job.part, Part::node);
  EXPECT_EQ(job.node.started_by, "");  // PET_* say all there is
}

TEST(JobEnvironment, TrainerV2IsANodeByTorchrunsDefaults) {
  const JobEnvironment job = read_recorded("trainer_v2");
  EXPECT_EQ(job.part, Part::node);
  EXPECT_EQ(job.node.node_rank, 1);
}

TEST(JobEnvironment, APodOfAnIndexedJobTakesItsIndexAsNode) {
  const JobEnvironment job = read_recorded("indexed_job");
  EXPECT_EQ(job.part, Part::node);
  EXPECT_EQ(job.node.started_by, "Indexed Job");
  EXPECT_EQ(job.node.node_rank, 2);
  EXPECT_THAT(pet_variables(job.node),
              ElementsAre(Pair("PET_NNODES", "4"), Pair("PET_NODE_RANK", "2")));
}

TEST(JobEnvironment, PodsThatKnowNothingOfEachOtherWorkAlone) {
  const JobEnvironment job = read_recorded("indexed_job_alone");
  EXPECT_EQ(job.part, Part::single);
  EXPECT_EQ(job.node.node_rank, std::nullopt);
  EXPECT_THAT(job.node.notes, ElementsAre(HasSubstr("PET_NNODES")));
}

TEST(JobEnvironment, VolcanoCountsMastersBeforeWorkers) {
  expect_node(read_recorded("volcano_svc_worker"), "Volcano", 2, 3, "mnist-master-0.mnist");
  expect_node(read_recorded("volcano_svc_only_workers"), "Volcano", 3, 4, "gpt-worker-0.gpt");
  expect_node(read_recorded("volcano_pytorch"), "Volcano", 1, 3, "mnist-master-0.mnist");
  Values lost = recorded("volcano_svc_worker");
  lost["HOSTNAME"] = "elsewhere";
  EXPECT_EQ(read(lost).problems.at(0).where, "HOSTNAME");
}

TEST(JobEnvironment, MpirunMpiexecHorovodrunAndSrunStartRanks) {
  for (const auto& [name, by] : Values{{"open_mpi", "mpirun"},
                                       {"mpich", "mpirun"},
                                       {"horovodrun", "horovodrun"},
                                       {"slurm_rank", "srun"},
                                       {"slurm_one_node", "srun"}}) {
    const JobEnvironment job = read_recorded(name);
    EXPECT_EQ(job.part, Part::rank) << name;
    EXPECT_EQ(job.rank.started_by, by) << name;
    EXPECT_EQ(job.rank.rank, name == "slurm_rank" ? 4 : 1) << name;
  }
}

TEST(JobEnvironment, ALauncherOfSrunTakesLightningsAddressAndPort) {
  const JobEnvironment job = read_recorded("slurm_launcher", "agent");
  expect_node(job, "Slurm", 2, 3, "gn10");
  EXPECT_EQ(job.node.master_port, 15000 + 4567);
  EXPECT_EQ(job.node.restarts, 2);
  EXPECT_THAT(pet_variables(job.node),
              ElementsAre(Pair("PET_MASTER_ADDR", "gn10"), Pair("PET_MASTER_PORT", "19567"),
                          Pair("PET_NNODES", "3"), Pair("PET_NODE_RANK", "2"),
                          Pair("PET_RDZV_ID", "1234567")));
}

TEST(JobEnvironment, SeveralLaunchersOnANodeAreNamed) {
  const JobEnvironment job = read_recorded("slurm_many_launchers", "agent");
  EXPECT_EQ(job.node.launchers_here, 8);
  ASSERT_TRUE(job.node.crowded);
  EXPECT_EQ(job.node.crowded->code, "LS-1044");
  EXPECT_THAT(job.node.crowded->what, HasSubstr("8 launchers on dgx002"));
  EXPECT_THAT(job.node.crowded->fix, HasSubstr("--ntasks-per-node=1"));
  const JobEnvironment mpi = read_recorded("open_mpi", "agent");
  ASSERT_TRUE(mpi.node.crowded);
  EXPECT_THAT(mpi.node.crowded->fix, HasSubstr("ppr:1:node"));
}

TEST(JobEnvironment, ABatchScriptIsAloneAndSaysThatSrunIsMissing) {
  const JobEnvironment job = read_recorded("slurm_batch_script", "agent");
  EXPECT_EQ(job.part, Part::single);
  EXPECT_THAT(job.node.notes, ElementsAre(HasSubstr("srun")));
}

TEST(JobEnvironment, ALauncherInsideARankOfTorchrunStartsAJobOfItsOwn) {
  std::vector<Problem> problems;
  const Values rank{{"RANK", "1"}, {"WORLD_SIZE", "2"}, {"LOCAL_RANK", "1"}, {"MASTER_ADDR", "a"}};
  const NodeEnv node = read_node_environment(
      [&](const char* name) -> const char* {
        const auto found = rank.find(name);
        return found == rank.end() ? nullptr : found->second.c_str();
      },
      problems);
  EXPECT_THAT(problems, IsEmpty());
  EXPECT_EQ(node.nnodes, std::nullopt);
}

TEST(JobEnvironment, GarbageIsAProblemThatNamesTheVariable) {
  const auto broken = [](const std::string& name, const std::string& variable,
                         const std::string& value) {
    Values values = recorded(name);
    values[variable] = value;
    const JobEnvironment job = read(values, "agent");
    return job.problems.empty() ? "" : job.problems.front().where;
  };
  EXPECT_EQ(broken("pytorchjob_v1_worker", "RANK", "4"), "RANK");
  EXPECT_EQ(broken("pytorchjob_v1_worker", "RANK", "x"), "RANK");
  EXPECT_EQ(broken("pytorchjob_v1_worker", "MASTER_PORT", "99999"), "MASTER_PORT");
  EXPECT_EQ(broken("pytorchjob_v1_worker", "MASTER_ADDR", "-oProxyCommand=x"), "MASTER_ADDR");
  EXPECT_EQ(broken("indexed_job", "JOB_COMPLETION_INDEX", "two"), "JOB_COMPLETION_INDEX");
  EXPECT_EQ(broken("slurm_launcher", "SLURM_STEP_NODELIST", "gn[1-"), "SLURM_STEP_NODELIST");
  EXPECT_EQ(broken("slurm_launcher", "SLURM_NODEID", "3"), "SLURM_NODEID");
  EXPECT_EQ(broken("slurm_launcher", "SLURM_RESTART_COUNT", "-1"), "SLURM_RESTART_COUNT");
}

TEST(JobEnvironment, DefaultsStandBehindTheEnvironment) {
  const Values values{{"PET_NNODES", "3"}, {"PET_RDZV_ID", ""}};
  const config::GetEnv get = with_defaults(
      [&](const char* name) -> const char* {
        const auto found = values.find(name);
        return found == values.end() ? nullptr : found->second.c_str();
      },
      {{"PET_NNODES", "2"}, {"PET_RDZV_ID", "7"}, {"PET_NODE_RANK", "1"}});
  EXPECT_STREQ(get("PET_NNODES"), "3");
  EXPECT_STREQ(get("PET_RDZV_ID"), "7");
  EXPECT_STREQ(get("PET_NODE_RANK"), "1");
  EXPECT_EQ(get("PET_ROLE"), nullptr);
}

}  // namespace
}  // namespace lockstep::starters
