"""Parameters of the models of docs/guides/models.md, added up from the list of tensors that each family's
reference implementation makes, in words of its own: a second count beside lockstep/model/stats."""

import math
import pathlib
import re
import unittest

GUIDE = pathlib.Path(__file__).resolve().parents[2] / "docs/guides/models.md"


def linear(inputs, outputs, bias):
    return inputs * outputs + (outputs if bias else 0)


def layer_norm(width):
    return 2 * width


def gpt(layers, width, vocabulary, positions, tied=True):
    """GPT-2's modules: c_attn, c_proj, c_fc, c_proj, two norms a block, ln_f."""
    block = (linear(width, 3 * width, True) + linear(width, width, True) + linear(width, 4 * width, True) +
             linear(4 * width, width, True) + 2 * layer_norm(width))
    tables = vocabulary * width * (1 if tied else 2) + positions * width
    return tables + layers * block + layer_norm(width)


def llama(layers, width, hidden, heads, kv_heads, vocabulary, tied=False, qkv_bias=False, experts=0):
    head = width // heads
    attention = (linear(width, heads * head, qkv_bias) + 2 * linear(width, kv_heads * head, qkv_bias) +
                 linear(heads * head, width, False))
    feed_forward = 3 * width * hidden
    if experts:
        feed_forward = experts * feed_forward + linear(width, experts, False)
    return vocabulary * width * (1 if tied else 2) + layers * (attention + feed_forward + 2 * width) + width


def llama_moe(layers, width, vocabulary, experts, hidden, shared_hidden, dense, dense_hidden, qkv_bias, gate):
    """Full heads; `dense` layers without experts."""
    attention = 3 * linear(width, width, qkv_bias) + linear(width, width, False)
    sparse = experts * 3 * width * hidden + 3 * width * shared_hidden + width * experts + (width if gate else 0)
    return (2 * vocabulary * width + width + layers * (attention + 2 * width) + dense * 3 * width * dense_hidden +
            (layers - dense) * sparse)


