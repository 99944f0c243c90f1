#include <string>

#include "lockstep/base/units.h"
#include "lockstep/starters/kubernetes_parts.h"
#include "lockstep/starters/submit.h"
#include "lockstep/starters/yaml_text.h"

namespace lockstep::starters {
namespace {

constexpr std::string_view kManifest = R"(# Trains @name@ on @pods@: kubectl apply -f THIS_FILE
# Needs Kubeflow's training operator, which tells each pod its place.
@objects@
apiVersion: kubeflow.org/v1
kind: PyTorchJob
metadata:
  name: @name@
spec:
  nprocPerNode: @nproc@
  runPolicy:
    backoffLimit: @tries@
    cleanPodPolicy: None
  pytorchReplicaSpecs:
@master@
@workers@
)";

// The operator looks for a container of this name.
constexpr std::string_view kReplicas = R"(    @role@:
      replicas: @count@
      # A pod that ended badly starts again; training goes on from the last checkpoint.
      restartPolicy: OnFailure
      template:
        spec:
          # So that a user that is not root may read what is mounted and write the claim.
          securityContext: {fsGroup: 1000, fsGroupChangePolicy: OnRootMismatch}
          # The ranks of a pod that has to go save their state within this time.
          terminationGracePeriodSeconds: 90
          containers:
          - name: pytorch
            image: @image@
            command: @command@
@variables@
@resources@
@volumes@
)";

constexpr std::size_t kDeeper = 4;
constexpr int kTriesOfAPod = 6;

}  // namespace

std::string pytorch_job_manifest(const Submission& job) {
  const std::string name = object_name(job.name);
  Filling values = kubernetes_filling(job, name + "-master-0", {}, kDeeper);
  const auto replicas = [&](const std::string& role, int count) {
    values["role"] = role;
    values["count"] = std::to_string(count);
    return filled(kReplicas, values);
  };
  values["pods"] = counted(job.nnodes, "pod");
  values["nproc"] = yaml_word(std::to_string(job.nproc_per_node));
  values["tries"] = std::to_string(kTriesOfAPod * job.nnodes);
  values["master"] = replicas("Master", 1);
  values["workers"] = job.nnodes > 1 ? replicas("Worker", job.nnodes - 1) : "";
  return filled(kManifest, values);
}

}  // namespace lockstep::starters
