"""Inputs of make_corpus.py for the readers of checkpoints that others write, and of tags."""
import io
import json
import struct
import zipfile


def cut(name, data):
    return {f"{name}-half": data[:len(data) // 2], f"{name}-short": data[:-1]}


def checkpoint_format_safetensors_index():
    weights = {"a": "model-00001-of-00002.safetensors", "b": "model-00002-of-00002.safetensors"}
    texts = {
        "two_shards": json.dumps({"metadata": {"total_size": 32}, "weight_map": weights}),
        "no_size": json.dumps({"weight_map": weights}),
        "leads_out": json.dumps({"weight_map": {"a": "../a.safetensors"}}),
        "absolute": json.dumps({"weight_map": {"a": "/etc/passwd"}}),
        "not_a_name": json.dumps({"weight_map": {"a": 3}}),
        "no_map": json.dumps({"metadata": {}}),
        "duplicate": '{"weight_map":{"a":"x.safetensors","a":"y.safetensors"}}',
        "deep": '{"weight_map":' * 60 + "1" + "}" * 60,
        "list": "[]",
    }
    inputs = {name: text.encode() for name, text in texts.items()}
    return inputs | cut("two_shards", inputs["two_shards"]) | {"not_utf8": b'{"weight_map":{"\xff":"a"}}'}


def word(text):
    return b"X" + struct.pack("<I", len(text)) + text.encode()


def tensor(key, sizes, strides):
    """torch._utils._rebuild_tensor_v2 of a storage of floats."""
    def numbers(values):
        return b"(" + b"".join(b"K" + bytes([value]) for value in values) + b"t"
    storage = b"(" + word("storage") + b"ctorch\nFloatStorage\n" + word(key) + word("cpu") + b"K\x06tQ"
    return (b"ctorch._utils\n_rebuild_tensor_v2\n(" + storage + b"K\x00" + numbers(sizes) + numbers(strides)
            + b"\x89ccollections\nOrderedDict\n)RtR")


def state_dict(entries):
    return b"\x80\x02ccollections\nOrderedDict\n)R(" + b"".join(word(name) + value for name, value in entries) + b"u."


WEIGHTS = state_dict([("w", tensor("0", (2, 3), (3, 1))), ("turned", tensor("0", (3, 2), (1, 3)))])


def checkpoint_foreign_pickle_machine():
    inputs = {
        "state_dict": WEIGHTS,
        "plain": b"\x80\x02}(" + word("epoch") + b"K\x03" + word("loss") + b"G?\xf0" + bytes(6) + word("list")
                 + b"](K\x01K\x02eu.",
        "protocol_4": b"\x80\x04\x95\x0a\x00\x00\x00\x00\x00\x00\x00\x8c\x01a\x94\x8c\x01b\x94\x86\x94.",
        "skipped": b"\x80\x02cnumpy.core.multiarray\n_reconstruct\n(cnumpy\nndarray\nK\x00\x85c_codecs\nencode\n"
                   + word("b") + word("latin1") + b"\x86RtR.",
        "system": b"cos\nsystem\n(S'true'\ntR.",
        "eval": b"\x80\x02cbuiltins\neval\n" + word("1") + b"\x85R.",
        "getattr": b"\x80\x02cbuiltins\ngetattr\nN" + word("x") + b"\x86R.",
        "inst": b"(ios\nsystem\n.",
        "setstate": b"\x80\x02}}" + word("__setstate__") + b"Nsb.",
        "no_stop": b"\x80\x02]",
        "empty_stack": b"\x80\x02R.",
        "no_memo": b"\x80\x02h\x05.",
        "negative": b"\x8b\xff\xff\xff\xff.",
        "deep": b"\x80\x02" + b"]" * 3000 + b"a" * 2999 + b".",
        "doubles": b"\x80\x02]" + b"2(lp0\n" * 8 + b".",
        "extension": b"\x82\x01.",
        "empty": b"",
    }
    return inputs | cut("state_dict", WEIGHTS)


def archive(records, compression=zipfile.ZIP_STORED):
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", compression) as packed:
        for name, data in records.items():
            packed.writestr(zipfile.ZipInfo("archive/" + name, (1980, 1, 1, 0, 0, 0)), data, compression)
    return file.getvalue()


def checkpoint_foreign_zip_archive():
    data = struct.pack("<6f", *range(6))
    records = {"data.pkl": WEIGHTS, "byteorder": b"little", "data/0": data, "version": b"3\n"}
    whole = archive(records)
    inputs = {
        "whole": whole,
        "big_endian": archive(records | {"byteorder": b"big"}),
        "compressed": archive(records, zipfile.ZIP_DEFLATED),
        "short_storage": archive(records | {"data/0": data[:-4]}),
        "no_storage": archive({name: value for name, value in records.items() if name != "data/0"}),
        "no_pickle": archive({"version": b"3\n"}),
        "evil": archive(records | {"data.pkl": b"cos\nsystem\n(S'true'\ntR."}),
        "no_entry": archive({}),
        "huge_directory": whole[:-12] + struct.pack("<IIH", 2**32 - 2, 0, 0) + b"\x00\x00",
        "html": b"<!DOCTYPE html><html>404</html>",
        "zeros": bytes(200),
        "git_lfs": b"version https://git-lfs.github.com/spec/v1\noid sha256:ab\nsize 12\n",
        "legacy": b"\x80\x02\x8a\x0al\xfc\x9cF\xf9 j\xa8P\x19.",
    }
    return inputs | cut("whole", whole)


def checkpoint_tools_tags():
    whole = {"tag": "best", "path": "/runs/a/checkpoints/step-200", "format": "lockstep", "step": 200, "run": "a",
             "metric": "val_loss 2.31", "parent": "", "created": "2026-01-31T12:00:00Z",
             "files": {"model.safetensors": {"bytes": 88, "xxh3": "0011223344556677"}}}

    def changed(**fields):
        return json.dumps(whole | fields).encode()

    file = whole["files"]["model.safetensors"]
    inputs = {
        "whole": changed(),
        "no_step": changed(step=None),
        "deeper": changed(files={"a/b.safetensors": file}),
        "leads_out": changed(files={"../b": file}),
        "absolute": changed(files={"/b": file}),
        "bad_name": changed(tag="../x"),
        "bad_sum": changed(files={"a": file | {"xxh3": "xyz"}}),
        "negative": changed(files={"a": file | {"bytes": -1}}),
        "no_files": changed(files=[]),
        "list": b"[]",
    }
    return inputs | cut("whole", changed())


TARGETS = {function.__name__: function
           for function in (checkpoint_format_safetensors_index, checkpoint_foreign_pickle_machine,
                            checkpoint_foreign_zip_archive, checkpoint_tools_tags)}

ACCEPTED = {
    "checkpoint_format_safetensors_index": "two_shards no_size",
    "checkpoint_foreign_pickle_machine": "state_dict plain protocol_4 skipped",
    "checkpoint_foreign_zip_archive": "whole",
    "checkpoint_tools_tags": "whole no_step deeper",
}
