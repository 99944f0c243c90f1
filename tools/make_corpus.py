#!/usr/bin/env python3
"""Writes tests/fuzz/corpus: for each fuzz target, small valid inputs and the ways they are broken.

make_corpus.py          writes the files (others are removed), and tests/fuzz/accepted.txt: which are valid
make_corpus.py --check  exits 1 when a committed file differs from what this script would write

A new fuzz target gets a function here, whose name is the target's (docs/guides/building.md), and a line in ACCEPTED.
"""

import argparse
import gzip
import hmac
import json
import math
import pathlib
import re
import struct
import sys

import corpus_of_checkpoints

ROOT = pathlib.Path(__file__).resolve().parent.parent
CORPUS = ROOT / "tests/fuzz/corpus"
ACCEPTED_FILE = ROOT / "tests/fuzz/accepted.txt"


def u32(value):
    return struct.pack("<I", value)


def u64(value):
    return struct.pack("<Q", value)


def text(value):
    """A text of the store protocol: its length, then its bytes."""
    value = value.encode() if isinstance(value, str) else value
    return u64(len(value)) + value


def constants(header):
    """Plain numbers that a C++ header defines, by name: products of them too."""
    found = {}
    text = (ROOT / header).read_text()
    for name, value in re.findall(r"constexpr [\w:]+ (k\w+) = ([^;]+);", text):
        if re.fullmatch(r"(0x[0-9a-f]+|\d+)( \* \d+)*", value):
            found[name] = math.prod(int(factor, 0) for factor in value.split(" * "))
    return found


