#!/usr/bin/env python3
"""Every metric of src/analysis against numpy, scipy and scikit-learn, on random and degenerate inputs.

    tests/parity/metrics_parity.py build/release/bin/metrics_tool [--large]

Prints the worst difference of each metric; fails above 1e-6. --large adds 20,000 x 2,048 points against
scikit-learn (minutes, and 10 GB of memory).
"""
import argparse
import math
import pathlib
import subprocess
import sys
import tempfile

import numpy as np
from sklearn.decomposition import PCA
from sklearn.metrics import silhouette_score, silhouette_samples
from sklearn.neighbors import NearestNeighbors

LIMIT = 1e-6
worst = {}


class Tool:
    def __init__(self, program, folder):
        self.program = program
        self.folder = pathlib.Path(folder)
        self.files = 0

    def save(self, array, kind):
        self.files += 1
        path = self.folder / f"{self.files}.bin"
        np.ascontiguousarray(array, dtype=kind).tofile(path)
        return str(path)

    def __call__(self, *words):
        done = subprocess.run([self.program, *map(str, words)], capture_output=True, text=True, check=False)
        if done.returncode != 0:
            sys.exit(f"{' '.join(map(str, words))}: {done.stderr}")
        for path in self.folder.iterdir():
            path.unlink()
        return np.array([float(x) for x in done.stdout.split()])


def note(metric, case, got, expected):
    got, expected = np.asarray(got, float), np.asarray(expected, float)
    if got.shape != expected.shape:
        sys.exit(f"{metric}, {case}: {got.shape} numbers, expected {expected.shape}")
    both = np.isnan(got) & np.isnan(expected)
    difference = np.where(both, 0.0, np.abs(got - expected))
    largest = math.inf if np.isnan(difference).any() else float(difference.max(initial=0.0))
    if largest >= worst.get(metric, (-1.0, ""))[0]:
        worst[metric] = (largest, case)
    if largest > LIMIT:
        print(f"FAIL {metric}, {case}: {got.ravel()[:4]} expected {expected.ravel()[:4]}, off by {largest:.2e}")


def overlap(points, labels, k, metric):
    """scikit-learn's neighbours; where equal distances leave the choice open, by numpy: see tied()."""
    k = min(k, len(points) - 1)
    if k < 1:
        return math.nan
    found = NearestNeighbors(n_neighbors=k, metric=metric, algorithm="brute").fit(points)
    near = found.kneighbors(return_distance=False)
    return float(np.mean(labels[near] != labels[:, None]))


def tied(points, labels, k):
    """The rule of docs/analysis.md written down: the k + 1 nearest by (distance, index), itself left out."""
    count = len(points)
    k = min(k, count - 1)
    shares = []
    for i in range(count):
        square = ((points - points[i]) ** 2).sum(axis=1)
        near = np.lexsort((np.arange(count), square))[: k + 1]
        near = near[near != i] if i in near else near[1:]
        shares.append(np.mean(labels[near] != labels[i]))
    return float(np.mean(shares))


def silhouette(points, labels, metric):
    different = len(np.unique(labels))
    if different < 2 or different >= len(points):
        return math.nan
    return float(silhouette_score(points, labels, metric=metric))


def geometry_cases(rng):
    def cloud(count, width, groups, spread, offset=0.0):
        labels = rng.integers(0, groups, count)
        centres = rng.normal(size=(groups, width)) * spread
        return (centres[labels] + rng.normal(size=(count, width)) + offset).astype(np.float32), labels

    yield "random", *cloud(700, 64, 8, 0.5), 10, False
    yield "narrow", *cloud(500, 3, 5, 2.0), 10, False
    yield "clusters", *cloud(600, 40, 6, 10.0), 10, False
    yield "tight clusters", *cloud(600, 40, 6, 1000.0), 10, False
    yield "far from zero", *cloud(500, 32, 4, 1.0, 1000.0), 10, False
    yield "width 1", *cloud(300, 1, 3, 1.0), 10, False
    yield "wide", *cloud(400, 2048, 16, 0.3), 10, False
    yield "labels at random", cloud(400, 16, 1, 0.0)[0], rng.integers(0, 64, 400), 10, False
    points, labels = cloud(50, 8, 50, 1.0)
    yield "each its own label", points, np.arange(50), 10, False
    yield "one expert", points, np.zeros(50, int), 10, False
    labels = np.zeros(50, int)
    labels[7] = 3
    yield "a single one", points, labels, 10, False
    yield "N < k", points[:6], np.array([0, 0, 1, 1, 2, 2]), 10, False
    yield "two points", points[:2], np.array([0, 1]), 10, False
    yield "one point", points[:1], np.array([0]), 10, False
    yield "k = 1", *cloud(300, 16, 4, 1.0), 1, False
    points, labels = cloud(200, 16, 4, 1.0)
    yield "every point twice", np.repeat(points, 2, axis=0), np.repeat(labels, 2), 10, True
    yield "twice, other labels", np.repeat(points, 2, axis=0), rng.integers(0, 4, 400), 10, True
    yield "all the same", np.ones((60, 5), np.float32), rng.integers(0, 3, 60), 10, True
    yield "a grid", rng.integers(0, 3, (300, 4)).astype(np.float32), rng.integers(0, 5, 300), 10, True
    tiny, labels = cloud(300, 16, 4, 1.0)
    yield "tiny numbers", tiny * np.float32(1e-30), labels, 10, False
    yield "huge numbers", tiny * np.float32(1e30), labels, 10, False


