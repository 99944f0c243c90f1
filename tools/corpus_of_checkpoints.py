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
        return b"(" + b"".join(b"K" + bytes([value]) if value < 256 else number(value) for value in values) + b"t"
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


def name(module, attribute):
    return f"c{module}\n{attribute}\n".encode()


def number(value):
    return b"\x8a\x08" + struct.pack("<q", value)


def size(*lengths):
    return name("torch", "Size") + b"((" + b"".join(number(length) for length in lengths) + b"ttR"


def mapping(entries):
    return b"}(" + b"".join(word(key) + value for key, value in entries) + b"u"


def sequence(*items):
    return b"](" + b"".join(items) + b"e"


DCP = "torch.distributed.checkpoint.metadata"


def made(kind, module=DCP, **attributes):
    """An object of a dataclass."""
    return name(module, kind) + b")\x81" + mapping(attributes.items()) + b"b"


def dcp_tensor(shape, chunks, dtype="float32"):
    layout = name("torch.serialization", "_get_layout") + word("torch.strided") + b"\x85R"
    memory = name(DCP, "_MEM_FORMAT_ENCODING") + b"K\x00\x85R"
    state = b"(" + name("torch", dtype) + layout + b"\x89" + memory + b"\x89t"
    properties = name(DCP, "TensorProperties") + b")\x81" + state + b"b"
    pieces = [made("ChunkStorageMetadata", offsets=size(*at), sizes=size(*lengths)) for at, lengths in chunks]
    return made("TensorStorageMetadata", properties=properties, size=size(*shape), chunks=sequence(*pieces))


def dcp_item(fqn, offset, file, at, length, **more):
    place = made("_StorageInfo", "torch.distributed.checkpoint.filesystem", relative_path=word(file), offset=number(at),
                 length=number(length), **more)
    return made("MetadataIndex", fqn=word(fqn), index=b"N", offset=offset) + place


def dcp_metadata(tensors, items):
    return b"\x80\x02" + made("Metadata", state_dict_metadata=mapping(tensors), planner_data=b"}",
                              storage_data=b"}(" + b"".join(items) + b"u", storage_meta=b"N",
                              version=word("1.0.0")) + b"."


def checkpoint_foreign_dcp_metadata():
    columns = ("w", dcp_tensor((2, 3), [((0, 0), (2, 1)), ((0, 1), (2, 2))]))
    halves = [dcp_item("w", size(0, 0), "__0_0.distcp", 0, 700), dcp_item("w", size(0, 1), "__1_0.distcp", 0, 700)]
    step = ("step", made("BytesStorageMetadata"))
    whole = dcp_metadata([columns, step], [*halves, dcp_item("step", b"N", "__0_0.distcp", 700, 10)])
    row = ("w", dcp_tensor((2,), [((0,), (2,))]))

    def placed(file="__0_0.distcp", at=0, length=700, **more):
        return dcp_metadata([row], [dcp_item("w", size(0), file, at, length, **more)])

    inputs = {
        "whole": whole,
        "no_tensor": dcp_metadata([], []),
        "scalar": dcp_metadata([("s", dcp_tensor((), [((), ())]))], [dcp_item("s", size(), "__0_0.distcp", 0, 9)]),
        "aliases": dcp_metadata([row, ("v", row[1])], [dcp_item(fqn, size(0), "__0_0.distcp", 0, 700) for fqn in "wv"]),
        "complex": dcp_metadata([("c", dcp_tensor((2,), [], "complex128"))], []),
        "leads_out": placed("../x.distcp"),
        "absolute": placed("/etc/passwd"),
        "negative": placed(at=-1),
        "compressed": placed(transform_descriptors=sequence(word("zstd"))),
        "overlapping_items": dcp_metadata([columns], [dcp_item("w", size(0, 0), "__0_0.distcp", 0, 700),
                                                      dcp_item("w", size(0, 1), "__0_0.distcp", 699, 700)]),
        "overlapping_chunks": dcp_metadata([("w", dcp_tensor((2, 3), [((0, 0), (2, 2)), ((0, 1), (2, 2))]))], halves),
        "hole": dcp_metadata([("w", dcp_tensor((2, 4), [((0, 0), (2, 1)), ((0, 1), (2, 2))]))], halves),
        "no_item": dcp_metadata([columns], halves[:1]),
        "huge": dcp_metadata([("w", dcp_tensor((2**40, 2**40), []))], []),
        "negative_shape": dcp_metadata([("w", dcp_tensor((-2,), []))], []),
        "two_of_a_name": dcp_metadata([row, row], [dcp_item("w", size(0), "__0_0.distcp", 0, 700)]),
        "state_dict": WEIGHTS,
        "system": b"\x80\x02" + name("os", "system") + word("true") + b"\x85R.",
        "empty": b"",
    }
    return inputs | cut("whole", whole)


