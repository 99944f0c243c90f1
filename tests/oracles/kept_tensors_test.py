"""What autograd keeps for backward, of small networks in PyTorch, against lockstep/model/stats.

PyTorch keeps tensors by storage; each counts once, parameters do not count. Our count leaves out what is
small: statistics of norms, indices of tokens and classes. FLOPs are those PyTorch's own counter sees.
"""

import json
import subprocess
import unittest

import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.flop_counter import FlopCounterMode

TOKENS = 32
WIDTH, HEADS, HEAD, VOCABULARY = 64, 4, 16, 100


class RmsNorm(torch.autograd.Function):
    """Keeps its input and one number a row, as a fused norm does."""

    @staticmethod
    def forward(ctx, x, weight):
        scale = (x.square().mean(-1, keepdim=True) + 1e-6).rsqrt()
        ctx.save_for_backward(x, weight, scale)
        return x * scale * weight

    @staticmethod
    def backward(ctx, gradient):
        x, weight, scale = ctx.saved_tensors
        inner = gradient * weight
        dot = (inner * x).mean(-1, keepdim=True)
        return inner * scale - x * dot * scale ** 3, (gradient * x * scale).sum(tuple(range(x.dim() - 1)))


class Rms(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))

    def forward(self, x):
        return RmsNorm.apply(x, self.weight)


def attend(q, k, v, causal, bias=None):
    """q [B, T, heads, HEAD], k and v with fewer heads perhaps, which groups of queries share."""
    batch, tokens, heads, _ = q.shape
    shared = k.shape[2]
    q = q.transpose(1, 2).reshape(batch, shared, heads // shared * tokens, HEAD)
    scores = q @ k.permute(0, 2, 3, 1) * HEAD ** -0.5
    if bias is not None:
        scores = scores + bias
    if causal:
        mask = torch.full((tokens, tokens), float("-inf")).triu(1).repeat(heads // shared, 1)
        scores = scores + mask
    out = scores.softmax(-1) @ v.transpose(1, 2)
    return out.reshape(batch, heads, tokens, HEAD).transpose(1, 2).reshape(batch, tokens, heads * HEAD)


class GptLayer(nn.Module):
    def __init__(self):
        super().__init__()
        self.ln1, self.ln2 = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.qkv, self.proj = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)
        self.fc1, self.fc2 = nn.Linear(WIDTH, 4 * WIDTH), nn.Linear(4 * WIDTH, WIDTH)

    def forward(self, x):
        qkv = self.qkv(self.ln1(x)).unflatten(-1, (3, HEADS, HEAD))
        x = x + self.proj(attend(*qkv.unbind(2), causal=True))
        return x + self.fc2(F.gelu(self.fc1(self.ln2(x))))


class Gpt(nn.Module):
    def __init__(self):
        super().__init__()
        self.wte, self.wpe = nn.Embedding(VOCABULARY, WIDTH), nn.Embedding(TOKENS, WIDTH)
        self.layers = nn.ModuleList(GptLayer() for _ in range(2))
        self.ln = nn.LayerNorm(WIDTH)

    def forward(self, tokens):
        x = self.wte(tokens) + self.wpe(torch.arange(TOKENS))
        for layer in self.layers:
            x = layer(x)
        return self.ln(x) @ self.wte.weight.t()


class BertLayer(GptLayer):
    def forward(self, x):
        qkv = self.qkv(x).unflatten(-1, (3, HEADS, HEAD))
        x = self.ln1(x + self.proj(attend(*qkv.unbind(2), causal=False)))
        return self.ln2(x + self.fc2(F.gelu(self.fc1(x))))


class Bert(nn.Module):
    """Two of the pooler's outputs stand for a classifier's."""

    def __init__(self):
        super().__init__()
        self.wte, self.wpe, self.types = (nn.Embedding(rows, WIDTH) for rows in (VOCABULARY, TOKENS, 2))
        self.ln, self.pooler = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, WIDTH)
        self.layers = nn.ModuleList(BertLayer() for _ in range(2))

    def forward(self, tokens):
        x = self.ln(self.wte(tokens) + self.wpe(torch.arange(TOKENS)) + self.types(tokens % 2))
        for layer in self.layers:
            x = layer(x)
        return self.pooler(x[:, 0]).tanh()[:, :2]


def turned(x, cos, sin):
    a, b = x.chunk(2, -1)
    return x * cos + torch.cat([-b, a], -1) * sin