def cut(name, data):
    """A file that ends too early, in the middle and one byte before its end."""
    return {f"{name}-half": data[: len(data) // 2], f"{name}-short": data[:-1]}


def store_frame():
    hello = b"\x00" + u32(0x3C85F7CE) + b"\x0d" + u32(77)
    requests = {
        "set": b"\x01" + text("/a") + text("1"),
        "compare_set": b"\x02" + text("/a") + text("1") + text("2"),
        "get": b"\x03" + text("/a"),
        "add": b"\x04" + text("/n") + struct.pack("<q", -3),
        "check": b"\x05" + u64(2) + text("/a") + text("/b"),
        "wait": b"\x06" + u64(1) + text("/a"),
        "num_keys": b"\x07",
        "delete_key": b"\x08" + text("/a"),
        "append": b"\x09" + text("/a") + text("more"),
        "multi_get": b"\x0a" + u64(2) + text("/a") + text("/b"),
        "multi_set": b"\x0b" + u64(2) + text("/a") + text("1") + text("/b") + text("2"),
        "cancel_wait": b"\x0c",
        "queue": b"\x0e" + text("q") + text("v") + b"\x10" + text("q") + b"\x0f" + text("q"),
        "list_keys": b"\x11",
    }
    inputs = {name: hello + request for name, request in requests.items()}
    inputs["session"] = hello + b"".join(requests.values())
    inputs["wrong_magic"] = b"\x00" + u32(0x12345678)
    inputs["no_hello"] = requests["set"]
    inputs["unknown_kind"] = hello + b"\x12"
    inputs["huge_key"] = hello + b"\x03" + u64(2**63 - 1) + b"x"
    inputs["huge_value"] = hello + b"\x01" + text("/a") + u64(2**32)
    inputs["huge_count"] = hello + b"\x05" + u64(2**64 - 1)
    inputs["add_to_text"] = hello + requests["set"] + b"\x09" + text("/a") + text("x") + b"\x04" + text("/a") + u64(1)
    inputs["add_overflow"] = hello + (b"\x04" + text("/n") + struct.pack("<q", 2**63 - 1)) * 2
    inputs |= cut("session", inputs["session"])
    return inputs


def config_parse():
    inputs = {path.parent.name: path.read_bytes() for path in sorted(ROOT.glob("examples/*/run.toml"))}
    inputs |= {
        "empty": b"",
        "unknown_key": b"[model]\nfamly = 'mlp'\nwidht = 3\n",
        "wrong_types": b"[run]\nsteps = 'ten'\nthreads = 1.5\n[optimizer]\nbetas = [1, 2, 3]\nlr = nan\n",
        "out_of_range": b"[run]\nsteps = -1\n[batch]\nmicro_batch = 9223372036854775807\n[optimizer]\nlr = 1e400\n",
        "unread_keys": b"[model]\nfamily = 'mlp'\nheads = 3\n[data]\nformat = 'synthetic'\nmean = 1.0\n",
        "batch": b"[batch]\nglobal_batch = 256\nmicro_batch = 2\naccumulation = 18\n",
        "not_toml": b"[run\nsteps == 3\n\x00\xff",
        "duplicate": b"[run]\nsteps = 1\nsteps = 2\n[run]\n",
        "dotted": b"run.steps = 3\nmodel = {family = 'gpt', width = 64}\n",
        "nested": b"a = " + b"[" * 300 + b"]" * 300,
        "set": b"run.steps=10",
        "set_list": b"optimizer.betas=[0.9, 0.95]",
        "json": b'{"run":{"steps":10,"seed":1,"name":"x"},"model":{"family":"mlp"}}',
    }
    return inputs


def idx_array(dims, values):
    return bytes([0, 0, 8, len(dims)]) + b"".join(struct.pack(">I", d) for d in dims) + values


def data_formats_idx():
    images = idx_array([2, 4, 4], bytes(range(32)))
    labels = idx_array([3], b"\x00\x01\x09")
    inputs = {
        "images": images,
        "labels": labels,
        "gzip": gzip.compress(images, 0, mtime=0),
        "empty_array": idx_array([0, 4, 4], b""),
        "floats": b"\x00\x00\x0d\x01" + struct.pack(">If", 1, 1.0),
        "huge_dims": idx_array([2**32 - 1, 2**32 - 1, 2**32 - 1], b"x"),
        "five_dims": idx_array([1] * 5, b"x"),
        "trailing": images + b"more",
        "html": b"<!DOCTYPE html><html>404</html>",
    }
    return inputs | cut("images", images) | cut("gzip", gzip.compress(images, 0, mtime=0))


def data_formats_cifar():
    ten = bytes([3]) + bytes(i % 256 for i in range(3072))
    hundred = bytes([11, 99]) + bytes(3072)
    inputs = {"cifar10": ten * 2, "cifar100": hundred * 2, "label_too_high": bytes([200]) + bytes(3072), "empty": b""}
    return inputs | cut("cifar10", ten * 2)


def safetensors(header, data_bytes):
    """The target's input: the header's JSON, a line end, then as many data bytes as the file has."""
    header = header if isinstance(header, bytes) else json.dumps(header).encode()
    return header + b"\n" + bytes(data_bytes)


def entry(dtype, shape, begin, end):
    return {"dtype": dtype, "shape": shape, "data_offsets": [begin, end]}


def checkpoint_format_safetensors():
    weights = {"__metadata__": {"format": "pt"}, "a": entry("F32", [2, 3], 0, 24), "b": entry("BF16", [4], 24, 32)}
    inputs = {
        "two_tensors": safetensors(weights, 32),
        "scalar_and_empty": safetensors({"s": entry("I64", [], 0, 8), "e": entry("F32", [0, 5], 8, 8)}, 8),
        "no_tensor": safetensors({}, 0),
        "hole": safetensors({"a": entry("F32", [1], 4, 8)}, 8),
        "overlap": safetensors({"a": entry("F32", [2], 0, 8), "b": entry("F32", [2], 4, 12)}, 12),
        "trailing": safetensors({"a": entry("F32", [1], 0, 4)}, 9),
        "end_before_begin": safetensors({"a": entry("F32", [1], 8, 4)}, 8),
        "size_disagrees": safetensors({"a": entry("F32", [3], 0, 8)}, 8),
        "shape_overflows": safetensors({"a": entry("F32", [2**32, 2**32, 2**32], 0, 0)}, 0),
        "negative_dim": safetensors({"a": entry("F32", [-1], 0, 4)}, 4),
        "unknown_dtype": safetensors({"a": entry("F33", [1], 0, 4)}, 4),
        "huge_numbers": safetensors(b'{"a":{"dtype":"F32","shape":[1e300],"data_offsets":[0,1e300]}}', 4),
        "duplicate": safetensors(b'{"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]},'
                                 b'"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]}}', 1),
        "deep": safetensors(b'{"a":' * 100 + b"1" + b"}" * 100, 0),
        "not_utf8": safetensors(b'{"\xff\xfe":{"dtype":"U8","shape":[1],"data_offsets":[0,1]}}', 1),
        "text_metadata": safetensors({"__metadata__": {"n": 3}}, 0),
        "html": b"<!DOCTYPE html><html>404</html>",
    }
    return inputs | cut("two_tensors", safetensors(weights, 32))


def checkpoint_format_manifest():
    piece = {"file": "model.safetensors", "offset": [0, 0], "shape": [2, 3], "byte_offset": 64, "byte_count": 24,
             "xxh3": ["00112233445566aa"]}
    tensor = {"name": "a", "kind": "parameter", "dtype": "F32", "shape": [2, 3], "aliases": ["tied"], "pieces": [piece]}
    whole = {"xxh3": "0011223344556677", "format": "lockstep-checkpoint", "format_version": 2, "step": 200,
             "position": {"epoch": 1, "sample": 75}, "skipped_steps": 0, "seed": 1, "config_hash": "ab",
             "config": {"run": {"seed": 1}}, "world": {"size": 2, "layout": "data=2"},
             "versions": {"lockstep": "0.1.0"}, "files": {"model.safetensors": 88}, "tensors": [tensor]}

    def changed(**fields):
        return json.dumps(whole | fields).encode()

    def with_piece(**fields):
        return changed(tensors=[tensor | {"pieces": [piece | fields]}])

    halves = [piece | {"offset": [row, 0], "shape": [1, 3], "byte_offset": 64 + 12 * row, "byte_count": 12}
              for row in (0, 1)]
    inputs = {
        "whole": changed(),
        "no_tensor": changed(tensors=[]),
        "two_pieces": changed(tensors=[tensor | {"pieces": halves}]),
        "overlap": changed(tensors=[tensor | {"pieces": [halves[0], halves[0]]}]),
        "hole": changed(tensors=[tensor | {"pieces": halves[1:]}]),
        "name_twice": changed(tensors=[tensor, tensor]),
        "outside_file": with_piece(byte_offset=2**63 - 1),
        "leads_out": changed(files={"../model.safetensors": 88}),
        "unknown_file": with_piece(file="other.safetensors"),
        "bad_checksum": with_piece(xxh3=["xyz"]),
        "no_checksum": with_piece(xxh3=[]),
        "version_1": changed(format_version=1, tensors=[tensor | {"pieces": [piece | {"xxh3": "00112233445566aa"}]}]),
        "newer": changed(format_version=99),
        "other_format": changed(format="x"),
        "negative_step": changed(step=-1),
        "huge_shape": changed(tensors=[tensor | {"shape": [2**62, 2**62]}]),
        "deep_config": changed(config=json.loads("[" * 40 + "]" * 40)),
        "float_step": changed(step=1.5),
    }
    return inputs | cut("whole", changed())


def comm_records_flight_file():
    """Files of few records; docs/formats/flight.md has the offsets."""
    def record(index, sequence, state, group=0, version=2, count=1024, site=b"bucket 4: layer3.0.conv1.weight .."):
        words = struct.pack("<8Q", index, sequence, count, 4 * count, 10**9, 10**9 + 500, 0, state | group << 8)
        return u64(version) + words + struct.pack("<24s16s80s", b"all_reduce", b"float32", site)

    def file(records, capacity=None, **fields):
        head = {"magic": b"LSFLIGHT", "version": 2, "pid": 4711, "rank": 1, "world": 2, "phase": 10**9 << 4 | 2,
                "finished": 0, "groups": [(b"world", 1, 2, 4), (b"pairs", 0, 2, 1)]} | fields
        capacity = len(records) if capacity is None else capacity
        head_bytes = head["magic"] + struct.pack("<IIII", head["version"], 4096, 192, capacity)
        head_bytes += struct.pack("<QqqqII", 77, head["pid"], 1234, 5678, head["rank"], head["world"])
        head_bytes += struct.pack("<qq64s40sQ", 10**18, 10**17, b"node1", b"0b7c-boot", 0)
        head_bytes += struct.pack("<QQQQ32x", len(records), head["phase"], 10**9, head["finished"])
        head_bytes += u64(len(head["groups"])) + bytes(56)
        head_bytes += b"".join(struct.pack("<40sIIQQ", *group, 0) for group in head["groups"])
        return head_bytes.ljust(4096, b"\0") + b"".join(records)

    records = [record(5, 3, 1), record(2, 1, 2), record(3, 2, 3), record(4, 1, 0, group=1)]
    inputs = {
        "four_records": file(records),
        "no_record": file([bytes(192)]),
        "being_written": file([record(1, 1, 1, version=3)]),
        "wrong_place": file([record(2, 1, 1), record(2, 1, 1)]),
        "unknown_group": file([record(1, 1, 1, group=2)]),
        "unknown_state": file([record(1, 1, 9)]),
        "unknown_phase": file(records, phase=15),
        "huge_count": file([record(1, 1, 1, count=2**60)]),
        "no_end_of_text": file([record(1, 1, 1, site=b"x" * 80)]),
        "control_characters": file([record(1, 1, 1, site=b"\x1b[2J\x07")]),
        "capacity_too_high": file(records, capacity=2**32 - 1),
        "rank_outside": file(records, rank=2),
        "many_groups": file(records, groups=[(b"g%d" % g, 0, 65536, 9) for g in range(56)]),
        "huge_world": file(records, world=65536, groups=[(b"world", 1, 65536, 4)] * 2),
        "pid_zero": file(records, pid=0),
        "other_version": file(records, version=1),
        "messages": file([record(1, 7, 1, group=1 | 1 << 8 | 2 << 24), record(2, 2**32 - 1, 0, group=1 | 2 << 8),
                          record(3, 1, 1)]),
        "huge_peer": file([record(1, 7, 1, group=2 << 8 | 2**32 - 1 << 24)]),
        "unknown_kind": file([record(1, 7, 1, group=3 << 8)]),
        "html": b"<!DOCTYPE html><html>404</html>",
    }
    return inputs | cut("four_records", file(records))


def comm_control_frame():
    """What ranks say to each other; lockstep/comm/control/frame.cpp has the fields."""
    def frame(word, rank=0, sequence=0, kind=0, count=0, said=b"", disagreement=0):
        return struct.pack("<4sIQQQHBBI", b"1CSL", rank, sequence, kind, count, len(said), word, disagreement, 0) + said

    conversation = (frame(1, rank=1, sequence=12345) + frame(2, sequence=1, kind=3, count=409600,
                                                             said=b"bucket 4: conv1.weight") + frame(3) +
                    frame(5, rank=2, said=b"collective #1: ranks disagree", disagreement=1) + frame(4))
    return {"conversation": conversation, "long_text": frame(5, said=b"x" * 1024)}


def comm_shm_segment():
    """Fields of lockstep/comm/shm/layout.h, in the order in which segment_fuzz.cpp lays them over its memory."""
    numbers = constants("lockstep/comm/shm/layout.h")
    page, line, inline, site_bytes = (numbers[name] for name in ("kPage", "kLine", "kInlineBytes", "kSiteBytes"))

    def slot(sequence=0, kind=0, count=0, stream=0, payload=b"", site=b"b.cpp:7"):
        return struct.pack(f"<4Q{inline}s{site_bytes}s", sequence, kind, count, stream, payload, site)

    def block(slots, staged=0, reduced=0, consumed=0, unread=0, sleeping=0, closed=0, withdrawn=0, process=4711):
        lines = [u64(value) for value in (staged, reduced, consumed, unread)]
        lines += [struct.pack("<II", 1, sleeping), struct.pack("<IIIxxxxqq", 99, closed, withdrawn, process, 10**9),
                  struct.pack("<QQ", 0, 0)]
        return slots + b"".join(fields.ljust(line, b"\0") for fields in lines)

    def stamp(message, piece, kind=5, tag=7, first=1):
        return struct.pack("<QQIiI36x", message, piece, kind, tag, first)

    def mailbox(posted=0, taken=0, stamps=b""):
        return u64(posted).ljust(64, b"\0") + u64(taken).ljust(64, b"\0") + stamps.ljust(128, b"\0")

    def memory(action=0, ranks=2, missing=0, slots=slot() + slot(), letters=mailbox(), counts=(0, 0), abort=(0, 0, b""),
               magic=numbers["kMagic"], header_ranks=2, ring=8 * page, piece=page, total=None, **fields):
        data = 2 * numbers["kDirectBytes"] + 2 * 8 * page + page + numbers["kMailPieces"] * 8 * page
        total = 2 * page + 2 * data if total is None else total
        head = struct.pack("<IIQQQ32x", magic, header_ranks, ring, piece, total)
        return (bytes([ranks, action, missing]) + head + struct.pack("<II64s", *abort) + block(slots, **fields) +
                letters + struct.pack("<QQ", *counts))

    def kind(collective, reduction=0, uneven=0, root=0):
        return collective | reduction << 16 | uneven << 24 | root << 32

    def entered(collective, count, **fields):
        stream = fields.pop("stream", 0)
        return slot() + slot(1, kind(collective, **fields), count, stream, struct.pack("<6f", *range(6)))

    large, message = 30000, 2 * 32768
    pieces = stamp(message, 32768) + stamp(message, 32768, first=0)
    inputs = {
        "untouched": memory(),
        "all_reduce": memory(0, slots=entered(0, 6)),
        "all_reduce_large": memory(9, slots=entered(0, large), staged=15, reduced=15, consumed=15),
        "reduce_scatter_large": memory(11, slots=entered(2, large), staged=30, reduced=30, consumed=30),
        "broadcast_large": memory(30, slots=entered(3, large, root=1), staged=30, consumed=30),
        "all_gather_large": memory(13, slots=entered(4, large), staged=30, consumed=30),
        "scatter_large": memory(33, slots=entered(6, large, root=1), staged=30, reduced=30),
        "uneven": memory(16, slots=entered(7, 0, uneven=1, stream=120000), staged=30, reduced=30, counts=(120000, 20)),
        "uneven_endless": memory(16, slots=entered(7, 0, uneven=1, stream=2**64 - 1), counts=(120000, 20)),
        "uneven_short": memory(16, slots=entered(7, 0, uneven=1, stream=8), counts=(120000, 20)),
        "other_collective": memory(0, slots=entered(4, 6)),
        "unknown_collective": memory(0, slots=slot() + slot(1, 2**64 - 1, 2**64 - 1, 0, site=b"\x1b[2J" * 12)),
        "closed": memory(9, slots=entered(0, large), closed=1, sleeping=1),
        "message": memory(128, letters=mailbox(1, 0, stamp(100, 100))),
        "message_large": memory(131, letters=mailbox(2, 0, stamp(98304, 32768) + stamp(98304, 32768, first=0))),
        "letters": memory(128, letters=mailbox(2, 0, stamp(9, 9, tag=8) + stamp(10, 10, tag=9))),
        "message_in_letter": memory(129, letters=mailbox(2, 0, stamp(message, 32768, tag=8) + pieces[64:])),
        "message_of_other_size": memory(128, letters=mailbox(1, 0, stamp(101, 101))),
        "message_too_long": memory(129, letters=mailbox(2, 0, stamp(2**64 - 1, 2**63, tag=8))),
        "message_without_beginning": memory(128, letters=mailbox(1, 0, stamp(100, 100, first=0))),
        "mailbox_overfull": memory(128, letters=mailbox(2**63, 0, stamp(9, 9, tag=8))),
        "aborted": memory(0, abort=(2, 1, b"rank 1 \x07 gave up")),
        "abort_half_written": memory(0, abort=(1, 0, b"")),
        "not_ours": memory(magic=0x464C457F),
        "for_three": memory(header_ranks=3),
        "one_rank": memory(ranks=1, header_ranks=1),
        "many_ranks": memory(ranks=255, header_ranks=255),
        "no_ring": memory(ring=0),
        "uneven_ring": memory(ring=4097),
        "huge_ring": memory(ring=2**63),
        "piece_larger_than_ring": memory(piece=9 * 4096),
        "huge_piece": memory(piece=2**64 - 4096),
        "other_total": memory(total=4096),
        "pages_missing": memory(missing=1),
        "all_missing": memory(missing=255),
    }
    return inputs | cut("untouched", memory())


def rendezvous_control_frame():
    """To whom, then the words of lockstep/rendezvous/control_frame.cpp."""
    caller, answerer, frames, payloads = (struct.pack("B", 4 * 200 + whom & 255) for whom in range(4))
    key = hmac.digest(bytes([9]).ljust(32, b"\0"), b"frames", "sha256")

    def message(kind, rest, magic=b"LSR1", version=1, zero=0):
        return magic + struct.pack("<HBB", version, kind, zero) + rest

    def frame(kind, counter, payload, length=None, zero=0, key=key):
        length = len(payload) if length is None else length
        bytes_ = message(4, struct.pack("<IIQ", length, zero, counter) + payload, zero=kind)
        return bytes_ + hmac.digest(key, bytes_, "sha256")

    job = hmac.digest(b"lockstep: which job this is", b"job", "sha256")[:16]
    hello = message(1, job + bytes(range(32)))
    challenge = message(2, job + bytes(range(64)))
    proof = message(3, bytes(32))
    conversation = frame(1, 0, b"agent-1") + frame(3, 1, b"12345678record") + frame(6, 2, b"")
    inputs = {
        "hello": answerer + hello,
        "wrong_proof": answerer + hello + proof,
        "other_job": answerer + message(1, bytes(48)),
        "other_version": answerer + message(1, job + bytes(32), version=2),
        "proof_first": answerer + proof,
        "http": answerer + b"GET / HTTP/1.1\r\n\r\n",
        "challenge": caller + challenge,
        "challenge_of_other_job": caller + message(2, bytes(80)),
        "own_hello": caller + hello,
        "newer_challenge": caller + message(2, b"", version=9),
        "conversation": frames + conversation,
        "long": frames + frame(5, 0, b"s" * 3000),
        "repeated": frames + frame(1, 0, b"agent-1") * 2,
        "reordered": frames + frame(1, 1, b"agent-1") + frame(3, 0, b"r"),
        "other_key": frames + frame(1, 0, b"agent-1", key=b"k"),
        "huge": frames + frame(3, 0, b"", length=64 << 20),
        "length_wraps": frames + frame(3, 0, b"", length=2**32 - 1),
        "unknown_kind": frames + frame(7, 0, b""),
        "unused_set": frames + frame(1, 0, b"a", zero=1),
        "payloads": payloads + b"agent-1\0record\0\0state",
    }
    return inputs | cut("conversation", inputs["conversation"])


def config_slurm_text():
    return {
        "mixed": b"gn[10,20,25-27],x[001-003]-b",
        "two_brackets": b"r[0-1]n[0-3]",
        "tasks": b"4(x3),2",
        "one": b"localhost",
        "huge": b"n[0-999999999]",
        "huge_product": b"n[0-999][0-999][0-999]",
        "backwards": b"n[3-1]",
        "open": b"n[1-2",
        "flag": b"-oProxyCommand=x",
        "many_nodes": b"4(x999999999999)",
    }


def starters_hostfile():
    return {
        "deepspeed": b"# nodes\n\nnode-a slots=4\nnode-b slots=2 # small\n",
        "open_mpi": b"aa slots=2 max_slots=4\nbb\ncc:8\n",
        "flag": b"h1:4,h2:4,[::1]:2",
        "unknown_key": b"node-a slots=8\nnode-b lots=8\n",
        "option": b"-oProxyCommand=x slots=1\n",
        "twice": b"a slots=1\na slots=1\n",
        "addresses": b"fd00::7 slots = 2\n[fd00::8]:4\n",
        "nul_in_address": b"fd00::7\0\0\0 slots = 2\n[fd00::8]",
        "odd": b"a slots=99999999999999999999 =\n= =\n",
    }


def starters_agent_order():
    def order(folder, secret, variables, command):
        fields = [folder, secret, b"%d" % len(variables), *variables, *command]
        payload = b"".join(field + b"\0" for field in fields)
        return b"lockstep-agent 1 %d\n" % len(payload) + payload

    whole = order(b"/srv/job", b"a" * 64, [b"PYTHONPATH=/a", b"E="], [b"lockstep", b"launch", b"it's"])
    return cut("whole", whole) | {
        "whole": whole,
        "with_stop": whole + b"T",
        "no_command": order(b"/", b"", [], []),
        "no_name": order(b"/", b"", [b"=x"], [b"ls"]),
        "huge_length": b"lockstep-agent 1 99999999999\n",
        "huge_count": b"lockstep-agent 1 14\n/\0\x0099999999\0a\0",
        "negative": b"lockstep-agent 1 -5\nabcde",
        "banner": b"Welcome to node-a\n",
        "no_end": b"lockstep-agent 1 3\n/\0a",
    }


def rendezvous_records():
    """An agent's record and the job's state; lockstep/rendezvous/records.cpp has the fields."""
    agent = {"id": "a1", "host": "node7", "address": "10.0.0.7", "pid": 77, "node_rank": -1, "ranks": 4,
             "role": "default", "store_port": 29500}
    failure = {"host": "node7", "rank": 3, "local_rank": 1, "pid": 78, "exit_code": 0, "signal": 9, "seconds": 2.5,
               "consequence": False, "because": "killed by SIGKILL", "text": "last \u00e4 line"}
    ranks = {"generation": 2, "kind": "failed", "failures": [failure], "saved": False, "step": 17}
    record = agent | {"machine": "boot", "equal": [{"field": "version", "value": "1"}], "beat": 9, "version": 8,
                      "generation": 2, "cleared": 1, "state_of_ranks": ranks, "leaving": False, "finished": False}
    refusal = {"id": "a2", "exit": 2, "code": "LS-3022", "where": "node8", "what": "taken", "fix": "leave"}
    state = {"run_id": "job", "leader": "a1", "leader_name": "node7 (pid 77)", "version": 8, "phase": "running",
             "generation": 2, "first_generation": 1, "restart_count": 1, "max_restarts": 3, "cause": "none",
             "because": "", "waiting_for": "", "last_end": "round 1 ended", "best_step": 17, "rounds_at_best": 1,
             "seats": [agent | {"base_rank": 0, "beat": 9}], "equal": [{"field": "version", "value": "1"}],
             "lost": ["node8"], "refused": [refusal],
             "strikes": [{"machine": "boot", "count": 1, "held_s": 9.5}]}
    verdict = {"exit": 1, "because": "", "consequences": [failure], "first": failure}

    def changed(value, **fields):
        return json.dumps(value | fields).encode()

    inputs = {
        "record": changed(record),
        "record_running": changed(record, state_of_ranks=ranks | {"kind": "running", "failures": []}),
        "record_long_text": changed(record, state_of_ranks=ranks | {"failures": [failure | {"text": "x" * 40000}]}),
        "record_many_failures": changed(record, state_of_ranks=ranks | {"failures": [failure] * 40}),
        "record_huge_beat": changed(record, beat=2**63),
        "record_negative": changed(record, generation=-1),
        "record_no_rank": changed(record, ranks=0),
        "record_unknown_kind": changed(record, state_of_ranks=ranks | {"kind": "x"}),
        "record_not_finite": json.dumps(record | {"state_of_ranks": ranks | {"failures": [
            failure | {"seconds": 1e308}]}}).replace("1e+308", "1e999").encode(),
        "state": changed(state),
        "state_ended": changed(state, phase="ended", verdict=verdict, seats=[]),
        "state_without_verdict": changed(state, phase="ended"),
        "state_unknown_phase": changed(state, phase="x"),
        "state_unknown_exit": changed(state, verdict=verdict | {"exit": 99}),
        "state_strikes": changed(state, strikes=[{"machine": "m", "count": 2**31, "held_s": None}]),
        "not_an_object": b"[1, 2]",
        "deep": b'{"seats":' + b"[" * 5000,
        "not_utf8": changed(record).replace(b"node7", b"\xff\xfe"),
    }
    return inputs | cut("record", changed(record)) | cut("state", changed(state))


def rendezvous_http_reply():
    """The length of the pieces less one, then an answer of an HTTP server."""
    def answer(*lines, body=b"", first="HTTP/1.1 200 OK"):
        return b"\x06" + "\r\n".join([first, *lines, "", ""]).encode() + body

    chunks = b"3\r\nhel\r\n2;a=b\r\nlo\r\n0\r\nTrailer: x\r\n\r\n"
    lease = b'{"header":{"revision":"2"},"ID":"7587848943238495488","TTL":"3"}'
    inputs = {
        "lease": answer("Content-Type: application/json", f"Content-Length: {len(lease)}", body=lease),
        "chunked": answer("Transfer-Encoding: chunked", "Connection: close", body=chunks),
        "old": answer("Content-Length: 0", first="HTTP/1.0 200"),
        "not_found": answer("Content-Length: 2", first="HTTP/1.1 404 Not Found", body=b"{}"),
        "no_length": answer("Server: x"),
        "two_lengths": answer("Content-Length: 1", "Content-Length: 2", body=b"ab"),
        "both": answer("Content-Length: 1", "Transfer-Encoding: chunked", body=b"a"),
        "huge": answer("Content-Length: 18446744073709551615", body=b"a"),
        "huge_chunk": answer("Transfer-Encoding: chunked", body=b"ffffffffffffffff\r\na"),
        "two_answers": answer("Content-Length: 1", body=b"aHTTP/1.1 200 OK\r\n"),
        "continue": answer(first="HTTP/1.1 100 Continue"),
        "not_http": b"\x00SSH-2.0-OpenSSH_9.2\r\n",
    }
    return inputs | cut("chunked", inputs["chunked"])


def model_stats_hugging_face():
    """One config.json of each kind of network, and the ways they can be wrong."""
    llama = {"model_type": "llama", "hidden_size": 64, "intermediate_size": 128, "num_hidden_layers": 2,
             "num_attention_heads": 4, "num_key_value_heads": 2, "max_position_embeddings": 128, "vocab_size": 100,
             "rope_scaling": None, "torch_dtype": "bfloat16", "attention_bias": False}
    experts = {"num_experts_per_tok": 2, "moe_intermediate_size": 32}
    models = {
        "llama": llama,
        "llama_five": llama | {"dtype": "float32", "head_dim": 16, "rope_parameters": {"rope_type": "default"}},
        "mistral": llama | {"model_type": "mistral", "sliding_window": 16},
        "mixtral": llama | experts | {"model_type": "mixtral", "num_local_experts": 4},
        "qwen2_moe": llama | experts | {"model_type": "qwen2_moe", "num_experts": 4,
                                        "shared_expert_intermediate_size": 64, "mlp_only_layers": [1]},
        "deepseek": llama | experts | {"model_type": "deepseek", "n_routed_experts": 4, "n_shared_experts": 2,
                                       "first_k_dense_replace": 1},
        "gpt2": {"model_type": "gpt2", "n_embd": 64, "n_layer": 2, "n_head": 4, "n_positions": 64, "n_inner": None,
                 "vocab_size": 100, "resid_pdrop": 0.1},
        "gpt_neox": llama | {"model_type": "gpt_neox"},
        "opt": {"model_type": "opt", "hidden_size": 64, "ffn_dim": 128, "num_hidden_layers": 2,
                "num_attention_heads": 4, "max_position_embeddings": 64, "vocab_size": 100, "word_embed_proj_dim": 32},
        "mpt": {"model_type": "mpt", "d_model": 64, "n_layers": 2, "n_heads": 4, "max_seq_len": 64, "vocab_size": 100,
                "no_bias": True, "attn_config": {"alibi": False, "attn_type": "multiquery_attention"}},
        "falcon": {"model_type": "falcon", "hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4,
                   "vocab_size": 100, "new_decoder_architecture": True, "num_kv_heads": 2},
        "bert": llama | {"model_type": "bert", "type_vocab_size": 2},
        "t5": {"model_type": "t5", "d_model": 64, "d_ff": 128, "d_kv": 16, "num_layers": 2, "num_heads": 4,
               "vocab_size": 100, "feed_forward_proj": "gated-gelu"},
        "resnet": {"model_type": "resnet", "embedding_size": 8, "hidden_sizes": [32, 64], "depths": [1, 2],
                   "layer_type": "bottleneck", "num_channels": 3, "id2label": {"0": "cat", "1": "dog"}},
        "unknown_type": llama | {"model_type": "lama"},
        "no_heads": llama | {"num_attention_heads": 0},
        "huge": llama | {"hidden_size": 2**63 - 1, "num_hidden_layers": 2**64 - 1},
        "wrong_types": llama | {"hidden_size": "64", "vocab_size": 1.5, "attention_bias": 1, "num_hidden_layers": []},
        "heads_do_not_fit": llama | {"num_key_value_heads": 3},
        "wrong_object": {"model_type": "mpt", "attn_config": 3},
    }
    inputs = {name: json.dumps(model).encode() for name, model in models.items()}
    inputs["list"] = b"[1, 2]"
    inputs["deep"] = b'{"a":' * 200 + b"1" + b"}" * 200
    inputs["not_utf8"] = b'{"model_type": "\xff\xfe"}'
    return inputs | cut("llama", inputs["llama"])


def planner_deepspeed_file():
    """ds_config.json files as people pass them around, and the ways they can be wrong."""
    batch = {"train_batch_size": 64, "train_micro_batch_size_per_gpu": "auto", "gradient_accumulation_steps": "auto"}
    third = {"stage": 3, "overlap_comm": True, "reduce_bucket_size": "auto", "stage3_prefetch_bucket_size": "auto",
             "stage3_param_persistence_threshold": "auto", "sub_group_size": 1e9, "stage3_max_live_parameters": 1e9}
    cpu = {"device": "cpu", "pin_memory": True}
    files = {
        "all_auto": batch | {"train_batch_size": "auto", "bf16": {"enabled": "auto"}, "fp16": {"enabled": "auto"},
                             "gradient_clipping": "auto", "zero_optimization": third,
                             "optimizer": {"type": "AdamW", "params": {"lr": "auto", "betas": "auto", "eps": 1e-8}},
                             "scheduler": {"type": "WarmupLR", "params": {"warmup_num_steps": "auto"}}},
        "second": batch | {"zero_optimization": {"stage": 2, "offload_optimizer": cpu, "allgather_bucket_size": 2e8}},
        "offloaded": {"zero_optimization": third | {"offload_optimizer": cpu, "offload_param": {"device": "nvme"}}},
        "old_names": {"bfloat16": {"enabled": True}, "zero_optimization": {"stage": 2, "cpu_offload": True}},
        "open_stage": batch | {"zero_optimization": {"stage": "auto", "offload_optimizer": {"device": "auto"}}},
        "second_copy": {"zero_optimization": third | {"zero_hpz_partition_size": 2}},
        "checkpointing": {"activation_checkpointing": {"partition_activations": False}, "wandb": {"team": "auto"}},
        "contradiction": batch | {"train_micro_batch_size_per_gpu": 5},
        "both_types": {"bf16": {"enabled": True}, "fp16": {"enabled": True}},
        "misspelt": {"train_batchsize": 3, "zero_optimization": {"stage": 1, "reduce_bucket_sise": 3}},
        "wrong_types": {"train_batch_size": "64", "bf16": True, "optimizer": {"params": []},
                        "zero_optimization": {"stage": 1.5, "overlap_comm": 1, "reduce_bucket_size": -1}},
        "huge": {"train_batch_size": 2**64 - 1, "zero_optimization": {"reduce_bucket_size": 1e300}},
        "wrong_stage": {"zero_optimization": {"stage": 1, "offload_param": cpu, "zero_hpz_partition_size": 8}},
    }
    inputs = {name: json.dumps(file).encode() for name, file in files.items()}
    inputs["comments"] = b'{"train_batch_size": 8 /* samples */}'
    inputs["empty"] = b"{}"
    inputs["list"] = b"[1, 2]"
    inputs["twice"] = b'{"fp16": {"enabled": true, "enabled": false}}'
    inputs["dotted"] = b'{"zero_optimization.stage": "auto", "zero_optimization": {"stage": 1}}'
    inputs["deep"] = b'{"a":' * 200 + b"1" + b"}" * 200
    inputs["not_utf8"] = b'{"optimizer": {"type": "\xff\xfe"}}'
    return inputs | cut("second", inputs["second"])


def planner_cluster_spec():
    return {
        "spec": b"8xA100-80G*4",
        "spec_with_link": b"4xH100-80G*2@100 GbE",
        "one_host": b"2xrtx4090-24g",
        "file": b'device = "H100-80G"\ndevices_per_host = 4\nhosts = 3\ninside = "PCIe 5"\nbetween = "25 GbE"\n',
        "device_alone": b'device = "A64FX"\n',
        "nothing": b"",
        "unknown_names": b'devise = "H100-80G"\nhosts = 0\ninside = "NVLink 9"\n[net]\nbetween = 3\n',
        "wrong_types": b'device = 3\nhosts = "four"\ndevices_per_host = 1.5\nbetween = ["HDR"]\n',
        "huge": b'device = "A64FX"\nhosts = 9223372036854775807\ndevices_per_host = 1024\n',
        "most": b'device = "A64FX"\nhosts = 1000000\ndevices_per_host = 1024\n',
        "huge_spec": b"99999999999999999999xA100-80G*99999999999",
        "no_devices": b"0xA100-80G*4",
        "not_toml": b"device == 3\n\x00\xff",
    }


def topology_kernel_file():
    names = ("linear convolution_3x3 convolution_1x1 attention layer_norm batch_norm loss embedding gelu relu sum dropout"
             " adamw sgd momentum norm copy step").split()
    head = "lockstep kernels 1\nsource measured\ncpu A CPU\ncores 2\n"
    point = "linear fp32 16 64 1024 3.1 7.5 4.25\n"
    one = head + "ranks 1\n" + "".join(f"{name} fp32 16 8 4 3.1 7.5 4.25\n" for name in names)
    whole = one + "gelu bf16 4096 1 1 1 2 2\nranks 2\n" + point + "all_reduce 2 4 0.5\nall_reduce 2 1048576 49\nend\n"
    texts = {
        "whole": whole,
        "one_rank": one + "end\n",
        "zero_times": one.replace("3.1 7.5 4.25", "0 0 0") + "all_reduce 2 0 0\nall_reduce 2 0 9\nend\n",
        "endless": one.replace("3.1", "1e15").replace("16 8 4", "1e15 1e15 1e15") + "all_reduce 2 1e15 1e15\nend\n",
        "no_end": one,
        "no_points": head + "end\n",
        "kernel_missing": one.replace("step", "gelu") + "end\n",
        "point_before_ranks": head + point,
        "unknown_kernel": head + "ranks 1\n" + point.replace("linear", "linaer"),
        "unknown_type": head + "ranks 1\n" + point.replace("fp32", "fp31"),
        "below_one": head + "ranks 1\n" + point.replace("16", "0"),
        "not_a_number": head + "ranks 1\n" + point.replace("3.1", "nan"),
        "other_format": whole.replace("kernels 1", "kernels 2"),
        "empty": "",
    }
    inputs = {name: text.encode() for name, text in texts.items()}
    return inputs | cut("whole", inputs["whole"])


TARGETS = {function.__name__: function
           for function in (store_frame, config_parse, data_formats_idx, data_formats_cifar,
                            checkpoint_format_safetensors, checkpoint_format_manifest,
                            comm_records_flight_file, comm_control_frame, comm_shm_segment,
                            rendezvous_control_frame, config_slurm_text, starters_hostfile,
                            starters_agent_order, model_stats_hugging_face,
                            rendezvous_records, rendezvous_http_reply,
                            planner_deepspeed_file, planner_cluster_spec, topology_kernel_file)}
TARGETS |= corpus_of_checkpoints.TARGETS

# Inputs that their target takes for what they should be; all others it refuses, wholly or from some place on.
ACCEPTED = {
    "store_frame": "set compare_set get add check wait num_keys delete_key append multi_get multi_set cancel_wait queue"
                   " list_keys session session-short no_hello",
    "config_parse": "fashion gpt_bible mlp resnet18_cifar empty dotted set set_list batch json",
    "data_formats_idx": "images labels empty_array",
    "data_formats_cifar": "cifar10 cifar10-half cifar100 empty",
    "checkpoint_format_safetensors": "two_tensors scalar_and_empty no_tensor",
    "checkpoint_format_manifest": "whole no_tensor two_pieces version_1",
    "comm_records_flight_file": "four_records no_record being_written messages many_groups control_characters"
                                " no_end_of_text huge_count huge_world",
    "comm_control_frame": "conversation long_text",
    "comm_shm_segment": "untouched untouched-half untouched-short all_reduce all_reduce_large reduce_scatter_large"
                        " broadcast_large all_gather_large scatter_large uneven uneven_endless uneven_short"
                        " other_collective unknown_collective closed"
                        " message message_large letters message_in_letter message_of_other_size message_too_long"
                        " message_without_beginning mailbox_overfull aborted abort_half_written",
    "rendezvous_control_frame": "hello conversation long payloads",
    "config_slurm_text": "mixed two_brackets tasks one",
    "starters_hostfile": "deepspeed open_mpi flag addresses",
    "starters_agent_order": "whole with_stop",
    "model_stats_hugging_face": "llama llama_five mistral mixtral qwen2_moe deepseek gpt2 gpt_neox opt mpt falcon bert t5"
                                " resnet",
    "rendezvous_records": "record record_running record_long_text state state_ended",
    "rendezvous_http_reply": "lease chunked old not_found",
    "planner_deepspeed_file": "all_auto second offloaded old_names open_stage second_copy checkpointing comments empty"
                              " dotted",
    "planner_cluster_spec": "spec spec_with_link one_host file device_alone most",
    "topology_kernel_file": "whole whole-short one_rank zero_times endless",
} | corpus_of_checkpoints.ACCEPTED


def targets_in_tree():
    lockstep = ROOT / "lockstep"
    for path in sorted(lockstep.rglob("*_fuzz.cpp")):
        yield str(path.relative_to(lockstep)).removesuffix("_fuzz.cpp").replace("/", "_")


def wanted_files():
    names = list(targets_in_tree())
    missing = [name for name in names if name not in TARGETS or name not in ACCEPTED]
    if missing:
        sys.exit(f"make_corpus: no inputs for {', '.join(missing)}: add a function of that name and a line in ACCEPTED")
    inputs = {f"{name}/{key}": data for name in names for key, data in TARGETS[name]().items()}
    accepted = [f"{name}/{key}" for name in names for key in sorted(ACCEPTED[name].split())]
    unknown = [key for key in accepted if key not in inputs]
    if unknown:
        sys.exit(f"make_corpus: ACCEPTED names {', '.join(unknown)}: there is no such input")
    files = {CORPUS / key: data for key, data in inputs.items()}
    return files | {ACCEPTED_FILE: "".join(f"{key}\n" for key in accepted).encode()}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--check", action="store_true", help="change nothing; exit 1 when files differ")
    options = parser.parse_args()
    wanted = wanted_files()
    present = {path: path.read_bytes() for path in [*CORPUS.rglob("*"), ACCEPTED_FILE] if path.is_file()}
    if options.check:
        differ = sorted(str(p.relative_to(ROOT)) for p in wanted.keys() | present.keys() if wanted.get(p) != present.get(p))
        sys.exit(f"make_corpus: differs: {' '.join(differ)}" if differ else 0)
    for path in present.keys() - wanted.keys():
        path.unlink()
    for path, data in wanted.items():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
    print(f"make_corpus: {len(wanted) - 1} inputs for {len(ACCEPTED)} targets")


if __name__ == "__main__":
    main()
