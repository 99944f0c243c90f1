#!/usr/bin/env python3
"""Trains some fifty small runs on this machine and compares each with its plan.

Every row of the matrix becomes a run.toml with synthetic data; `lockstep train` runs it, and planned and
measured memory, step time and bytes on the wire are taken from its run directory. They go into
tests/validation/machine_runs.csv, from which a part of docs/validation.md is written. A run that is not asked
for by --only keeps its row. What else a machine does only makes steps longer: all is run --passes times, and
the quicker step of each run counts, as `lockstep plan --calibrate` keeps the quicker of its passes.
"""

import argparse
import csv
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
RUNS_CSV = ROOT / "tests/validation/machine_runs.csv"
DEADLINE_S = 120
CATEGORIES = ["parameters", "gradients", "optimizer", "activations", "buffers", "communication", "runtime"]

# The bars. Bytes on the wire must be equal.
MEMORY_SHARE, MEMORY_BYTES = 0.05, 32 << 20
TIME_SHARE = 0.15

COLUMNS = ["run", "model", "ranks", "change", "settings", "cpu", "cores"]
COLUMNS += [f"{side}_{category}_bytes" for category in CATEGORIES for side in ("planned", "measured")]
COLUMNS += ["planned_comm_bytes", "measured_comm_bytes", "planned_step_s", "measured_step_s"]

# model: its settings, steps of a run
ADAMW = {"optimizer.name": "adamw", "optimizer.lr": 1e-3}
SGD = {"optimizer.name": "sgd", "optimizer.lr": 0.01}
MODELS = {
    "gpt": ({"model.family": "gpt", "model.layers": 4, "model.width": 256, "model.heads": 4, "model.vocab_size": 256,
             "data.seq_len": 128, "batch.micro_batch": 8, **ADAMW}, 21),
    "gpt-50k": ({"model.family": "gpt", "model.layers": 6, "model.width": 384, "model.heads": 6,
                 "model.vocab_size": 50304, "data.seq_len": 256, "batch.micro_batch": 1, **ADAMW}, 9),
    "resnet18": ({"model.family": "resnet", "model.depth": 18, "model.channels": 3, "model.image_size": 32,
                  "batch.micro_batch": 16, "optimizer.momentum": 0.9, **SGD}, 9),
    "mlp-small": ({"model.family": "mlp", "model.layers": 3, "model.width": 64, "batch.micro_batch": 16, **SGD}, 1001),
    "mlp-wide": ({"model.family": "mlp", "model.layers": 4, "model.width": 1024, "batch.micro_batch": 64,
                  "optimizer.momentum": 0.9, **SGD}, 81),
}