def check_geometry(tool, rng):
    for case, points, labels, k, ties in geometry_cases(rng):
        files = lambda: (tool.save(points, "<f4"), tool.save(labels, "<i4"))
        wide = points.astype(np.float64)
        for metric in ("euclidean", "cosine"):
            if case == "width 1" and metric == "cosine":
                continue  # every cosine is 1 or -1: nothing but ties
            if case == "tiny numbers" and metric == "cosine":
                continue  # scikit-learn takes lengths below 2e-15 for zero
            got = tool("geometry", *points.shape, k, 0, metric, *files())
            note(f"silhouette {metric}", case, got[1], silhouette(wide, labels, metric))
            if not ties:
                note(f"overlap {metric}", case, got[0], overlap(wide, labels, k, metric))
            elif metric == "euclidean":
                note("overlap, ties", case, got[0], tied(wide, labels, k))
    points = rng.normal(size=(100, 6)).astype(np.float32)
    points[3] = 0.0
    points[40] = 0.0
    labels = rng.integers(0, 4, 100)
    got = tool("geometry", 100, 6, 10, 0, "cosine", tool.save(points, "<f4"), tool.save(labels, "<i4"))
    note("silhouette cosine", "zero vectors", got[1], silhouette(points.astype(float), labels, "cosine"))


def check_sampled(tool, rng):
    """The mean of sampled figures must lie within their stated errors of the exact one."""
    points = rng.normal(size=(3000, 24)).astype(np.float32)
    labels = rng.integers(0, 6, 3000)
    points[:, :6] += np.eye(6, dtype=np.float32)[labels] * 2
    save = lambda: (tool.save(points, "<f4"), tool.save(labels, "<i4"))
    exact = tool("geometry", 3000, 24, 10, 0, "euclidean", *save())
    part = tool("geometry", 3000, 24, 10, 500, "euclidean", *save())
    for i, name in enumerate(("overlap", "silhouette")):
        ratio = abs(part[i] - exact[i]) / part[i + 2]
        spread = silhouette_samples(points, labels).std() / math.sqrt(500) * math.sqrt(1 - 500 / 3000)
        print(f"sampled {name}: {part[i]:.4f} ± {part[i + 2]:.4f}, exact {exact[i]:.4f}: {ratio:.1f} errors off")
        if ratio > 4:
            sys.exit("a sampled figure is too far off")
        if name == "silhouette" and not 0.8 < part[3] / spread < 1.25:
            sys.exit(f"stated error {part[3]}, expected about {spread}")


def check_pca(tool, rng):
    cases = {
        "random": rng.normal(size=(300, 20)) * np.linspace(1, 4, 20),
        "wide": rng.normal(size=(120, 2000)) * np.linspace(3, 0.1, 2000),
        "tall": rng.normal(size=(2000, 12)) @ rng.normal(size=(12, 12)) + 50,
        "rank 1": np.outer(rng.normal(size=50), rng.normal(size=8)),
        "two points": rng.normal(size=(2, 5)),
        "one column": rng.normal(size=(40, 1)),
        "all the same": np.full((30, 6), 2.5),
    }
    for case, points in cases.items():
        points = points.astype(np.float32)
        count, width = points.shape
        components = min(3, count, width)
        got = tool("pca", count, width, components, tool.save(points, "<f4"))
        reference = PCA(components, svd_solver="full").fit(points.astype(float))
        total = points.astype(float).var(axis=0, ddof=1).sum()
        scale = max(1.0, total)
        note("PCA total variance", case, got[0] / scale, total / scale)
        note("PCA variance", case, got[2 : 2 + components] / scale, reference.explained_variance_ / scale)
        axes = got[2 + components : 2 + components * (1 + width)].reshape(components, width)
        places = got[2 + components * (1 + width) :].reshape(count, components)
        for i in range(components):
            if reference.explained_variance_[i] < 1e-9 * scale:
                continue  # no spread, no direction
            note("PCA axes", case, axes[i], reference.components_[i])
            length = math.sqrt(scale)
            note("PCA points", case, places[:, i] / length, reference.transform(points.astype(float))[:, i] / length)


