#!/usr/bin/env python3
"""Reads the event files of a made-up run with TensorBoard's own loaders and compares them with metrics.jsonl.

usage: tensorboard_parity.py RUNLOG_TOOL

The run is stopped after step 60, its log says more than its checkpoint of step 40 knows, and it is resumed from
there: every step must then be there once, in order, in both. Needs the package `tensorboard`.
"""
import json
import pathlib
import struct
import subprocess
import sys
import tempfile

from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
from tensorboard.backend.event_processing.event_file_loader import RawEventFileLoader
from tensorboard.compat.proto import event_pb2

TAGS = {"loss": "loss/total", "task": "loss/task", "learning_rate": "run/learning_rate", "epoch": "run/epoch",
        "gradient_norm": "gradient/norm", "max_violation": "router/max_violation",
        "max_violation_running": "router/max_violation_running", "load_entropy": "router/load_entropy",
        "effective_experts": "router/effective_experts", "effective_scores": "router/effective_scores",
        "experts_90": "router/experts_90", "jaccard_90": "router/jaccard_90", "together_90": "router/together_90",
        "agreement": "router/agreement", "seconds": "run/seconds", "tokens_per_second": "run/tokens_per_second", "tokens_total": "run/tokens_total"}


def run(tool, folder, steps, done, metrics_bytes):
    out = subprocess.run([tool, folder, str(steps), str(done), str(metrics_bytes)], check=True,
                         capture_output=True, text=True)
    return int(out.stdout)


def single(value):
    return struct.unpack("<f", struct.pack("<f", value))[0]


def expected_scalars(record):
    """tag -> value, from a line of metrics.jsonl."""
    scalars = {tag: record[key] for key, tag in TAGS.items()}
    for key, value in record.items():
        if key.startswith(("term_", "weighted_")) and value is not None:
            scalars[key.replace("_", "/", 1)] = value
    layers = record["layers"]
    for key, values in layers.items():
        if key in ("layer", "load") or values is None:
            continue
        for number, value in zip(layers["layer"], values):
            scalars[f"layer/{number:02}/{key}"] = value
    return scalars


def main():
    tool = sys.argv[1]
    with tempfile.TemporaryDirectory() as folder:
        at_40 = run(tool, folder, 40, 0, 0)
        lines = pathlib.Path(folder, "metrics.jsonl").read_bytes()
        assert at_40 == len(lines)
        run(tool, folder, 55, 40, at_40)  # goes on, and is killed before its next checkpoint
        run(tool, folder, 100, 40, at_40)
        records = [json.loads(line) for line in pathlib.Path(folder, "metrics.jsonl").read_text().splitlines()]
        steps = [r for r in records if r["kind"] == "step"]
        assert [r["step"] for r in steps] == list(range(5, 101, 5)), [r["step"] for r in steps]
        assert [r["step"] for r in records if r["kind"] == "evaluation"] == [20, 40, 60, 80, 100]
        board = pathlib.Path(folder, "tensorboard")
        files = sorted(board.iterdir())
        assert len(files) == 3, files
        raw = 0
        for file in files:  # RawEventFileLoader checks every checksum
            events = [event_pb2.Event.FromString(data) for data in RawEventFileLoader(str(file)).Load()]
            assert events[0].file_version == "brain.Event:2"
            raw += sum(len(e.summary.value) for e in events)
        accumulator = EventAccumulator(str(board), size_guidance={"scalars": 0})
        accumulator.Reload()
        expected = {}
        for record in steps:
            for tag, value in expected_scalars(record).items():
                expected.setdefault(tag, []).append((record["step"], single(value)))
        for record in records:
            if record["kind"] == "evaluation":
                for key in ("loss", "perplexity"):
                    expected.setdefault(f"evaluation/{key}", []).append((record["step"], single(record[key])))
        found = {tag: [(s.step, s.value) for s in accumulator.Scalars(tag)] for tag in accumulator.Tags()["scalars"]}
        assert found.keys() == expected.keys(), found.keys() ^ expected.keys()
        for tag, points in expected.items():
            assert found[tag] == points, (tag, found[tag], points)
        scalars = sum(map(len, found.values()))
        print(f"{len(files)} event files, {raw} scalars; after resuming {len(found)} tags, {scalars} scalars: all as in metrics.jsonl")


if __name__ == "__main__":
    main()