# change: its settings; a function of the ranks where it depends on them
CHANGES = {
    "plain": {},
    "accumulation 4": {"batch.accumulation": 4},
    "virtual ranks 4": lambda ranks: {"parallel.virtual_ranks": 4, "batch.accumulation": 4 // ranks},
    "bf16": {"precision.compute": "bf16"},
    "fp16": {"precision.compute": "fp16"},
    "bf16 sums": {"precision.reduce": "bf16"},
    "powersgd": {"parallel.gradient_compression": "powersgd"},
    "local steps 4": {"parallel.local_steps": 4},
    "batch norm over ranks": {"parallel.sync_batch_norm": True},
    "dropout": {"model.dropout": 0.1},
    "adamw": {**ADAMW, "optimizer.momentum": None},
    "sgd": {**SGD, "optimizer.momentum": None},
    "bf16, accumulation 4": {"precision.compute": "bf16", "batch.accumulation": 4},
    "bf16, virtual ranks 4":
        lambda ranks: {"precision.compute": "bf16", "parallel.virtual_ranks": 4, "batch.accumulation": 4 // ranks},
    "fp16, bf16 sums": {"precision.compute": "fp16", "precision.reduce": "bf16"},
    "bf16, larger batch": {"precision.compute": "bf16", "batch.micro_batch": 64},
    "fp16, larger batch": {"precision.compute": "fp16", "batch.micro_batch": 48},
}

# A covering design: every change with several models, every model and change with several numbers of ranks.
MATRIX = {
    "gpt": {"plain": (1, 2, 4), "accumulation 4": (2,), "virtual ranks 4": (1, 2, 4), "bf16": (1, 4), "fp16": (2, 4),
            "bf16 sums": (2,), "powersgd": (2,), "local steps 4": (4,), "dropout": (2,), "sgd": (1,),
            "bf16, virtual ranks 4": (2,)},
    "gpt-50k": {"plain": (1, 2), "bf16": (2, 4), "fp16": (2,), "bf16, accumulation 4": (1,), "powersgd": (2,),
                "virtual ranks 4": (2,)},
    "resnet18": {"plain": (1, 2, 4), "bf16": (2,), "fp16, bf16 sums": (2,), "accumulation 4": (2,),
                 "batch norm over ranks": (2, 4), "virtual ranks 4": (4,), "adamw": (2,), "bf16, larger batch": (2,), "fp16, larger batch": (1,)},
    "mlp-small": {"plain": (1, 2, 4), "virtual ranks 4": (2,), "local steps 4": (2,), "adamw": (4,), "bf16": (2,)},
    "mlp-wide": {"plain": (1, 2, 4), "accumulation 4": (4,), "bf16": (4,), "fp16": (1,), "powersgd": (4,),
                 "virtual ranks 4": (1,)},
}

STEPS_OF_CHANGE = {"accumulation 4": 0.6, "virtual ranks 4": 0.6, "bf16, accumulation 4": 0.6}


def fail(what, output=""):
    sys.exit(f"validate_plans: {what}\n{output}")


def runs_of_matrix():
    """(name, model, ranks, change), in the order of the matrix."""
    return [(f"{model}, {change}, {ranks} rank{'s' if ranks > 1 else ''}", model, ranks, change)
            for model, changes in MATRIX.items() for change, counts in changes.items() for ranks in counts]


def settings_of(model, ranks, change):
    """Configuration keys and values of a run, its length included."""
    settings, steps = MODELS[model]
    changed = CHANGES[change](ranks) if callable(CHANGES[change]) else CHANGES[change]
    # An even number of steps behind the first, of which nothing counts: each fourth one averages local steps.
    steps = round(steps * STEPS_OF_CHANGE.get(change, 1)) // 4 * 4 + 1
    merged = {"run.steps": steps, "data.format": "synthetic", "data.train_samples": 4096, **settings, **changed}
    return {key: value for key, value in merged.items() if value is not None}


def toml_of(settings):
    """One key a line; without double quotes, so that it needs none in a CSV file either."""
    def text(value):
        if isinstance(value, bool):
            return str(value).lower()
        return f"'{value}'" if isinstance(value, str) else repr(value)

    return [f"{key} = {text(value)}" for key, value in sorted(settings.items())]


def environment():
    """Nothing of a surrounding job."""
    drop = ("SLURM_", "OMPI_", "PMI_", "LOCKSTEP_")
    kept = {key: value for key, value in os.environ.items() if not key.startswith(drop)}
    for name in ("RANK", "WORLD_SIZE", "LOCAL_RANK", "MASTER_ADDR", "MASTER_PORT"):
        kept.pop(name, None)
    return kept


def cpu_model():
    for line in pathlib.Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.split(":", 1)[1].strip()
    return "unknown"


def start(lockstep, folder, settings, ranks, *arguments):
    """Standard output of `lockstep train` with these settings."""
    config = pathlib.Path(folder) / "run.toml"
    config.write_text("\n".join(toml_of(settings)) + "\n")
    argv = [lockstep, "train", config, "--nproc-per-node", str(ranks), "--json", *arguments]
    done = subprocess.run(argv, env=environment(), cwd=folder, text=True, capture_output=True, timeout=DEADLINE_S)
    if done.returncode != 0:
        fail(f"exit {done.returncode}: {' '.join(map(str, argv))}", done.stdout + done.stderr)
    return done.stdout


def train(lockstep, settings, ranks):
    """summary.json of a run, and the times of its steps but the first."""
    with tempfile.TemporaryDirectory() as folder:
        run_dir = pathlib.Path(folder) / "run"
        start(lockstep, folder, settings, ranks, "--run-dir", run_dir)
        plan = json.loads((run_dir / "plan.json").read_text())
        summary = json.loads((run_dir / "summary.json").read_text())
        events = [json.loads(line) for line in (run_dir / "events.jsonl").read_text().splitlines()]
    if plan["memory_bytes"][CATEGORIES[0]] != summary["memory"][CATEGORIES[0]]["planned_bytes"]:
        fail("plan.json is not the plan that the summary compares with")
    return summary, [event["step_s"] for event in events if "step_s" in event][1:]


def row_of(lockstep, name, model, ranks, change):
    settings = settings_of(model, ranks, change)
    summary, step_s = train(lockstep, settings, ranks)
    row = {"run": name, "model": model, "ranks": ranks, "change": change, "settings": "; ".join(toml_of(settings)),
           "cpu": cpu_model(), "cores": os.cpu_count()}
    for category in CATEGORIES:
        for side in ("planned", "measured"):
            row[f"{side}_{category}_bytes"] = summary["memory"][category][f"{side}_bytes"]
    for side in ("planned", "measured"):
        row[f"{side}_comm_bytes"] = summary["comm_bytes"][side]
    row["planned_step_s"] = f"{summary['step_s']['planned']:.9g}"
    row["measured_step_s"] = f"{statistics.median(step_s):.4g}"
    return row


def replanned(lockstep, row, model, ranks, change):
    """A measured row beside the plan of today."""
    with tempfile.TemporaryDirectory() as folder:
        plan = json.loads(start(lockstep, folder, settings_of(model, ranks, change), ranks, "--dry-run"))["plan"]
    planned = {f"planned_{category}_bytes": plan["memory_bytes"][category] for category in CATEGORIES}
    return row | planned | {"planned_comm_bytes": plan["comm_bytes_per_step"], "planned_step_s": f"{plan['step_s']:.9g}"}


def read_rows(path):
    """Rows of an earlier time, by run."""
    if not path.exists():
        return {}
    with path.open(newline="") as file:
        return {row["run"]: row for row in csv.DictReader(file)}


def write_rows(path, rows):
    temporary = path.with_suffix(".tmp")
    with temporary.open("w", newline="") as file:
        writer = csv.DictWriter(file, COLUMNS, lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)
    temporary.replace(path)


def misses(row):
    """What is outside the bars: [(what, planned, measured)]."""
    def pair(what):
        return float(row[f"planned_{what}"]), float(row[f"measured_{what}"])

    outside = []
    for category in CATEGORIES:
        planned, measured = pair(f"{category}_bytes")
        if abs(planned - measured) > max(MEMORY_SHARE * measured, MEMORY_BYTES):
            outside.append((category, planned, measured))
    planned, measured = pair("comm_bytes")
    if planned != measured:
        outside.append(("sent", planned, measured))
    planned, measured = pair("step_s")
    if abs(planned / measured - 1) > TIME_SHARE:
        outside.append(("step", planned, measured))
    return outside


def print_table(rows):
    """By category what was measured, less what was planned, in MB; `!` marks what is outside the bars."""
    heads = ["param", "grad", "optim", "activ", "buffers", "comm", "runtime"]
    print(f"{'measured (less planned), MB':40s} " + " ".join(f"{head:>15s}" for head in heads) + f" {'sent':>6s} {'step':>17s}")
    for row in rows:
        outside = {what for what, _, _ in misses(row)}
        cells = []
        for category in CATEGORIES:
            planned, measured = (float(row[f"{side}_{category}_bytes"]) for side in ("planned", "measured"))
            cell = f"{measured / 1e6:.1f} ({(measured - planned) / 1e6:+.1f})" + ("!" if category in outside else "")
            cells.append(f"{cell:>15s}")
        planned, measured = float(row["planned_step_s"]), float(row["measured_step_s"])
        step = f"{1e3 * measured:.1f} ms {planned / measured - 1:+.0%}" + ("!" if "step" in outside else "")
        print(f"{row['run']:40s} " + " ".join(cells) + f" {'!' if 'sent' in outside else '=':>6s} {step:>17s}")


def print_verdict(rows):
    missed = [(row["run"], *miss) for row in rows for miss in misses(row)]
    of_time = [miss for miss in missed if miss[1] == "step"]
    for run, what, planned, measured in missed:
        if what != "step":
            print(f"outside the bars: {run}: {what} planned {planned:,.0f}, measured {measured:,.0f}")
    print(f"{len(rows)} runs: {len(missed) - len(of_time)} categories outside 5 % or 32 MiB or with other bytes sent,"
          f" {len(of_time)} steps more than 15 % off")
    return len(missed) == len(of_time)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", default="", help="only runs whose name contains one of these, separated by '|'")
    parser.add_argument("--part", default="1/1", help="I/N: the I-th of N parts of them")
    parser.add_argument("--passes", type=int, default=2, help="times that all is run; the quicker steps count")
    parser.add_argument("--list", action="store_true", help="print the runs and their settings, and start none")
    parser.add_argument("--replan", action="store_true", help="measure nothing: only the plans are those of today")
    parser.add_argument("--csv", type=pathlib.Path, default=RUNS_CSV)
    parser.add_argument("--lockstep", type=pathlib.Path, default=ROOT / "build/release/bin/lockstep")
    options = parser.parse_args()
    part, parts = (int(number) for number in options.part.split("/"))

    matrix = runs_of_matrix()
    wanted = [run for run in matrix if any(word in run[0] for word in options.only.split("|"))]
    wanted = wanted[(part - 1) * len(wanted) // parts:part * len(wanted) // parts]
    if options.list:
        for name, model, ranks, change in wanted:
            print(f"{name}: {'; '.join(toml_of(settings_of(model, ranks, change)))}")
        return
    kept = read_rows(options.csv)
    lockstep = options.lockstep.resolve()
    if options.replan:
        wanted = [run for run in wanted if run[0] in kept]
    passes = [(turn, *run) for turn in range(1 if options.replan else options.passes) for run in wanted]
    for number, (turn, name, model, ranks, change) in enumerate(passes):
        print(f"{number + 1}/{len(passes)} {name}", file=sys.stderr)
        if options.replan:
            kept[name] = replanned(lockstep, kept[name], model, ranks, change)
        else:
            row = row_of(lockstep, name, model, ranks, change)
            if turn == 0 or float(row["measured_step_s"]) < float(kept[name]["measured_step_s"]):
                kept[name] = row
        write_rows(options.csv, [kept[run[0]] for run in matrix if run[0] in kept])
    rows = [kept[name] for name, *_ in wanted]
    print_table(rows)
    sys.exit(0 if print_verdict(rows) else 1)


if __name__ == "__main__":
    main()