def check_load(tool, rng):
    cases = {
        "random": rng.integers(0, 1000, 64),
        "balanced": np.full(16, 12),
        "one expert": np.eye(8)[3] * 40,
        "nothing": np.zeros(8),
        "a single expert": np.array([5.0]),
    }
    for case, load in cases.items():
        load = np.asarray(load, float)
        got = tool("load", len(load), tool.save(load, "<f8"))
        if load.sum() == 0:
            note("load", case, got, np.zeros(5))
            continue
        mean, share = load.mean(), load[load > 0] / load.sum()
        gini = np.abs(load[:, None] - load[None]).sum() / (2 * len(load) * load.sum())
        note("load", case, got, [(load.max() - mean) / mean, np.abs(load - mean).max() / mean,
                                 -(share * np.log(share)).sum(), gini, load.min() / mean])


def check_variance(tool, rng):
    for case, count, n, k in (("random", 500, 16, 4), ("one token", 1, 8, 2), ("one expert", 40, 1, 1),
                              ("top 1", 100, 64, 1)):
        for router in ("softmax", "sigmoid"):
            logits = rng.normal(size=(count, n)) * 2
            scores = np.exp(logits) / np.exp(logits).sum(1, keepdims=True)
            if router == "sigmoid":
                scores = 1 / (1 + np.exp(-logits))
            scores = scores.astype(np.float32)
            experts = np.argsort(-scores, axis=1)[:, :k]
            weights = np.take_along_axis(scores, experts, 1)
            if case == "random":
                experts[::7, -1] = -1  # dropped
            got = tool("variance", count, n, k, tool.save(scores, "<f4"), tool.save(experts, "<i4"),
                       tool.save(weights, "<f4"))
            wide = scores.astype(float)
            full = np.zeros((count, n))
            for i in range(count):
                for s in range(k):
                    if experts[i, s] >= 0:
                        full[i, experts[i, s]] = weights[i, s]
            share = wide / wide.sum(1, keepdims=True)
            note("variance", f"{case}, {router}", got,
                 [wide.var(axis=1, ddof=1).mean() if n > 1 else 0.0, full.var(axis=0).mean(),
                  np.mean((share.mean(0) - 1 / n) ** 2)])


def check_affinity(tool, rng):
    for case, load in {"random": rng.integers(0, 50, (4, 16)), "each its own": np.eye(4) * 7,
                       "alike": np.ones((3, 8)), "an empty domain": np.vstack([rng.integers(1, 9, (2, 8)), np.zeros(8)]),
                       "one domain": rng.integers(0, 9, (1, 8)) + 1}.items():
        load = np.asarray(load, float)
        got = tool("affinity", *load.shape, tool.save(load, "<f8"))
        used = load[load.sum(1) > 0]
        share = used / used.sum(1, keepdims=True)
        joint = share / len(share)
        with np.errstate(divide="ignore", invalid="ignore"):
            terms = joint * np.log(joint / (joint.sum(1, keepdims=True) * joint.sum(0, keepdims=True)))
        rows = np.divide(load, load.sum(1, keepdims=True), out=np.zeros_like(load), where=load.sum(1, keepdims=True) > 0)
        columns = np.divide(rows, rows.sum(0), out=np.zeros_like(rows), where=rows.sum(0) > 0)
        note("affinity", case, got, np.concatenate([[np.nansum(terms)], rows.ravel(), columns.ravel()]))


