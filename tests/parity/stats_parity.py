#!/usr/bin/env python3
"""Statistics of metier compare against numpy and scipy. Usage: stats_parity.py STATS_TOOL"""
import random
import subprocess
import sys

import numpy as np
from scipy import special, stats


def holm(p):
    """Holm's correction as its paper states it: step down, never below the one before."""
    p = np.asarray(p)
    order = np.argsort(p, kind="stable")
    adjusted = np.empty(len(p))
    largest = 0.0
    for rank, index in enumerate(order):
        largest = max(largest, (len(p) - rank) * p[index])
        adjusted[index] = min(1.0, largest)
    return adjusted


def questions(draw):
    """Pairs of a question and the answer of numpy or scipy."""
    for _ in range(2000):
        a, b, x = 10 ** draw.uniform(-1, 2), 10 ** draw.uniform(-1, 2), draw.random()
        yield ["beta", a, b, x], [special.betainc(a, b, x)]
    for _ in range(1000):
        t, freedom = draw.uniform(-30, 30), draw.randint(1, 200)
        yield ["student", t, freedom], [2 * stats.t.sf(abs(t), freedom)]
    for _ in range(500):
        n = draw.randint(3, 40)
        x = [draw.gauss(50, 3) for _ in range(n)]
        y = [draw.gauss(50, 3) for _ in range(n)]
        d = np.array(x) - np.array(y)
        test = stats.ttest_rel(x, y)
        yield ["moments", *x], [np.mean(x), np.std(x, ddof=1)]
        yield ["paired", *x, *y], [d.mean(), stats.sem(d), test.statistic, test.pvalue]
    for _ in range(500):
        p = [draw.choice([draw.random(), 10 ** draw.uniform(-8, 0), 0.05]) for _ in range(draw.randint(1, 20))]
        yield ["holm", *p], holm(p)


def main():
    asked = list(questions(random.Random(1)))
    text = "".join(" ".join([q[0], *(repr(float(v)) for v in q[1:])]) + "\n" for q, _ in asked)
    run = subprocess.run([sys.argv[1]], input=text, capture_output=True, text=True, check=True)
    answers = run.stdout.splitlines()
    assert len(answers) == len(asked), (len(answers), len(asked))
    worst = {}
    for (question, expected), line in zip(asked, answers):
        got = np.array([float(v) for v in line.split()])
        expected = np.asarray(expected, dtype=float)
        error = np.max(np.abs(got - expected) / np.maximum(np.abs(expected), 1e-12))
        worst[question[0]] = max(worst.get(question[0], 0.0), error)
    for kind, error in worst.items():
        print(f"{kind}: largest relative error {error:.2e}")
    sys.exit(0 if max(worst.values()) < 1e-9 else 1)


main()
