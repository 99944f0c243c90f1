#include "lockstep/launch/launch_options.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <map>
#include <string>

namespace lockstep::launch {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using Texts = std::map<std::string, std::string, std::less<>>;

ReadLaunch read(Texts flags, const Texts& environment = {}) {
  LaunchWords words;
  words.flags = std::move(flags);
  words.program = {"train.py"};
  words.get_env = [environment](const char* name) {
    const auto found = environment.find(name);
    return found == environment.end() ? nullptr : found->second.c_str();
  };
  DeviceCounts counts;
  counts.cores = [] { return 6; };
  counts.gpus = [] { return 0; };
  return read_launch_options(words, counts);
}

TEST(LaunchOptions, WithoutFlagsThereAreTorchrunsDefaults) {
  const auto [options, problems, notes] = read({});
  EXPECT_THAT(problems, IsEmpty());
  EXPECT_THAT(notes, IsEmpty());
  EXPECT_EQ(options.nnodes.most, 1);
  EXPECT_EQ(options.nproc_per_node, 1);
  EXPECT_EQ(options.max_restarts, 0);
  EXPECT_EQ(options.rdzv_backend, RdzvBackend::fixed);
  EXPECT_EQ(options.rdzv_id, "none");
  EXPECT_EQ(options.role, "default");
  EXPECT_EQ(options.master_addr, "127.0.0.1");
  EXPECT_FALSE(options.master_port);
  EXPECT_THAT(options.stop_signals, ElementsAre(SIGTERM, SIGINT, SIGHUP, SIGQUIT));
  EXPECT_FALSE(options.tee.any());
}

TEST(LaunchOptions, TheCommandLineBeatsTheEnvironmentWhichBeatsTheDefault) {
  const Texts pod{{"PET_NPROC_PER_NODE", "4"},
                  {"PET_NNODES", "3"},
                  {"PET_NODE_RANK", "2"},
                  {"PET_MASTER_ADDR", "head"},
                  {"PET_MASTER_PORT", "23456"}};
  const auto options = read({{"--nproc-per-node", "2"}}, pod).options;
  EXPECT_EQ(options.nproc_per_node, 2);
  EXPECT_EQ(options.nnodes.most, 3);
  EXPECT_EQ(options.node_rank, 2);
  EXPECT_EQ(options.master_addr, "head");
  EXPECT_EQ(options.master_port, 23456);
}

TEST(LaunchOptions, AVariableThatIsEmptyIsUnset) {
  EXPECT_EQ(read({}, {{"PET_NNODES", ""}}).options.nnodes.most, 1);
  EXPECT_THAT(read({}, {{"PET_STANDALONE", ""}}).problems, IsEmpty());
}

TEST(LaunchOptions, ASwitchMayBeAVariable) {
  EXPECT_TRUE(read({}, {{"PET_STANDALONE", "1"}}).options.standalone);
  EXPECT_FALSE(read({}, {{"PET_STANDALONE", "0"}}).options.standalone);
  EXPECT_TRUE(read({{"--no-python", "1"}}).options.no_python);
}

TEST(LaunchOptions, TheNameOfAVariableComesFromTheFlag) {
  EXPECT_EQ(pet_name("--nproc-per-node"), "PET_NPROC_PER_NODE");
  EXPECT_EQ(pet_name("--tee"), "PET_TEE");
}

TEST(LaunchOptions, EveryProblemIsToldWithWhereItStandsAndTheNearestWord) {
  const auto problems = read({{"--nnodes", "4:1"}, {"--tee", "9"}, {"--rdzv-backend", "c11d"}},
                             {{"PET_NPROC_PER_NODE", "autp"}, {"PET_SIGNALS_TO_HANDLE", "SIGTRM"}})
                            .problems;
  ASSERT_EQ(problems.size(), 5U);
  std::map<std::string, std::string> fixes;
  for (const auto& problem : problems) fixes[problem.where] = problem.fix;
  EXPECT_EQ(fixes["PET_NPROC_PER_NODE"], "did you mean auto?");
  EXPECT_EQ(fixes["--rdzv-backend"], "did you mean c10d?");
  EXPECT_EQ(fixes["PET_SIGNALS_TO_HANDLE"], "did you mean SIGTERM?");
  EXPECT_THAT(fixes["--nnodes"], HasSubstr("MIN:MAX"));
  EXPECT_THAT(fixes["--tee"], HasSubstr("0:3,1:0"));
}

TEST(LaunchOptions, WordsForTheNumberOfRanksAskTheMachine) {
  EXPECT_EQ(read({{"--nproc-per-node", "cpu"}}).options.nproc_per_node, 6);
  EXPECT_EQ(read({{"--nproc-per-node", "auto"}}).options.nproc_per_node, 6) << "there is no GPU";
  const auto without_gpu = read({{"--nproc-per-node", "gpu"}}).problems;
  ASSERT_EQ(without_gpu.size(), 1U);
  EXPECT_THAT(without_gpu[0].what, HasSubstr("has none"));
  EXPECT_EQ(read({{"--nproc-per-node", "0"}}).problems.size(), 1U);
}

TEST(LaunchOptions, ValuesThatContradictEachOtherAreRefused) {
  EXPECT_EQ(read({{"--module", "1"}, {"--no-python", "1"}}).problems.size(), 1U);
  EXPECT_EQ(read({{"--nnodes", "1:2"}}).problems.size(), 1U) << "static has no range";
  EXPECT_THAT(read({{"--nnodes", "1:2"}, {"--rdzv-backend", "c10d"}}).problems, IsEmpty());
  EXPECT_EQ(read({{"--nnodes", "2"}, {"--node-rank", "2"}}).problems.size(), 1U);
  EXPECT_EQ(read({{"--standalone", "1"}, {"--nnodes", "2"}}).problems.size(), 1U);
  EXPECT_EQ(read({{"--bind-cores", "1"}, {"--numa-binding", "node"}}).problems.size(), 1U);
  EXPECT_EQ(read({{"--hosts", "a:1"}, {"--hostfile", "f"}}).problems.size(), 1U);
}

TEST(LaunchOptions, SignalsOfTheLaunchersOwnWorkEndNoJob) {
  for (const char* name : {"SIGCHLD", "SIGPIPE", "SIGSEGV"}) {
    EXPECT_EQ(read({{"--signals-to-handle", name}}).problems.size(), 1U) << name;
  }
  EXPECT_EQ(read({{"--signals-to-handle", "TERM"}}).problems[0].fix, "write SIGTERM");
  EXPECT_THAT(read({{"--signals-to-handle", "SIGTERM, SIGUSR2,"}}).options.stop_signals,
              ElementsAre(SIGTERM, SIGUSR2));
}

TEST(LaunchOptions, FiltersWithoutTeeAreNoted) {
  EXPECT_EQ(read({{"--duplicate-stdout-filters", "x"}, {"--tee", "2"}}).notes.size(), 1U);
  EXPECT_THAT(read({{"--duplicate-stderr-filters", "x"}, {"--tee", "0:2"}}).notes, IsEmpty());
}

TEST(LaunchOptions, SeveralHostsCannotMeetAtAFreePort) {
  EXPECT_EQ(read({{"--nnodes", "2"}, {"--master-port", "0"}}).problems.size(), 1U);
  EXPECT_EQ(read({{"--nnodes", "2"}, {"--rdzv-backend", "c10d"}, {"--rdzv-endpoint", "a:0"}})
                .problems.size(),
            1U);
  EXPECT_THAT(read({{"--master-port", "0"}}).problems, IsEmpty());
  EXPECT_THAT(read({{"--nnodes", "2"}, {"--rdzv-endpoint", "a"}}).problems, IsEmpty());
}

TEST(LaunchOptions, MoreHostsThanAJobMayHaveAreRefusedBeforeAnythingIsMadeForThem) {
  const auto [options, problems, notes] = read({{"--nnodes", "1000000000"}});
  ASSERT_EQ(problems.size(), 1U);
  EXPECT_THAT(problems[0].fix, HasSubstr("at most 4096 hosts"));
  EXPECT_EQ(options.nnodes.most, 1);
}

TEST(LaunchOptions, LocalRanksThatAreNotThereAreNoted) {
  const auto notes = read({{"--nproc-per-node", "2"},
                           {"--tee", "0:3,2:1"},
                           {"--redirects", "1:1"},
                           {"--local-ranks-filter", "7"}})
                         .notes;
  EXPECT_THAT(notes, ElementsAre("--tee names local rank 2, and this host has ranks 0 to 1",
                                 HasSubstr("--local-ranks-filter names local rank 7")));
  EXPECT_THAT(read({{"--hosts", "a:4"}, {"--tee", "3:1"}}).notes, IsEmpty()) << "it is a's affair";
}

TEST(LaunchOptions, WhatMeansNothingHereIsNoted) {
  const auto [options, problems, notes] =
      read({{"--start-method", "fork"}, {"--monitor-interval", "0.5"}, {"--logs-specs", "mine"}},
           {{"PET_EVENT_LOG_HANDLER", "console"}});
  EXPECT_THAT(problems, IsEmpty());
  EXPECT_EQ(notes.size(), 4U);
  EXPECT_THAT(read({{"--event-log-handler", "null"}}).notes, IsEmpty());
  EXPECT_EQ(read({{"--start-method", "forkserve"}}).problems.size(), 1U);
  EXPECT_EQ(read({{"--monitor-interval", "fast"}}).problems.size(), 1U);
}

TEST(LaunchOptions, OutputAndBindingAreReadAsTorchrunWritesThem) {
  const auto options = read({{"--tee", "0:3,1:1"},
                             {"--redirects", "2"},
                             {"--local-ranks-filter", "0,2"},
                             {"--duplicate-stderr-filters", "a,,b,c"},
                             {"--numa-binding", "core-complex"},
                             {"--rdzv-conf", "timeout=900"},
                             {"--pass-local-rank", "underscore"}},
                            {{"TORCHELASTIC_LOG_LINE_PREFIX_TEMPLATE", "[${rank}]:"}})
                           .options;
  EXPECT_EQ(options.tee.of(1), kStdout);
  EXPECT_EQ(options.redirects.of(5), kStderr);
  EXPECT_THAT(options.local_ranks_filter, ElementsAre(0, 2));
  EXPECT_THAT(options.stderr_filters, ElementsAre("a,b", "c"));
  EXPECT_EQ(options.binding, CoreBinding::core_complex);
  EXPECT_EQ(options.rdzv_conf.at("timeout"), "900");
  EXPECT_EQ(options.pass_local_rank, RankFlag::underscore);
  EXPECT_EQ(options.line_prefix, "[${rank}]:");
}

TEST(LaunchOptions, APodOfKubernetesIsKnownByItsEnvironment) {
  EXPECT_FALSE(read({}).options.is_pod);
  EXPECT_TRUE(read({}, {{"KUBERNETES_SERVICE_HOST", "10.96.0.1"}}).options.is_pod);
}

TEST(LaunchOptions, AnEtcdMayBeNamedBySeveralOfItsServers) {
  const auto several = read({{"--rdzv-backend", "etcd-v2"},
                             {"--rdzv-endpoint", "a:2379,[fd00::7]:2380,c"},
                             {"--rdzv-conf", "etcd_prefix=jobs,protocol=http,read_timeout=5"}});
  EXPECT_THAT(several.problems, IsEmpty());
  EXPECT_EQ(several.options.rdzv_endpoint->host, "a");
  ASSERT_EQ(several.options.more_endpoints.size(), 2U);
  EXPECT_EQ(several.options.more_endpoints[0].host, "fd00::7");
  EXPECT_EQ(several.options.more_endpoints[0].port, 2380);
  EXPECT_EQ(several.options.more_endpoints[1].port, -1);
  ASSERT_EQ(several.notes.size(), 1U);  // of read_timeout
  EXPECT_EQ(read({{"--rdzv-backend", "c10d"}, {"--rdzv-endpoint", "a:1,b:1"}}).problems.size(), 1U);
  EXPECT_EQ(read({{"--rdzv-backend", "etcd"}, {"--rdzv-endpoint", "a:1,"}}).problems.size(), 1U);
}

TEST(LaunchOptions, WhatAsksForTlsIsRefusedAndAWrongKeyIsTold) {
  const auto tls = read({{"--rdzv-conf", "protocol=https,cacert=/ca.pem"}});
  EXPECT_EQ(tls.problems.size(), 2U);
  const auto url =
      read({{"--rdzv-backend", "etcd"}, {"--rdzv-endpoint", "http://a:1,https://b:1"}});
  ASSERT_EQ(url.problems.size(), 1U);
  EXPECT_THAT(url.problems[0].fix, testing::HasSubstr("plain http"));
  const auto plain = read({{"--rdzv-backend", "etcd"}, {"--rdzv-endpoint", "http://a:1"}});
  EXPECT_EQ(plain.options.rdzv_endpoint->host, "a");
  const auto misspelt = read({{"--rdzv-conf", "join_timout=60"}});
  EXPECT_THAT(misspelt.problems, IsEmpty());
  ASSERT_EQ(misspelt.notes.size(), 1U);
  EXPECT_EQ(misspelt.notes[0], "--rdzv-conf join_timout is not read: did you mean join_timeout?");
}

}  // namespace
}  // namespace lockstep::launch