def falcon(layers, width, kv_heads, norms, vocabulary=65024, head=64):
    attention = width * (width // head + 2 * kv_heads) * head + width * width
    return vocabulary * width + layers * (attention + 8 * width * width + norms * layer_norm(width)) + layer_norm(width)


def opt_350m():
    block = 4 * linear(1024, 1024, True) + linear(1024, 4096, True) + linear(4096, 1024, True) + 2 * layer_norm(1024)
    return 50272 * 512 + 2050 * 1024 + 2 * 512 * 1024 + 24 * block


def bert(layers, width, hidden):
    attention = 4 * linear(width, width, True) + layer_norm(width)
    output = linear(width, hidden, True) + linear(hidden, width, True) + layer_norm(width)
    return (30522 + 512 + 2) * width + layer_norm(width) + layers * (attention + output) + linear(width, width, True)


def t5(layers, width, hidden, heads, head):
    attention = 4 * width * heads * head
    feed_forward = 2 * width * hidden
    encoder = layers * (attention + feed_forward + 2 * width)
    decoder = layers * (2 * attention + feed_forward + 3 * width)
    return 32128 * width + encoder + decoder + 2 * 32 * heads + 2 * width


def resnet(blocks, bottleneck):
    def conv(inputs, outputs, kernel):
        return inputs * outputs * kernel * kernel + 2 * outputs  # and its batch norm
    count, inputs = conv(3, 64, 7), 64
    for width, repeats in zip((64, 128, 256, 512), blocks):
        outputs = 4 * width if bottleneck else width
        for block in range(repeats):
            if bottleneck:
                count += conv(inputs, width, 1) + conv(width, width, 3) + conv(width, outputs, 1)
            else:
                count += conv(inputs, width, 3) + conv(width, width, 3)
            if block == 0 and inputs != outputs:
                count += conv(inputs, outputs, 1)
            inputs = outputs
    return count + linear(inputs, 1000, True)


def layers_of(widths):
    return sum(linear(a, b, True) for a, b in zip(widths, widths[1:]))


KAGGLE = [1460, 583, 10131227, 2202608, 305, 24, 12517, 633, 3, 93145, 5683, 8351593, 3194, 27, 14992, 5461306, 10,
          5652, 2173, 4, 7046547, 18, 15, 286181, 105, 142572]
TERABYTE = [39884406, 39043, 17289, 7420, 20263, 3, 7120, 1543, 63, 38532951, 2953546, 403346, 10, 2208, 11938, 155,
            4, 976, 14, 39979771, 25641295, 39664984, 585935, 12972, 108, 36]


def dlrm(tables, width, bottom, top):
    vectors = len(tables) + 1
    features = math.comb(vectors, 2) + width
    return sum(tables) * width + layers_of([13, *bottom]) + layers_of([features, *top])


def wide_deep(tables, width, hidden):
    wide = sum(tables) + linear(13, 1, True)
    return wide + sum(tables) * width + layers_of([len(tables) * width + 13, *hidden, 1])


COUNTS = {
    "gpt2": gpt(12, 768, 50257, 1024), "gpt2-medium": gpt(24, 1024, 50257, 1024),
    "gpt2-large": gpt(36, 1280, 50257, 1024), "gpt2-xl": gpt(48, 1600, 50257, 1024),
    "gpt2-llm.c": gpt(12, 768, 50304, 1024),
    "llama-7b": llama(32, 4096, 11008, 32, 32, 32000), "llama-13b": llama(40, 5120, 13824, 40, 40, 32000),
    "llama-30b": llama(60, 6656, 17920, 52, 52, 32000), "llama-65b": llama(80, 8192, 22016, 64, 64, 32000),
    "llama-2-7b": llama(32, 4096, 11008, 32, 32, 32000), "llama-2-13b": llama(40, 5120, 13824, 40, 40, 32000),
    "llama-2-34b": llama(48, 8192, 22016, 64, 8, 32000), "llama-2-70b": llama(80, 8192, 28672, 64, 8, 32000),
    "llama-3-8b": llama(32, 4096, 14336, 32, 8, 128256), "llama-3-70b": llama(80, 8192, 28672, 64, 8, 128256),
    "llama-3-405b": llama(126, 16384, 53248, 128, 8, 128256),
    "llama-3.2-1b": llama(16, 2048, 8192, 32, 8, 128256, tied=True),
    "llama-3.2-3b": llama(28, 3072, 8192, 24, 8, 128256, tied=True),
    "mistral-7b": llama(32, 4096, 14336, 32, 8, 32000),
    "mixtral-8x7b": llama(32, 4096, 14336, 32, 8, 32000, experts=8),
    "mixtral-8x22b": llama(56, 6144, 16384, 48, 8, 32000, experts=8),
    "deepseek-moe-16b": llama_moe(28, 2048, 102400, 64, 1408, 2 * 1408, 1, 10944, False, False),
    "qwen1.5-moe-a2.7b": llama_moe(24, 2048, 151936, 60, 1408, 5632, 0, 0, True, True),
    "falcon-7b": falcon(32, 4544, 1, 1), "falcon-40b": falcon(60, 8192, 8, 2),
    "opt-350m": opt_350m(), "gpt-neox-20b": gpt(44, 6144, 50432, 0, tied=False),
    "bert-base": bert(12, 768, 3072), "bert-large": bert(24, 1024, 4096),
    "t5-small": t5(6, 512, 2048, 8, 64), "t5-base": t5(12, 768, 3072, 12, 64), "t5-large": t5(24, 1024, 4096, 16, 64),
    "t5-3b": t5(24, 1024, 16384, 32, 128), "t5-11b": t5(24, 1024, 65536, 128, 128),
    "resnet18": resnet((2, 2, 2, 2), False), "resnet34": resnet((3, 4, 6, 3), False),
    "resnet50": resnet((3, 4, 6, 3), True), "resnet101": resnet((3, 4, 23, 3), True),
    "resnet152": resnet((3, 8, 36, 3), True),
    "dlrm": dlrm(TERABYTE, 128, [512, 256, 128], [1024, 1024, 512, 256, 1]),
    "dlrm-kaggle": dlrm(KAGGLE, 16, [512, 256, 64, 16], [512, 256, 1]),
    "wide_deep": wide_deep(KAGGLE, 32, [1024, 512, 256]),
}
for size in ("8b", "70b", "405b"):
    COUNTS["llama-3.1-" + size] = COUNTS["llama-3-" + size]
for name, layers, width, positions in (
        ("gpt-3-125m", 12, 768, 2048), ("gpt-3-350m", 24, 1024, 2048), ("gpt-3-760m", 24, 1536, 2048),
        ("gpt-3-1.3b", 24, 2048, 2048), ("gpt-3-2.7b", 32, 2560, 2048), ("gpt-3-6.7b", 32, 4096, 2048),
        ("gpt-3-13b", 40, 5120, 2048), ("gpt-3-175b", 96, 12288, 2048)):
    COUNTS[name] = gpt(layers, width, 50257, positions)
for name, layers, width in (
        ("1.7b", 24, 2304), ("3.6b", 30, 3072), ("7.5b", 36, 4096), ("18.4b", 40, 6144), ("39.1b", 48, 8192),
        ("76.1b", 60, 10240), ("145.6b", 80, 12288), ("310.1b", 96, 16384), ("529.6b", 105, 20480),
        ("1008b", 128, 25600), ("22b", 48, 6144), ("175b", 96, 12288), ("530b", 105, 20480), ("1t", 128, 25600)):
    COUNTS["megatron-" + name] = gpt(layers, width, 51200, 2048)
for name, layers, width in (("125m", 12, 768), ("350m", 24, 1024), ("760m", 24, 1536), ("1b", 24, 2048),
                            ("3b", 32, 2560), ("7b", 32, 4096), ("13b", 40, 5120), ("30b", 48, 7168),
                            ("70b", 80, 8192)):
    COUNTS["mpt-" + name] = gpt(layers, width, 50368, 2048)
for name, layers, width in (("125m", 12, 768), ("1.3b", 24, 2048), ("2.7b", 32, 2560), ("6.7b", 32, 4096),
                            ("13b", 40, 5120), ("30b", 48, 7168), ("66b", 64, 9216), ("175b", 96, 12288)):
    COUNTS["opt-" + name] = gpt(layers, width, 50272, 2050)
for name, layers, width, vocabulary in (
        ("70m", 6, 512, 50304), ("160m", 12, 768, 50304), ("410m", 24, 1024, 50304), ("1b", 16, 2048, 50304),
        ("1.4b", 24, 2048, 50304), ("2.8b", 32, 2560, 50304), ("6.9b", 32, 4096, 50432), ("12b", 36, 5120, 50688)):
    COUNTS["pythia-" + name] = gpt(layers, width, vocabulary, 0, tied=False)
for name, layers, width, hidden, heads, kv_heads, vocabulary, tied in (
        ("0.5b", 24, 896, 4864, 14, 2, 151936, True), ("1.5b", 28, 1536, 8960, 12, 2, 151936, True),
        ("3b", 36, 2048, 11008, 16, 2, 151936, True), ("7b", 28, 3584, 18944, 28, 4, 152064, False),
        ("14b", 48, 5120, 13824, 40, 8, 152064, False), ("32b", 64, 5120, 27648, 40, 8, 152064, False),
        ("72b", 80, 8192, 29568, 64, 8, 152064, False)):
    COUNTS["qwen2.5-" + name] = llama(layers, width, hidden, heads, kv_heads, vocabulary, tied, qkv_bias=True)


class CountParameters(unittest.TestCase):
    def test_the_guide_says_what_the_tensors_add_up_to(self):
        rows = re.findall(r"^\| ([a-z][\w.-]*) \| ([\d,]+) \|", GUIDE.read_text(), re.MULTILINE)
        self.assertEqual(sorted(name for name, _ in rows), sorted(COUNTS))
        for name, count in rows:
            with self.subTest(name):
                self.assertEqual(int(count.replace(",", "")), COUNTS[name])


if __name__ == "__main__":
    unittest.main()
