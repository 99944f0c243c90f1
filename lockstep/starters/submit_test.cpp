#include "lockstep/starters/submit.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include "lockstep/base/error.h"
#include "lockstep/starters/template_text.h"
#include "lockstep/starters/yaml_text.h"

namespace lockstep::starters {
namespace {

using testing::HasSubstr;
using testing::Not;

Submission job() {
  return {.run_file = "runs of mine/run.toml",
          .run_text = "[run]\nname = \"fashion\"\n\n[optimizer]\n  lr = 0.1\n",
          .name = "Fashion_1",
          .more_words = {"--set", "optimizer.lr=0.05"},
          .run_dir = "",
          .nnodes = 2,
          .nproc_per_node = 4,
          .threads = 2,
          .rank_memory_bytes = 300'000'000,
          .shared_memory_bytes = 6'000'000,
          .saves_between = true,
          .secret_hex = std::string(64, 'a')};
}

TEST(Submit, EveryKindIsInTheTableOnce) {
  std::set<std::string_view> names;
  for (const SubmitKind& kind : submit_kinds()) {
    EXPECT_TRUE(names.insert(kind.name).second) << kind.name;
    EXPECT_FALSE(kind.print(job()).empty());
  }
  EXPECT_EQ(names.size(), 3U);
}

TEST(Submit, TheSlurmScriptStartsOneTaskARank) {
  const std::string script = slurm_script(job());
  for (const char* line :
       {"#SBATCH --nodes=2\n", "#SBATCH --ntasks-per-node=4\n", "#SBATCH --cpus-per-task=2\n",
        "#SBATCH --signal=USR1@90\n", "#SBATCH --requeue\n", "#SBATCH --job-name=Fashion_1\n",
        "srun --cpus-per-task=2 lockstep train 'runs of mine/run.toml' --run-dir \"${run_dir}\" "
        "\\\n"
        "  --set optimizer.lr=0.05\n"}) {
    EXPECT_THAT(script, HasSubstr(line));
  }
  EXPECT_THAT(script, Not(HasSubstr("checkpoint.every")));
  Submission careless = job();
  careless.saves_between = false;
  EXPECT_THAT(slurm_script(careless), HasSubstr("--set checkpoint.every"));
}

TEST(Submit, HostileNamesStayNames) {
  Submission bad = job();
  bad.name = "x\n#SBATCH --uid=0;$(id)";
  bad.run_file = "a\nrm -rf b'$(id).toml";
  bad.run_dir = "/runs/$(id)";
  bad.time_limit = "1:00\nid";
  bad.image = "i\"\n  evil: \"1";
  bad.more_words = {"--set", "run.name=$(HOME)\""};
  const std::string script = slurm_script(bad);
  EXPECT_THAT(script, Not(HasSubstr("\n#SBATCH --uid")));
  EXPECT_THAT(script, Not(HasSubstr("\nid")));
  EXPECT_THAT(script, HasSubstr("run_dir='/runs/$(id)'\n"));
  EXPECT_THAT(script, HasSubstr("'run.name=$(HOME)\"'"));
  for (const auto print : {&indexed_job_manifest, &pytorch_job_manifest}) {
    const std::string manifest = print(bad);
    EXPECT_THAT(manifest, Not(HasSubstr("\n  evil")));
    EXPECT_THAT(manifest, HasSubstr("$$(HOME)\\\"")) << "Kubernetes would fill in $(HOME)";
    EXPECT_THAT(manifest, HasSubstr("name: x-sbatch-uid-0-id\n"));
  }
}

TEST(Submit, TheSecretOfPodsIsMountedSoThatALauncherTakesIt) {
  for (const auto print : {&indexed_job_manifest, &pytorch_job_manifest}) {
    const std::string manifest = print(job());
    EXPECT_THAT(manifest, HasSubstr("defaultMode: 0400}")) << "0644 is what Kubernetes would take";
    EXPECT_THAT(manifest, HasSubstr("securityContext: {fsGroup: ")) << "of users that are not root";
  }
}

TEST(Submit, OnePodNeedsNoMeeting) {
  Submission one = job();
  one.nnodes = 1;
  for (const auto print : {&indexed_job_manifest, &pytorch_job_manifest}) {
    const std::string manifest = print(one);
    EXPECT_THAT(manifest, Not(HasSubstr("PET_")));
    EXPECT_THAT(manifest, Not(HasSubstr("kind: Service")));
    EXPECT_THAT(manifest, Not(HasSubstr("ecret")));
    EXPECT_THAT(manifest, Not(HasSubstr("Worker:")));
  }
}

TEST(YamlText, NamesAreThoseOfDns) {
  EXPECT_EQ(object_name("Fashion 1/b"), "fashion-1-b");
  EXPECT_EQ(object_name(""), "run");
  EXPECT_EQ(object_name("---"), "run");
  EXPECT_EQ(object_name("7b"), "run-7b");
  EXPECT_EQ(object_name("true"), "run-true");
  EXPECT_EQ(object_name(std::string(80, 'a')).size(), 40U);
  EXPECT_EQ(object_name(std::string(39, 'a') + "--b"), std::string(39, 'a'));
}

TEST(TemplateText, FillsPlacesAndDropsLinesThatComeToNothing) {
  EXPECT_EQ(filled("a @x@ b\n@none@\n\n@two@\n", {{"x", "1"}, {"none", ""}, {"two", "c\nd\n"}}),
            "a 1 b\n\nc\nd\n");
  EXPECT_EQ(filled("@x@@y@\n", {{"x", "@y@"}, {"y", "2"}}), "@y@2\n");
  EXPECT_THROW((void)filled("@other@\n", {}), Bug);
  EXPECT_THROW((void)filled("a @ b\n", {}), Bug);
}

}  // namespace
}  // namespace lockstep::starters