def flat(key, length):
    return tensor(key, (length,), (1,))


def pickled(value):
    return b"\x80\x02" + value + b"."


def deepspeed_optimizer(stage, weights, moments):
    state = mapping([("step", tensor("3", (), ())), ("exp_avg", moments)])
    state = mapping([("state", b"}(K\x00" + state + b"u"), ("param_groups", b"]")])
    kind = name("deepspeed.runtime.zero.config", "ZeroStageEnum") + number(stage) + b"\x85R"
    partition, base = (("fp32_flat_groups", "optimizer_state_dict") if stage == 3
                       else ("single_partition_of_fp32_groups", "base_optimizer_state"))
    inner = [("zero_stage", kind), ("partition_count", number(2)), (partition, sequence(weights)), (base, state)]
    return pickled(mapping([("optimizer_state_dict", mapping(inner))]))


def deepspeed_model(shapes, **more):
    entries = {"module": mapping([("mean", flat("2", 2)), ("tied", flat("0", 1)), ("extra", word("state"))]),
               "buffer_names": sequence(word("mean")), "param_shapes": sequence(mapping(shapes)),
               "shared_params": mapping([("tied", word("a"))]), "ds_version": word("0.18.2"),
               "global_steps": number(12)}
    return pickled(mapping((entries | more).items()))


def checkpoint_foreign_deepspeed_folder():
    shapes = [("a", size(2, 2)), ("b", size(3))]
    frozen = {"frozen_param_shapes": mapping([("cold", size(3))])}

    def folder(stage, model, second=None, weights=flat("0", 4), moments=flat("1", 4)):
        ranks = [deepspeed_optimizer(stage, weights, moments), deepspeed_optimizer(stage, flat("0", 4), flat("1", 4))]
        return b"\n--\n".join([*ranks, model, *([second] if second else [])])

    part = deepspeed_model(shapes, frozen_param_fragments=mapping([("cold", flat("2", 2))]), **frozen)
    whole = deepspeed_model(shapes, frozen_param_fragments=mapping([("cold", flat("2", 3))]), **frozen)
    model = deepspeed_model(shapes)
    endless = tensor("0", (2**30,), (0,))
    inputs = {
        "zero_2": folder(2, model),
        "zero_2_frozen": folder(2, whole),
        "zero_3": folder(3, model),
        "zero_3_frozen": folder(3, part, part),
        "no_second_model": folder(3, part),
        "short_partition": folder(2, model, weights=flat("0", 2)),
        "short_moments": folder(2, model, moments=flat("1", 3)),
        "matrix": folder(2, model, weights=tensor("0", (2, 2), (2, 1))),
        "endless": folder(2, model, weights=endless),
        "endless_buffer": folder(2, deepspeed_model(shapes, module=mapping([("mean", tensor("2", (2**40,), (0,)))]))),
        "no_storage": folder(2, model, weights=flat("9", 4)),
        "stage_4": folder(4, model),
        "two_of_a_name": folder(2, deepspeed_model([*shapes, ("a", size(1))])),
        "negative_shape": folder(2, deepspeed_model([("a", size(-4))])),
        "huge_shape": folder(2, deepspeed_model([("a", size(2**40, 2**40))])),
        "alias_of_nothing": folder(2, deepspeed_model(shapes, shared_params=mapping([("tied", word("c"))]))),
        "no_shapes": folder(2, deepspeed_model(shapes, param_shapes=b"N")),
        "state_dict": WEIGHTS,
        "system": folder(2, pickled(name("os", "system") + word("true") + b"\x85R")),
        "empty": b"",
    }
    return inputs | cut("zero_2", inputs["zero_2"])


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
                            checkpoint_foreign_zip_archive, checkpoint_foreign_dcp_metadata,
                            checkpoint_foreign_deepspeed_folder, checkpoint_tools_tags)}

ACCEPTED = {
    "checkpoint_format_safetensors_index": "two_shards no_size",
    "checkpoint_foreign_pickle_machine": "state_dict plain protocol_4 skipped",
    "checkpoint_foreign_zip_archive": "whole",
    "checkpoint_foreign_dcp_metadata": "whole no_tensor scalar aliases complex",
    "checkpoint_foreign_deepspeed_folder": "zero_2 zero_2_frozen zero_3 zero_3_frozen alias_of_nothing",
    "checkpoint_tools_tags": "whole no_step deeper",
}
