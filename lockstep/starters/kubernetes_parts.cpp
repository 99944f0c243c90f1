#include "lockstep/starters/kubernetes_parts.h"

#include <algorithm>

#include "lockstep/base/units.h"
#include "lockstep/starters/yaml_text.h"

namespace lockstep::starters {
namespace {

constexpr std::string_view kSecret =
    R"(# What the launchers of this job prove to each other. Keep it out of version control; any other
# 64 hex digits do as well (openssl rand -hex 32).
apiVersion: v1
kind: Secret
metadata:
  name: @name@
type: Opaque
stringData:
  secret: @secret@
---
)";

constexpr std::string_view kConfig = R"(apiVersion: v1
kind: ConfigMap
metadata:
  name: @name@
data:
  run.toml: |2
@run_text@
---
)";

constexpr std::string_view kResources = R"(resources:
  # As planned for @ranks@, and a quarter more.
  requests: {cpu: @cpus@, memory: @memory@}
  limits: {memory: @memory@}
volumeMounts:
- {name: run, mountPath: /etc/lockstep}
@secret_mount@
- {name: runs, mountPath: /runs}
- {name: shm, mountPath: /dev/shm}
)";

constexpr std::string_view kVolumes = R"(volumes:
- name: run
  configMap: {name: @name@}
@secret_volume@
# A claim of yours that all pods can write (ReadWriteMany): checkpoints and results go there, and
# the data that run.toml names may lie there.
- name: runs
  persistentVolumeClaim: {claimName: lockstep-runs}
# The ranks of a pod exchange gradients through shared memory; a pod has 64 MB of it by default.
- name: shm
  emptyDir: {medium: Memory, sizeLimit: @shm@}
)";

constexpr std::string_view kSecretMount = "- {name: secret, mountPath: /etc/lockstep-secret}";
constexpr std::string_view kSecretVolume = R"(- name: secret
  secret: {secretName: @name@, defaultMode: 0400}
)";

/// The port at which the launchers of the pods meet.
constexpr int kPort = 29400;
constexpr std::size_t kContainerIndent = 8;
constexpr std::size_t kPodIndent = 6;

/// In GiB, rounded up, a quarter more than planned.
std::string gibibytes(std::int64_t bytes) {
  constexpr std::int64_t kGibibyte = std::int64_t{1} << 30;
  return std::to_string(
             std::max<std::int64_t>(1, (bytes + bytes / 4 + kGibibyte - 1) / kGibibyte)) +
         "Gi";
}

std::vector<std::string> train_command(const Submission& job, const std::string& name) {
  std::vector<std::string> words{"lockstep",
                                 "train",
                                 "/etc/lockstep/run.toml",
                                 "--nproc-per-node",
                                 std::to_string(job.nproc_per_node),
                                 "--run-dir",
                                 job.run_dir.empty() ? "/runs/" + name : job.run_dir};
  words.insert(words.end(), job.more_words.begin(), job.more_words.end());
  return words;
}

}  // namespace

Filling kubernetes_filling(const Submission& job, const std::string& leader,
                           const std::vector<std::pair<std::string, std::string>>& variables,
                           std::size_t deeper) {
  const std::string name = object_name(job.name);
  const bool several = job.nnodes > 1;
  std::string env;
  const auto add = [&](const std::string& key, const std::string& value) {
    env += (env.empty() ? "env:\n- {name: " : "- {name: ") + key + ", value: " + yaml_word(value) +
           "}\n";
  };
  if (several) {
    for (const auto& [key, value] : variables) add(key, value);
    add("PET_RDZV_BACKEND", "c10d");
    add("PET_RDZV_ENDPOINT", leader + ":" + std::to_string(kPort));
    add("PET_RDZV_ID", name);
    add("PET_JOB_SECRET", "/etc/lockstep-secret/secret");
  }
  const std::int64_t ranks = job.nproc_per_node;
  const Filling values{{"name", name},
                       {"secret", yaml_word(job.secret_hex)},
                       {"secret_mount", several ? std::string(kSecretMount) : ""},
                       {"secret_volume", several ? filled(kSecretVolume, {{"name", name}}) : ""},
                       {"run_text", indented(job.run_text, 4)},
                       {"ranks", counted(ranks, "rank") + " of " + counted(job.threads, "thread")},
                       {"cpus", yaml_word(std::to_string(ranks * job.threads))},
                       {"memory", gibibytes(ranks * job.rank_memory_bytes)},
                       {"shm", gibibytes(ranks * job.shared_memory_bytes)}};
  return {{"name", name},
          {"image", yaml_word(job.image)},
          {"command", yaml_command(train_command(job, name))},
          {"variables", indented(env, kContainerIndent + deeper)},
          {"resources", indented(filled(kResources, values), kContainerIndent + deeper)},
          {"volumes", indented(filled(kVolumes, values), kPodIndent + deeper)},
          {"objects", (several ? filled(kSecret, values) : "") + filled(kConfig, values)}};
}

}  // namespace lockstep::starters
