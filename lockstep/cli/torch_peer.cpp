#include "lockstep/cli/torch_peer.h"

#include "lockstep/launch/child_process.h"

namespace lockstep::cli {

std::string find_python(const Context& context) {
  const char* path = context.get_env ? context.get_env("PATH") : nullptr;
  try {
    return launch::find_program("python3", path == nullptr ? "/usr/bin:/bin" : path);
  } catch (const EnvironmentFault&) {
    throw EnvironmentFault({"LS-7054", "python3", "is not on PATH",
                            "activate the Python environment that has PyTorch, or leave out "
                            "--against torch"});
  }
}

std::vector<std::string> torch_command(const std::string& python, const std::string& script,
                                       const checkpoint::BenchRequest& request) {
  return {python,
          script,
          request.dir,
          std::to_string(request.bytes),
          std::to_string(request.rounds),
          std::to_string(request.first_round)};
}

const char* torch_script() {
  return R"PY("""Times torch.distributed.checkpoint: a state of BYTES, split by rows over the ranks, saved and loaded."""
import json, os, shutil, sys, time
import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
from torch.distributed.tensor import Shard, distribute_tensor, init_device_mesh

folder, size, rounds, first = sys.argv[1], *map(int, sys.argv[2:5])
torch.set_num_threads(1)
dist.init_process_group("gloo")
mesh = init_device_mesh("cpu", (dist.get_world_size(),))
rows = max(dist.get_world_size(), size // (16 * 1024 * 4))
state = {f"w{i}": distribute_tensor(torch.randn(rows, 1024), mesh, [Shard(0)]) for i in range(16)}


def timed(part, number, work):
    dist.barrier()
    start = time.perf_counter()
    work()
    dist.barrier()
    if dist.get_rank() == 0:
        seconds = time.perf_counter() - start
        print(json.dumps({"part": part, "round": number, "seconds": seconds}), flush=True)


for number in range(first, first + rounds):
    target = os.path.join(folder, f"torch-{number}")
    timed("save", number, lambda: dcp.save(state, checkpoint_id=target))
    timed("load", number, lambda: dcp.load(state, checkpoint_id=target))
    if dist.get_rank() == 0:
        shutil.rmtree(target)
dist.barrier()
dist.destroy_process_group()
)PY";
}

}  // namespace lockstep::cli
