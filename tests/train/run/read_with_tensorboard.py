"""Reads what write_metrics has written with the `tensorboard` package, and with Python's own csv and json.

usage: read_with_tensorboard.py FOLDER_OF_PROGRAMS        (tools/check_readers gives it)
"""

import csv
import json
import math
import pathlib
import subprocess
import sys
import tempfile

from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
from tensorboard.backend.event_processing.event_multiplexer import EventMultiplexer
from tensorboard.backend.event_processing.plugin_event_multiplexer import (
    EventMultiplexer as PluginMultiplexer,
)

STEPS = list(range(1, 101))


def check(what, found, expected):
    if found != expected:
        sys.exit(f"{what}: found {found!r}, expected {expected!r}")


def check_scalars(events, folder):
    tags = ["eval/accuracy", "eval/bad", 'grad, "norm"', "loss", "lr"]
    check("tags", sorted(events.Tags()["scalars"]), tags)
    loss = events.Scalars("loss")
    check("steps", [e.step for e in loss], STEPS)
    check("times", [e.wall_time for e in loss], [1.76e9 + s for s in STEPS])
    for e in loss:
        if not math.isclose(e.value, 1 / e.step, rel_tol=1e-6):
            sys.exit(f"loss of step {e.step}: {e.value}")
    check("evaluations", [e.step for e in events.Scalars("eval/accuracy")], STEPS[9::10])
    bad = {e.step: e.value for e in events.Scalars("eval/bad")}
    check("value that is no number", math.isnan(bad[50]), True)
    check("runs", EventMultiplexer().AddRunsFromDirectory(str(folder)).Reload().Runs().keys(), {"."})
    # What the pages of TensorBoard read: scalars are tensors there.
    pages = PluginMultiplexer().AddRunsFromDirectory(str(folder)).Reload()
    check("pages", [e.step for e in pages.Tensors(".", "loss")], STEPS)
    texts = {e.step: e.tensor_proto.string_val[0].decode() for e in pages.Tensors(".", "sample")}
    check("texts", texts, {s: f"Step {s}:\nth\u00e9 end" for s in STEPS[24::25]})
    check("their page", list(pages.PluginRunToTagToContent("text")["."]), ["sample"])


def check_text(folder):
    with open(folder / "metrics.jsonl") as file:
        rows = [json.loads(line) for line in file]
    check("json steps", [r["step"] for r in rows if "loss" in r], STEPS)
    check("json null", [r["eval/bad"] for r in rows if r["step"] == 50 and "eval/bad" in r], [None])
    with open(folder / "metrics.csv", newline="") as file:
        table = list(csv.DictReader(file))
    check("csv steps", [int(r["step"]) for r in table if r["loss"]], STEPS)
    check("csv fields", {len(r) for r in table}, {8})
    check("csv nan", [r["eval/bad"] for r in table if r["step"] == "50" and not r["loss"]], ["nan"])
    check("csv name", all(float(r['grad, "norm"']) == int(r["step"]) ** 2 for r in table if r["loss"]), True)


def main():
    program = pathlib.Path(sys.argv[1]) / "write_metrics"
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)

        def train(start, end, more):
            subprocess.run([program, name, str(start), str(end), str(more)], check=True)

        # A TensorBoard that stays open sees the run killed at 75, begun anew, and taken up at 60.
        events = EventAccumulator(name, size_guidance={"scalars": 0})
        train(0, 75, 100)
        events.Reload()
        check("steps before", [e.step for e in events.Scalars("loss")], STEPS[:75])
        train(0, 75, 0)
        events.Reload()
        train(60, 100, 0)
        events.Reload()
        check_scalars(events, folder)
        # And one that is opened only now.
        check("event files", len(list(folder.glob("events.out.tfevents.*"))), 2)
        events = EventAccumulator(name, size_guidance={"scalars": 0})
        events.Reload()
        check_scalars(events, folder)
        check_text(folder)


if __name__ == "__main__":
    main()
