"""Names and forms of Hugging Face's models against lockstep/checkpoint/names: tiny random models of each family,
as transformers saves them, to our names and back."""

import pathlib
import subprocess
import tempfile
import unittest

import safetensors.torch
import torch
import transformers

TURNED = {"qkv": "attn.c_attn", "proj": "attn.c_proj", "fc1": "mlp.c_fc", "fc2": "mlp.c_proj"}


def gpt2():
    config = transformers.GPT2Config(vocab_size=97, n_positions=16, n_embd=24, n_layer=2, n_head=3)
    return transformers.GPT2LMHeadModel(config)


def llama(tied=False):
    config = transformers.LlamaConfig(vocab_size=97, hidden_size=24, intermediate_size=40, num_hidden_layers=2,
                                      num_attention_heads=6, num_key_value_heads=2, tie_word_embeddings=tied)
    return transformers.LlamaForCausalLM(config)


def bert_config():
    return transformers.BertConfig(vocab_size=97, hidden_size=24, intermediate_size=40, num_hidden_layers=2,
                                   num_attention_heads=3, max_position_embeddings=16)


def resnet(layer_type):
    config = transformers.ResNetConfig(embedding_size=8, hidden_sizes=[8, 16], depths=[1, 2], layer_type=layer_type,
                                       num_labels=5)
    return transformers.ResNetForImageClassification(config)


def bits(tensor):
    return tensor.contiguous().reshape(-1).view(torch.uint8).numpy().tobytes() if tensor.numel() else b""


class HuggingFaceNamesTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        torch.manual_seed(1)

    def convert(self, source, target, family):
        done = subprocess.run(["lockstep", "ckpt", "convert", str(source), str(target), "--names", family, "--force"],
                              text=True, capture_output=True, timeout=60)
        self.assertEqual(done.returncode, 0, done.stderr)
        return safetensors.torch.load_file(target)

    def assert_equal(self, tensors, want):
        self.assertEqual(sorted(tensors), sorted(want))
        for name, tensor in want.items():
            self.assertEqual(tensors[name].dtype, tensor.dtype, name)
            self.assertEqual(tensors[name].shape, tensor.shape, name)
            self.assertEqual(bits(tensors[name]), bits(tensor), name)

    def there_and_back(self, model, family, prefix=""):
        """(theirs, ours). `prefix` is what a model without a head leaves out of its names."""
        for parameter in model.parameters():
            torch.nn.init.normal_(parameter)  # also where it would be all ones or zeros
        model.save_pretrained(self.folder / "theirs", safe_serialization=True)
        source = self.folder / "theirs/model.safetensors"
        theirs = safetensors.torch.load_file(source)
        ours = self.convert(source, self.folder / "ours.safetensors", family)
        back = self.convert(self.folder / "ours.safetensors", self.folder / "back.safetensors", family)
        self.assert_equal(back, {prefix + name: tensor for name, tensor in theirs.items()})
        return theirs, ours

    def assert_loads(self, model):
        """What came back is a file that transformers takes for the same model."""
        (self.folder / "back.safetensors").rename(self.folder / "theirs/model.safetensors")
        loaded, report = type(model).from_pretrained(self.folder / "theirs", output_loading_info=True)
        self.assertFalse(report["missing_keys"])
        self.assertFalse(report["unexpected_keys"])
        self.assert_equal(loaded.state_dict(), model.state_dict())

    def test_gpt2(self):
        model = gpt2()
        theirs, ours = self.there_and_back(model, "gpt2")
        for layer in range(2):
            for our, their in TURNED.items():
                turned = theirs[f"transformer.h.{layer}.{their}.weight"].T
                self.assertTrue(torch.equal(ours[f"blocks.{layer}.{our}.weight"], turned))
        self.assertTrue(torch.equal(ours["embed.wte.weight"], theirs["transformer.wte.weight"]))
        self.assert_loads(model)

    def test_gpt2_without_a_head(self):
        self.there_and_back(gpt2().transformer, "gpt2", prefix="transformer.")

    def test_llama(self):
        model = llama()
        theirs, ours = self.there_and_back(model, "llama")
        parts = [theirs[f"model.layers.1.self_attn.{part}_proj.weight"] for part in "qkv"]
        self.assertTrue(torch.equal(ours["blocks.1.qkv.weight"], torch.cat(parts)))
        self.assertIn("head.fc.weight", ours)
        self.assert_loads(model)

    def test_llama_whose_head_is_the_embedding(self):
        model = llama(tied=True)
        _, ours = self.there_and_back(model, "llama")
        self.assertNotIn("head.fc.weight", ours)
        self.assert_loads(model)

    def test_half_precision_stays_as_it_is(self):
        _, ours = self.there_and_back(gpt2().to(torch.bfloat16), "gpt2")
        self.assertEqual(ours["blocks.0.qkv.weight"].dtype, torch.bfloat16)

    def test_bert(self):
        theirs, ours = self.there_and_back(transformers.BertModel(bert_config()), "bert", prefix="bert.")
        parts = [theirs[f"encoder.layer.0.attention.self.{part}.bias"] for part in ("query", "key", "value")]
        self.assertTrue(torch.equal(ours["blocks.0.qkv.bias"], torch.cat(parts)))
        self.assertTrue(torch.equal(ours["head.pooler.weight"], theirs["pooler.dense.weight"]))

    def test_bert_with_heads(self):
        for make in (transformers.BertForMaskedLM, transformers.BertForPreTraining,
                     transformers.BertForSequenceClassification):
            with self.subTest(make.__name__):
                model = make(bert_config())
                self.there_and_back(model, "bert")
                self.assert_loads(model)

    def test_resnet(self):
        for layer_type in ("basic", "bottleneck"):
            with self.subTest(layer_type):
                model = resnet(layer_type)
                theirs, ours = self.there_and_back(model, "resnet")
                self.assertTrue(torch.equal(ours["head.fc.weight"], theirs["classifier.1.weight"]))
                self.assertFalse(any("num_batches_tracked" in name for name in ours))
                self.assert_loads(model)


if __name__ == "__main__":
    unittest.main()