class LlamaLayer(nn.Module):
    def __init__(self, shared=2, hidden=160):
        super().__init__()
        self.ln1, self.ln2 = Rms(WIDTH), Rms(WIDTH)
        self.q = nn.Linear(WIDTH, WIDTH, bias=False)
        self.k, self.v = (nn.Linear(WIDTH, shared * HEAD, bias=False) for _ in range(2))
        self.o = nn.Linear(WIDTH, WIDTH, bias=False)
        self.gate, self.up = (nn.Linear(WIDTH, hidden, bias=False) for _ in range(2))
        self.down = nn.Linear(hidden, WIDTH, bias=False)

    def forward(self, x, cos, sin):
        y = self.ln1(x)
        q, k, v = (f(y).unflatten(-1, (-1, HEAD)) for f in (self.q, self.k, self.v))
        x = x + self.o(attend(turned(q, cos, sin), turned(k, cos, sin), v, causal=True))
        y = self.ln2(x)
        return x + self.down(F.silu(self.gate(y)) * self.up(y))


class Llama(nn.Module):
    def __init__(self):
        super().__init__()
        self.wte, self.ln = nn.Embedding(VOCABULARY, WIDTH), Rms(WIDTH)
        self.layers = nn.ModuleList(LlamaLayer() for _ in range(2))
        self.head = nn.Linear(WIDTH, VOCABULARY, bias=False)
        angles = torch.outer(torch.arange(TOKENS), 10000 ** (-torch.arange(0, HEAD, 2) / HEAD)).repeat(1, 2)
        self.register_buffer("cos", angles.cos()[:, None])
        self.register_buffer("sin", angles.sin()[:, None])

    def forward(self, tokens):
        x = self.wte(tokens)
        for layer in self.layers:
            x = layer(x, self.cos, self.sin)
        return self.head(self.ln(x))


class T5Attention(nn.Module):
    def __init__(self):
        super().__init__()
        self.q, self.k, self.v, self.o = (nn.Linear(WIDTH, WIDTH, bias=False) for _ in range(4))

    def forward(self, x, source, causal, bias=None):
        q, k, v = (f(y).unflatten(-1, (-1, HEAD)) for f, y in ((self.q, x), (self.k, source), (self.v, source)))
        return self.o(attend(q, k, v, causal, bias))


class T5Layer(nn.Module):
    def __init__(self, crosses):
        super().__init__()
        self.ln1, self.ln2, self.own = Rms(WIDTH), Rms(WIDTH), T5Attention()
        if crosses:
            self.ln_cross, self.cross = Rms(WIDTH), T5Attention()
        self.fc1, self.fc2 = nn.Linear(WIDTH, 256, bias=False), nn.Linear(256, WIDTH, bias=False)

    def forward(self, x, bias, source=None):
        y = self.ln1(x)
        x = x + self.own(y, y, source is not None, bias)
        if source is not None:
            x = x + self.cross(self.ln_cross(x), source, False)
        return x + self.fc2(F.relu(self.fc1(self.ln2(x))))


class T5(nn.Module):
    def __init__(self):
        super().__init__()
        self.wte = nn.Embedding(VOCABULARY, WIDTH)
        self.positions = nn.ModuleList(nn.Embedding(8, HEADS) for _ in range(2))
        self.encoder = nn.ModuleList(T5Layer(False) for _ in range(2))
        self.decoder = nn.ModuleList(T5Layer(True) for _ in range(2))
        self.ends = nn.ModuleList(Rms(WIDTH) for _ in range(2))

    def bias(self, stack):
        distance = (torch.arange(TOKENS)[None] - torch.arange(TOKENS)[:, None]).abs().clamp(max=7)
        return self.positions[stack](distance).permute(2, 0, 1)

    def forward(self, tokens):
        x, bias = self.wte(tokens), self.bias(0)
        for layer in self.encoder:
            x = layer(x, bias)
        source, x, bias = self.ends[0](x), self.wte(tokens), self.bias(1)
        for layer in self.decoder:
            x = layer(x, bias, source)
        return self.ends[1](x) @ self.wte.weight.t()


