#!/usr/bin/env python3
"""Choices of experts from a file against R3's formula in PyTorch, on random models.

Every token gets experts drawn at random, every fourth is left to its router (-1). A block's weights are those of the
training scores at the given experts: exp(s_i) / Σ exp(s_j) over them where the model normalises, softmax(s)_i where it
does not. Logits and every parameter's gradient are compared with `metier forward --choices FILE --grads`.

    choices_parity.py [--program build/release/bin/metier] [--seed 1]
"""
import argparse
import os
import sys
import tempfile
import types

import numpy
import torch
from safetensors.numpy import save_file
from torch.nn import functional as F

import model_parity as parity
from model_reference import cross_entropy


def given_forward(block, hidden_states):
    flat = hidden_states.reshape(-1, hidden_states.shape[-1])
    given = block.given[block.start:block.start + len(flat)]
    block.start += len(flat)
    logits = F.linear(flat, block.gate.weight)
    chosen = torch.where(given < 0, block.gate(flat)[2], given)
    if block.normalise:
        weights = logits.gather(1, chosen).softmax(-1)
    else:
        weights = logits.softmax(-1).gather(1, chosen)
    output = torch.zeros_like(flat)
    for number, (gate_up, down) in enumerate(zip(block.experts.gate_up_proj, block.experts.down_proj)):
        gate, up = F.linear(flat, gate_up).chunk(2, dim=-1)
        weight = (weights * (chosen == number)).sum(-1, keepdim=True)
        output = output + weight * F.linear(F.silu(gate) * up, down)
    return output.reshape(hidden_states.shape)


def draw_given(rng, tokens, layers, experts, slots):
    given = rng.random((tokens, layers, experts)).argsort(-1)[:, :, :slots]
    given[::4] = -1
    return given


def check(table, program, place, name, variant, seed):
    case = f"{name} variant {variant}"
    model, tensors, sequences = parity.make(os.path.join(place, case.replace(" ", "-")), name, variant, seed)
    leaves = parity.leaves_of(tensors)
    plain = model.run(leaves, sequences).logits
    blocks = [layer.mlp for layer in model.model.model.layers if hasattr(layer.mlp, "experts")]
    rng = numpy.random.default_rng([seed, variant])
    offsets = numpy.cumsum([0] + [len(sequence) for sequence in sequences])
    experts = blocks[0].gate.weight.shape[0]
    given = draw_given(rng, offsets[-1], len(blocks), experts, model.router().slots)
    file = os.path.join(place, "choices.safetensors")
    save_file({"ids": numpy.concatenate(sequences).astype(numpy.int32), "offsets": offsets.astype(numpy.int64),
               "experts": given.astype((numpy.int16, numpy.int32, numpy.int64)[variant])}, file)
    for number, block in enumerate(blocks):
        block.normalise, block.start = model.router().normalise, 0
        block.given = torch.tensor(given[:, number])
        block.forward = types.MethodType(given_forward, block)
    run = model.run(leaves, sequences)
    want = parity.gradients_of(cross_entropy(run.logits, sequences), leaves)
    if parity.relative_to_rms(plain, run.logits) < 0.01:
        table.fail(case, "the given experts change nothing")
    for device in ("ref", "cpu"):
        got = program.forward(model, sequences, "--grads", "--train", "full", "--choices", file, "--device", device)
        table.add("logits", case, "logits", parity.relative_to_rms(got["logits"], run.logits))
        parity.compare_gradients(table, "full", case, parity.given_gradients(got), want)
        table.done(case)


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
