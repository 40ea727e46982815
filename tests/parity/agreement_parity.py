#!/usr/bin/env python3
"""Agreement against scikit-learn (Cohen's kappa) and a direct Fleiss' kappa, over random runs.

Usage: agreement_parity.py METIER [RUNS]
"""
import json
import pathlib
import subprocess
import sys
import tempfile

import numpy
from sklearn.metrics import cohen_kappa_score

WORDS = {1: "correct", 0: "incorrect", 2: "unsure"}


def fleiss(table):
    """Fleiss (1971), of counts [answers, classes]."""
    table = numpy.asarray(table, float)
    judges = table.sum(1)[0]
    share = table.sum(0) / table.sum()
    each = ((table**2).sum(1) - judges) / (judges * (judges - 1))
    expected = (share**2).sum()
    return (each.mean() - expected) / (1 - expected)


def write_run(folder, draw, count):
    truth = draw.integers(0, 2, count)
    flip = lambda chance: numpy.where(draw.random(count) < chance, 1 - truth, truth)
    judges = {"rule": flip(0.2), "llm": flip(0.3), "human": flip(0.1)}
    for name in ("llm", "human"):
        judges[name] = numpy.where(draw.random(count) < 0.15, 2, judges[name])
    with open(folder / "samples_t.jsonl", "w") as file:
        for i in range(count):
            file.write(json.dumps({"id": str(i), "prompt": "", "target": "", "resps": [""], "filtered_resps": [""],
                                   "score": int(judges["rule"][i])}) + "\n")
    subprocess.run([METIER, "review", folder, "--out", folder / "page.html"], check=True, capture_output=True)
    page = (folder / "page.html").read_text()
    digest = page.split('"answer_hash": "')[1].split('"')[0]
    for kind, name in (("judge", "llm"), ("review", "human")):
        with open(folder / f"{kind}_t.jsonl", "w") as file:
            for i in range(count):
                file.write(json.dumps({"id": str(i), "answer_hash": digest, "verdict": WORDS[judges[name][i]]}) + "\n")
    return judges


def check(folder, draw, count):
    judges = write_run(folder, draw, count)
    subprocess.run([METIER, "review", folder, "--agreement"], check=True, capture_output=True)
    ours = json.loads((folder / "results.json").read_text())["agreement"]["overall"]
    worst = 0.0
    for pair, figures in ours["pairs"].items():
        one, other = (judges[name] for name in pair.split("-"))
        both = (one < 2) & (other < 2)
        assert figures["both"] == both.sum()
        expected = cohen_kappa_score(one[both], other[both])
        worst = max(worst, abs(figures["cohen_kappa"] - expected))
        low, high = figures["cohen_kappa_ci95"]
        chosen = draw.integers(0, both.sum(), (1000, both.sum()))
        again = [cohen_kappa_score(one[both][row], other[both][row]) for row in chosen]
        for end, percent in ((low, 2.5), (high, 97.5)):
            assert abs(end - numpy.percentile(again, percent)) < 0.05, (end, numpy.percentile(again, percent))
    every = (judges["llm"] < 2) & (judges["human"] < 2)
    right = sum(judges[name][every] for name in judges)
    worst = max(worst, abs(ours["all"]["fleiss_kappa"] - fleiss(numpy.stack([right, 3 - right], 1))))
    return worst


METIER = sys.argv[1]
worst = 0.0
for run in range(int(sys.argv[2]) if len(sys.argv) > 2 else 3):
    with tempfile.TemporaryDirectory() as name:
        worst = max(worst, check(pathlib.Path(name), numpy.random.default_rng(run), 150 + 100 * run))
print(f"largest difference of a kappa: {worst:.3g}")
sys.exit(0 if worst < 1e-12 else 1)
