#include "lockstep/starters/submit.h"

#include <array>

namespace lockstep::starters {

std::span<const SubmitKind> submit_kinds() {
  static constexpr std::array kKinds{
      SubmitKind{"slurm", "a script for sbatch: srun starts the ranks", &slurm_script},
      SubmitKind{"k8s", "a Kubernetes Indexed Job with its Service, Secret and ConfigMap",
                 &indexed_job_manifest},
      SubmitKind{"pytorchjob", "a Kubeflow PyTorchJob with its Secret and ConfigMap",
                 &pytorch_job_manifest},
  };
  return kKinds;
}

}  // namespace lockstep::starters