def convolved(inputs, outputs, kernel, stride=1):
    return nn.Sequential(nn.Conv2d(inputs, outputs, kernel, stride, kernel // 2, bias=False), nn.BatchNorm2d(outputs))


class Residual(nn.Module):
    def __init__(self, inputs, width, stride, bottleneck):
        super().__init__()
        outputs = 4 * width if bottleneck else width
        if bottleneck:
            self.parts = nn.ModuleList([convolved(inputs, width, 1), convolved(width, width, 3, stride),
                                        convolved(width, outputs, 1)])
        else:
            self.parts = nn.ModuleList([convolved(inputs, width, 3, stride), convolved(width, width, 3)])
        self.beside = convolved(inputs, outputs, 1, stride) if inputs != outputs or stride > 1 else nn.Identity()

    def forward(self, x):
        y = x
        for part in self.parts[:-1]:
            y = F.relu(part(y))
        return F.relu(self.parts[-1](y) + self.beside(x))


def resnet(bottleneck):
    times = 4 if bottleneck else 1
    stem = [convolved(3, 16, 7, 2), nn.ReLU(), nn.MaxPool2d(3, 2, 1)] if bottleneck else [convolved(3, 16, 3), nn.ReLU()]
    blocks = [Residual(16, 16, 1, bottleneck), Residual(16 * times, 16, 1, bottleneck),
              Residual(16 * times, 32, 2, bottleneck)]
    return nn.Sequential(*stem, *blocks, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(32 * times, 10))


def mlp():
    return nn.Sequential(nn.Linear(30, 50), nn.ReLU(), nn.Linear(50, 40), nn.ReLU(), nn.Linear(40, 10))


def measured(model, samples, classes):
    """Bytes of each storage kept for backward (but parameters and buffers), and forward FLOPs."""
    own = {t.untyped_storage().data_ptr() for t in [*model.parameters(), *model.buffers()]}
    kept = {}

    def keep(tensor):
        storage = tensor.untyped_storage()
        if storage.data_ptr() not in own:
            kept[storage.data_ptr()] = (storage.nbytes(), storage)
        return tensor

    with FlopCounterMode(display=False) as counter, torch.autograd.graph.saved_tensors_hooks(keep, lambda t: t):
        logits = model(samples)
        loss = F.cross_entropy(logits.flatten(0, -2), classes.flatten())
    assert loss.isfinite()
    return sum(size for size, _ in kept.values()), counter.get_total_flops()


class KeptTensors(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        lines = subprocess.run(["kept_tensors"], check=True, capture_output=True, text=True).stdout.splitlines()
        cls.counted = {line["name"]: line for line in map(json.loads, lines)}
        torch.manual_seed(1)

    def compare(self, name, model, samples, classes, few):
        """few: the share that may differ, of what our count leaves out on purpose."""
        counted, batch = self.counted[name], len(samples)
        self.assertEqual(counted["parameters"], sum(p.numel() for p in model.parameters()))
        kept, flops = measured(model, samples, classes)
        ours = counted["kept_bytes"] + counted["scores_bytes"]
        print(f"{name}: kept {kept / batch:.0f} bytes a sample, counted {ours:.0f} ({ours * batch / kept - 1:+.2%})")
        self.assertLess(abs(ours * batch / kept - 1), few)
        self.assertAlmostEqual(flops / batch / counted["flops"], 1, places=9)

    def transformer(self, name, model):
        # Left out: two numbers a row and norm, tokens, and the causal mask where it is made.
        tokens = torch.randint(VOCABULARY, (8, TOKENS))
        self.compare(name, model, tokens, tokens.roll(1, 1), few=0.01)

    def test_gpt(self):
        self.transformer("gpt", Gpt())

    def test_llama_with_grouped_queries(self):
        self.transformer("llama", Llama())

    def test_t5(self):
        self.transformer("t5", T5())

    def test_bert(self):
        tokens = torch.randint(VOCABULARY, (8, TOKENS))
        self.compare("bert", Bert(), tokens, tokens[:, 0] % 2, few=0.01)

    def images(self, name, bottleneck):
        # Left out: two numbers a channel and norm.
        self.compare(name, resnet(bottleneck), torch.randn(8, 3, 32, 32), torch.randint(10, (8,)), few=0.01)

    def test_resnet_of_basic_blocks(self):
        self.images("resnet_basic", False)

    def test_resnet_of_bottlenecks_with_a_pool(self):
        self.images("resnet_bottleneck", True)

    def test_mlp(self):
        self.compare("mlp", mlp(), torch.randn(64, 30), torch.randint(10, (64,)), few=0.05)


if __name__ == "__main__":
    unittest.main()
