#!/usr/bin/env python3
"""The method densemixer against DenseMixer's own backward, written again in PyTorch, on random models.

The release (yaof20/DenseMixer, densemixer/models/*_custom.py) replaces a block's forward: all experts run on all
tokens, each output's gradient is masked to the tokens that chose the expert, the dense sum uses all scores (with
norm_topk_prob those of the unchosen over the detached sum of the chosen), and the block returns the sparse sum plus
the dense sum minus itself detached. Every parameter's gradient is compared with `metier forward --grads`; so is the
plain model's, which must differ in the routers.

    densemixer_parity.py [--program build/release/bin/metier] [--seed 1]
"""
import argparse
import os
import sys
import tempfile
import types

import torch
from torch.nn import functional as F

import model_parity as parity
from model_reference import cross_entropy


def dense_forward(block, hidden_states):
    flat = hidden_states.reshape(-1, hidden_states.shape[-1])
    scores = F.linear(flat, block.gate.weight).softmax(-1)
    chosen = block.gate(flat)[2]
    mask = torch.zeros_like(scores).scatter(1, chosen, 1.0)
    if block.normalise:
        total = (scores * mask).sum(-1, keepdim=True)
        scores = scores * (1.0 - mask) / total.detach() + scores * mask / total
    dense = sparse = torch.zeros_like(flat)
    for number, (gate_up, down) in enumerate(zip(block.experts.gate_up_proj, block.experts.down_proj)):
        gate, up = F.linear(flat, gate_up).chunk(2, dim=-1)
        output = F.linear(F.silu(gate) * up, down)
        own = mask[:, number, None]
        output.register_hook(lambda gradient, own=own: gradient * own)
        dense = dense + output * scores[:, number, None]
        sparse = sparse + (output * scores[:, number, None] * own).detach()
    return (sparse + dense - dense.detach()).reshape(hidden_states.shape)


def check(table, program, place, name, variant, seed):
    case = f"{name} variant {variant}"
    model, tensors, sequences = parity.make(os.path.join(place, case.replace(" ", "-")), name, variant, seed)
    leaves = parity.leaves_of(tensors)
    plain = parity.gradients_of(cross_entropy(model.run(leaves, sequences).logits, sequences), leaves)
    routers = 0
    for layer in model.model.model.layers:
        if hasattr(layer.mlp, "experts"):
            layer.mlp.normalise = model.router().normalise
            layer.mlp.forward = types.MethodType(dense_forward, layer.mlp)
            routers += 1
    run = model.run(leaves, sequences)
    want = parity.gradients_of(cross_entropy(run.logits, sequences), leaves)
    for device in ("ref", "cpu"):
        got = program.forward(model, sequences, "--grads", "--train", "full", "--method", "densemixer", "--device",
                              device)
        table.add("logits", case, "logits", parity.relative_to_rms(got["logits"], run.logits))
        parity.compare_gradients(table, "methods", case, parity.given_gradients(got), want)
        table.done(case)
    moved = sum(float((plain[key] - want[key]).norm() / plain[key].norm()) > 0.01 for key in plain
                if key.endswith("gate.weight"))
    if moved != routers:
        table.fail(case, f"{moved} of {routers} routers have another gradient")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--program", default=os.path.join(parity.ROOT, "build", "release", "bin", "metier"))
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    table = parity.Table(False)
    with tempfile.TemporaryDirectory() as place:
        program = parity.Program(arguments.program, place)
        for name in ("mixtral", "olmoe", "qwen3_moe"):
            for variant in range(3):
                check(table, program, place, name, variant, arguments.seed)
    table.show()
    return 1 if table.failures else 0


if __name__ == "__main__":
    sys.exit(main())