def check_paths(tool, rng):
    first = rng.integers(0, 16, (4000, 2))
    cases = {"independent": rng.integers(0, 16, (4000, 2)), "the same": first, "turned": 15 - first,
             "half": np.where(rng.random((4000, 1)) < 0.5, first, rng.integers(0, 16, (4000, 2))),
             "one expert": np.full((4000, 2), 3)}
    for case, then in cases.items():
        got = tool("paths", 4000, 2, 16, tool.save(first, "<u2"), tool.save(then, "<u2"))
        joint = np.zeros((16, 16))
        np.add.at(joint, (first[:, 0], then[:, 0]), 1 / 4000)
        apart = joint.sum(1, keepdims=True) * joint.sum(0, keepdims=True)
        seen = joint > 0
        note("paths", case, got, [-(joint[seen] * np.log(joint[seen])).sum(),
                                  (joint[seen] * np.log(joint[seen] / apart[seen])).sum()])


def check_coupling(tool, rng):
    for case, n in (("random", 16), ("coupled", 16), ("two experts", 2)):
        rows, gates = rng.normal(size=(n, 24)), rng.normal(size=(n, 24, 10))
        if case == "coupled":
            gates = gates + 2 * rows[:, :, None]
        norms = np.linalg.norm(np.einsum("id,jdf->ijf", rows, gates), axis=2)  # M_ij
        gram = (rows @ rows.T).astype(np.float32)
        got = tool("coupling", n, tool.save(gram, "<f4"), tool.save(norms.T, "<f8"))
        unit = gram.astype(float) / np.sqrt(np.outer(gram.diagonal(), gram.diagonal()).astype(float))
        pairs = unit[np.triu_indices(n, 1)]
        own = norms.diagonal()
        best = [(own[i] >= norms[i]).all() and (own[i] >= norms[:, i]).all() for i in range(n)]
        note("coupling", case, got, [pairs.mean(), np.abs(pairs).mean(), np.mean(best),
                                     own.mean() / norms[~np.eye(n, dtype=bool)].mean()])


def check_rest(tool, rng):
    base = np.array([rng.permutation(16)[:4] for _ in range(300)])
    moved = np.where(rng.random((300, 1)) < 0.5, base[:, ::-1], np.array([rng.permutation(16)[:4] for _ in range(300)]))
    got = tool("drift", 300, 4, tool.save(moved, "<u2"), tool.save(base, "<u2"))
    kept = [len(set(a) & set(b)) for a, b in zip(moved, base)]
    note("drift", "random", got, [np.mean([x < 4 for x in kept]), np.mean([1 - x / 4 for x in kept])])
    x = np.arange(50.0)
    one, other = rng.normal(size=50), rng.normal(size=50)
    save = lambda *arrays: [tool.save(a, "<f8") for a in arrays]
    note("rmse", "same x", tool("rmse", 50, 50, *save(x, one, x, other)), [np.sqrt(np.mean((one - other) ** 2)), 50])
    coarse = np.arange(5.0, 40.0, 3.5)
    rough = rng.normal(size=len(coarse))
    inside = (x >= coarse[0]) & (x <= coarse[-1])
    expected = np.sqrt(np.mean((one[inside] - np.interp(x[inside], coarse, rough)) ** 2))
    note("rmse", "other x", tool("rmse", 50, len(coarse), *save(x, one, coarse, rough)), [expected, inside.sum()])


def check_large(tool, rng):
    count, width = 20000, 2048
    labels = rng.integers(0, 64, count)
    centres = rng.normal(size=(64, width)) * 0.3
    points = (centres[labels] + rng.normal(size=(count, width))).astype(np.float32)
    for metric in ("euclidean", "cosine"):
        got = tool("geometry", count, width, 10, 0, metric, tool.save(points, "<f4"), tool.save(labels, "<i4"))
        note(f"overlap {metric}", "20,000 x 2,048", got[0], overlap(points.astype(float), labels, 10, metric))
        note(f"silhouette {metric}", "20,000 x 2,048", got[1], silhouette(points.astype(float), labels, metric))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program")
    parser.add_argument("--large", action="store_true")
    given = parser.parse_args()
    rng = np.random.default_rng(1)
    with tempfile.TemporaryDirectory() as folder:
        tool = Tool(given.program, folder)
        for check in (check_load, check_variance, check_affinity, check_paths, check_coupling, check_rest, check_pca, check_geometry, check_sampled):
            check(tool, rng)
        if given.large:
            check_large(tool, rng)
    for metric, (difference, case) in worst.items():
        print(f"{metric:24} worst difference {difference:.2e}  ({case})")
    if any(difference > LIMIT for difference, _ in worst.values()):
        sys.exit(f"some differences are above {LIMIT:g}")


if __name__ == "__main__":
    main()
