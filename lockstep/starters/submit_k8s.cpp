#include <string>

#include "lockstep/base/units.h"
#include "lockstep/starters/kubernetes_parts.h"
#include "lockstep/starters/submit.h"
#include "lockstep/starters/yaml_text.h"

namespace lockstep::starters {
namespace {

constexpr std::string_view kManifest = R"(# Trains @name@ on @pods@: kubectl apply -f THIS_FILE
# Each pod runs a launcher, and its JOB_COMPLETION_INDEX is the number of its node.
@service@
@objects@
apiVersion: batch/v1
kind: Job
metadata:
  name: @name@
spec:
  completionMode: Indexed
  completions: @nnodes@
  parallelism: @nnodes@
  # A pod that ended badly starts again; training goes on from the last checkpoint.
  backoffLimit: @tries@
  template:
    spec:
@subdomain@
      restartPolicy: OnFailure
      # So that a user that is not root may read what is mounted and write the claim.
      securityContext: {fsGroup: 1000, fsGroupChangePolicy: OnRootMismatch}
      # The ranks of a pod that has to go save their state within this time.
      terminationGracePeriodSeconds: 90
      containers:
      - name: lockstep
        image: @image@
        command: @command@
@variables@
@resources@
@volumes@
)";

constexpr std::string_view kService = R"(# Gives each pod a name: @name@-0.@name@, ...
apiVersion: v1
kind: Service
metadata:
  name: @name@
spec:
  clusterIP: None
  publishNotReadyAddresses: true
  selector: {job-name: @name@}
---
)";

constexpr int kTriesOfAPod = 6;

}  // namespace

std::string indexed_job_manifest(const Submission& job) {
  const std::string name = object_name(job.name);
  Filling values =
      kubernetes_filling(job, name + "-0." + name, {{"PET_NNODES", std::to_string(job.nnodes)}}, 0);
  const bool several = job.nnodes > 1;
  values["pods"] = counted(job.nnodes, "pod");
  values["nnodes"] = std::to_string(job.nnodes);
  values["tries"] = std::to_string(kTriesOfAPod * job.nnodes);
  values["service"] = several ? filled(kService, {{"name", name}}) : "";
  values["subdomain"] = several ? "      subdomain: " + name : "";
  return filled(kManifest, values);
}

}  // namespace lockstep::starters
