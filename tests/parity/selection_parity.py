#!/usr/bin/env python3
"""Selection rules against PyTorch: the bias after one step of smebu and quantile, on random routers.

`metier objective` is given logits, a mask and a bias, and writes the bias after the step (router_bias). The formulas
here are written from the sources: Megatron-LM's qb_dual_update (top-k of scores minus beta, the (k+1)-th value as the
threshold, a top-k over tokens), and SMEBU's update from zero momentum.

    selection_parity.py METIER [--cases 60]
"""
import argparse
import pathlib
import subprocess
import sys
import tempfile

import torch
from safetensors.torch import load_file, save_file


def quantile(scores, k, bias):
    """b after a step on these tokens alone."""
    tokens, experts = scores.shape
    beta = -bias
    alpha = (scores - beta).topk(k + 1, dim=1).values[:, -1:]
    target = min(tokens * k // experts, tokens - 1)
    found = (scores - alpha).topk(target + 1, dim=0).values[-1].double()
    return -(found - found.mean())


def smebu(scores, k, bias, rate=5e-4, momentum=0.5, clamp=2.0):
    experts = scores.shape[1]
    chosen = (scores + bias).topk(k, dim=1).indices
    load = torch.bincount(chosen.flatten(), minlength=experts).double()
    push = torch.tanh(clamp * (load.mean() - load) / load.mean())
    return bias.double() + (1 - momentum) * rate * (push - push.mean())


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("metier")
    parser.add_argument("--cases", type=int, default=60)
    arguments = parser.parse_args()
    torch.manual_seed(0)
    worst = {"quantile": 0.0, "smebu": 0.0}
    with tempfile.TemporaryDirectory() as place:
        record, answer = pathlib.Path(place, "record.safetensors"), pathlib.Path(place, "answer.safetensors")
        for case in range(arguments.cases):
            experts = int(torch.randint(3, 40, ()))
            k = int(torch.randint(1, experts, ()))
            tokens = int(torch.randint(1, 300, ()))
            kind = ("softmax", "sigmoid")[case % 2]
            logits, bias = torch.randn(tokens, experts) * 2, torch.randn(experts) * 0.1
            mask = torch.rand(tokens) < 0.8
            mask[0] = True
            scores = (logits.softmax(-1) if kind == "softmax" else logits.sigmoid())[mask]
            save_file({"logits": logits, "mask": mask, "router_bias": bias}, record)
            for method, rule in (("quantile", quantile), ("smebu", smebu)):
                for device in ("ref", "cpu"):
                    subprocess.run([arguments.metier, "objective", "--record", record, "--router", kind, "--top-k",
                                    str(k), "--method", method, "--device", device, "--out", answer], check=True,
                                   stdout=subprocess.DEVNULL)
                    ours, theirs = load_file(answer)["router_bias"].double(), rule(scores, k, bias)
                    worst[method] = max(worst[method], (ours - theirs).abs().max().item())
    for method, error in worst.items():
        print(f"{method:10} {arguments.cases} routers on ref and cpu: largest difference {error:.1e}")
    return 0 if max(worst.values()) < 2e-6 else 1


if __name__ == "__main__":
    sys.exit(main())
