"""torchrun --nproc-per-node N ddp.py resnet|gpt|mlp [bf16] [compile] [fsdp]: median step seconds, peak RSS. Sizes by BS, VOCAB, D, LAYERS, HEADS, SEQ, WIDTH; with ONE_STEP it ends after the first step."""
import sys, resource
from common import *
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel as DDP
kind, opts = sys.argv[1], set(sys.argv[2:])
dist.init_process_group("gloo"); r = dist.get_rank(); w = dist.get_world_size()
torch.manual_seed(0); torch.set_num_threads(int(os.environ.get("OMP_NUM_THREADS", 1)))
bs = int(os.environ.get("BS", {"resnet": 32, "gpt": 4, "mlp": 64}[kind])); seq = int(os.environ.get("SEQ", 256)); vocab = int(os.environ.get("VOCAB", 128))
if kind == "resnet":
    m = resnet18_cifar().to(memory_format=torch.channels_last)
    x = torch.randn(bs, 3, 32, 32).to(memory_format=torch.channels_last); y = torch.randint(10, (bs,))
elif kind == "mlp":
    m = mlp(); x = torch.randn(bs, 784); y = torch.randint(10, (bs,))
else:
    m = GPT(vocab=vocab); x = torch.randint(vocab, (bs, seq)); y = torch.randint(vocab, (bs, seq))
if "fsdp" in opts:
    from torch.distributed.fsdp import fully_shard
    for b in getattr(m, "blocks", []): fully_shard(b)
    fully_shard(m)
elif w > 1: m = DDP(m, gradient_as_bucket_view=True)
if "compile" in opts: m = torch.compile(m)
opt = torch.optim.AdamW(m.parameters(), 1e-3, fused=True) if kind == "gpt" else torch.optim.SGD(m.parameters(), 0.1, momentum=0.9, weight_decay=5e-4, fused=True)
def step():
    with torch.autocast("cpu", torch.bfloat16, enabled="bf16" in opts):
        o = m(x); l = F.cross_entropy(o.flatten(0, -2).float(), y.flatten())
    l.backward(); opt.step(); opt.zero_grad(set_to_none=True); return l
if os.environ.get("ONE_STEP"):
    step(); print("first step done", flush=True); dist.destroy_process_group(); sys.exit(0)
t = timed_steps(step, *((50, 500) if kind == "mlp" else (3, 10)))
if r == 0: print(json.dumps(dict(kind=kind, opts=sorted(opts), world=w, step_s=round(t, 4), per_s=round(bs * w / t, 1), rss_mib=resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024)), flush=True)
dist.destroy_process_group()
