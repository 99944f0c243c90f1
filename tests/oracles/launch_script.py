"""What launched programs do, by the first argument; every rank prints JSON lines. launch_script.py WHAT [...]

environment: the variables and arguments that a rank finds
env_init:    init_process_group("gloo", init_method="env://") and an all_reduce
elastic:     fails in its first two rounds, as a program under TorchElastic that is started again
elastic_group: the same with a group of Gloo in each round
store:       keys through the launcher's store, as c10d's TCPStore client sees it
record:      rank 1 fails under torch's @record
"""

import datetime
import json
import os
import pathlib
import sys
import time

import torch
import torch.distributed as dist
from torch.distributed.elastic.multiprocessing.errors import record


def say(**values):
    print(json.dumps(values, sort_keys=True), flush=True)


def environment():
    say(rank=os.environ["RANK"], arguments=sys.argv, environment=dict(os.environ))


def env_init():
    dist.init_process_group("gloo", init_method="env://")
    value = torch.full((3,), float(dist.get_rank() + 1))
    dist.all_reduce(value)
    say(rank=dist.get_rank(), world=dist.get_world_size(), value=value.tolist())
    dist.barrier()
    dist.destroy_process_group()
    os._exit(0)  # torch 2.11: Gloo's threads now and then outlive the interpreter


def elastic():
    rank, restarts = int(os.environ["RANK"]), int(os.environ["TORCHELASTIC_RESTART_COUNT"])
    say(rank=rank, restarts=restarts, most=os.environ["TORCHELASTIC_MAX_RESTARTS"],
        run_id=os.environ["TORCHELASTIC_RUN_ID"], launched=dist.is_torchelastic_launched())
    folder = pathlib.Path(os.environ["MEETING_FOLDER"])
    (folder / f"{restarts}-{rank}").touch()
    while not all((folder / f"{restarts}-{other}").exists() for other in range(int(os.environ["WORLD_SIZE"]))):
        time.sleep(0.01)
    sys.exit(0 if restarts == 2 else 3)


def elastic_group():
    rank, restarts = int(os.environ["RANK"]), int(os.environ["TORCHELASTIC_RESTART_COUNT"])
    dist.init_process_group("gloo")
    total = torch.tensor([restarts])
    dist.all_reduce(total)
    say(rank=rank, restarts=restarts, sum=total.item())
    dist.barrier()
    os._exit(0 if restarts == 2 else 3)


def store():
    rank, world = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    assert os.environ["TORCHELASTIC_USE_AGENT_STORE"] == str(True)
    client = dist.TCPStore(os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"]), world, False,
                           datetime.timedelta(seconds=60))
    client.set(f"rank{rank}", str(rank * rank))
    total = sum(int(client.get(f"rank{other}")) for other in range(world))
    say(rank=rank, total=total, count=client.add("done", 1) > 0)
    while client.add("done", 0) < world:
        pass


@record
def fail():
    if os.environ["RANK"] == "1":
        raise ValueError("no data for rank 1")
    time.sleep(60)


if __name__ == "__main__":
    dict(environment=environment, env_init=env_init, elastic=elastic, elastic_group=elastic_group, store=store,
         record=fail)[sys.argv[1]]()
