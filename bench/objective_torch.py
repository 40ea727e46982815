#!/usr/bin/env python3
"""Seconds of the objective in plain PyTorch on the CPU: objective_torch.py [THREADS [ROUNDS]].

L_aux, L_o (pairwise) and L_v of method paper at N=4096, n=64, k=6, d=2048: values, and backward to logits and expert
outputs. The experts a token goes to are given, as a layer has them already. Two ways to write L_o:
  pairs   as the equation reads: for every ordered pair the projection of one output on the other, squared
  gram    through the k x k matrix of inner products of each token, the fastest way autograd allows
Prints "pairs SECONDS" and "gram SECONDS", medians; bench/objective-speed compares. Needs PyTorch.
"""
import statistics
import sys
import time

try:
    import torch
except ImportError as error:
    print(f"objective_torch: needs a Python with PyTorch: {error}", file=sys.stderr)
    sys.exit(77)

TOKENS, EXPERTS, SLOTS, WIDTH = 4096, 64, 6, 2048
EPSILON = 1e-8


def balance(probs, chosen):
    load = torch.bincount(chosen.reshape(-1), minlength=EXPERTS).to(probs.dtype)
    return (load * EXPERTS / chosen.numel() * probs.mean(dim=0)).sum()


def variance(probs, chosen):
    scores = torch.zeros_like(probs).scatter(1, chosen, probs.gather(1, chosen))
    return -scores.var(dim=0, correction=0).mean()


def ortho_pairs(outputs):
    total = 0.0
    for j in range(SLOTS):
        for m in range(SLOTS):
            if m != j:
                a, b = outputs[:, j], outputs[:, m]
                ratio = (a * b).sum(-1, keepdim=True) / ((b * b).sum(-1, keepdim=True) + EPSILON)
                total = total + (ratio * b).pow(2).sum()
    return total / TOKENS


def ortho_gram(outputs):
    gram = outputs @ outputs.transpose(1, 2)
    length = gram.diagonal(dim1=1, dim2=2)[:, None, :]
    projections = gram.pow(2) * length / (length + EPSILON).pow(2)
    others = 1.0 - torch.eye(SLOTS)
    return (projections * others).sum() / TOKENS


def step(logits, outputs, chosen, ortho):
    logits.grad = outputs.grad = None
    probs = torch.softmax(logits, dim=-1)
    aux, l_o, l_v = balance(probs, chosen), ortho(outputs), variance(probs, chosen)
    with torch.no_grad():  # each starts as strong as L_aux
        weight_o, weight_v = 1e-3 * aux / l_o, 1e-3 * aux / l_v.abs()
    total = 1e-3 * aux + weight_o * l_o + weight_v * l_v
    total.backward()
    return float(total.detach())


def main():
    torch.set_num_threads(int(sys.argv[1]) if len(sys.argv) > 1 else torch.get_num_threads())
    rounds = int(sys.argv[2]) if len(sys.argv) > 2 else 5
    torch.manual_seed(1)
    logits = torch.randn(TOKENS, EXPERTS, requires_grad=True)
    outputs = torch.randn(TOKENS, SLOTS, WIDTH, requires_grad=True)
    chosen = logits.detach().topk(SLOTS, dim=-1).indices
    ways = {"pairs": ortho_pairs, "gram": ortho_gram}
    seconds = {name: [] for name in ways}
    values = {name: step(logits, outputs, chosen, ortho) for name, ortho in ways.items()}
    assert abs(values["pairs"] - values["gram"]) < 1e-5 * abs(values["gram"]) + 1e-9
    for _ in range(rounds):
        for name, ortho in ways.items():
            start = time.perf_counter()
            step(logits, outputs, chosen, ortho)
            seconds[name].append(time.perf_counter() - start)
    print(f"torch {torch.__version__}, {torch.get_num_threads()} threads, {rounds} rounds", file=sys.stderr)
    for name in ways:
        print(f"{name} {statistics.median(seconds[name]):.6f}")


if __name__ == "__main__":
    main()
