#!/usr/bin/env python3
"""Generation and scoring of metier against transformers, on random small models of every architecture and variant.

Greedy answers to prompts of several lengths must be those of transformers' `generate`, token for token (deepseek, which
transformers does not have: of repeated forward passes of model_deepseek.py); alone and together, with prompts cut into
small pieces and whole, with and without an adapter, which is applied here by adding B·A to the weights. Where two logits
are closer than 1e-5 either token is right, and the answers are compared no further. Log-likelihoods of continuations
must be within 1e-4 of those of a forward pass over prefix and continuation.

Usage: generate_parity.py [--program build/release/bin/metier] [--tool build/release/bin/infer_tool] [--seed 1]
                          [--only TEXT] [--verbose]
Needs PyTorch, transformers >= 5.15 and safetensors. Both sides compute in single precision.
"""
import argparse
import json
import os
import subprocess
import sys
import tempfile

try:
    import numpy
    import torch
    import transformers
    from safetensors.torch import load_file
except ImportError as error:
    print(f"generate_parity: needs a Python with torch, transformers and safetensors: {error}", file=sys.stderr)
    sys.exit(77)

import model_configs as configs
from model_reference import Model

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
LIMIT, NEAR = 1e-4, 1e-5
RANK, ALPHA = 3, 6.0
ENGINES = ((1, 64), (3, 8), (6, 5))  # slots, tokens of a prompt computed at once


def run(command, text=""):
    result = subprocess.run(command, input=text, capture_output=True, text=True, check=False)
    if result.returncode != 0:
        raise RuntimeError(f"{' '.join(command)}: {result.stderr.strip()}")
    return result.stdout


def words(ids):
    return " ".join(map(str, ids))


class Tally:
    def __init__(self, verbose):
        self.tokens, self.ties, self.scores, self.worst, self.failures, self.verbose = {}, 0, 0, 0.0, [], verbose

    def fail(self, case, what):
        self.failures.append(f"{case}: {what}")
        print(f"FAILED {self.failures[-1]}", flush=True)

    def show(self):
        for name, tokens in self.tokens.items():
            print(f"{name:12} {tokens:6} tokens equal")
        print(f"{self.ties} answers compared up to a tie; {self.scores} log-likelihoods, largest difference "
              f"{self.worst:.1e}; {len(self.failures)} failures")


def adapted(tensors, adapter):
    """The weights with an adapter's pairs added."""
    with open(os.path.join(adapter, "adapter_config.json"), encoding="utf-8") as file:
        settings = json.load(file)
    scale = settings["lora_alpha"] / settings["r"]
    pairs = load_file(os.path.join(adapter, "adapter_model.safetensors"))
    merged = dict(tensors)
    for name, a in pairs.items():
        if not name.endswith(".lora_A.weight"):
            continue
        module = name.removeprefix("base_model.model.").removesuffix(".lora_A.weight")
        b = pairs[name.replace(".lora_A.", ".lora_B.")]
        merged[module + ".weight"] = tensors[module + ".weight"] + scale * (b @ a)
    return merged


def last_logits(model, tensors, ids):
    with torch.no_grad():
        return model.run(tensors, [ids]).logits[-1]


def greedy(model, tensors, prompt, count):
    """What the reference goes on with."""
    if model.kind == "deepseek":
        ids = list(prompt)
        for _ in range(count):
            ids.append(int(last_logits(model, tensors, ids).argmax()))
        return ids[len(prompt):]
    model.run_parts = {"hidden": {}, "routers": {}, "logits": []}
    model.model.load_state_dict(model.join(tensors))
    with torch.no_grad():
        out = model.model.generate(torch.tensor([prompt]), attention_mask=torch.ones(1, len(prompt), dtype=torch.long),
                                   do_sample=False, max_new_tokens=count, use_cache=True, eos_token_id=None,
                                   pad_token_id=0)
    return out[0, len(prompt):].tolist()


def compare_answer(tally, case, model, tensors, prompt, want, got):
    name = case.split()[0]
    for i, (expected, given) in enumerate(zip(want, got)):
        if expected == given:
            tally.tokens[name] = tally.tokens.get(name, 0) + 1
            continue
        logits = last_logits(model, tensors, [*prompt, *want[:i]])
        if float(logits[expected] - logits[given]) < NEAR:
            tally.ties += 1
        else:
            tally.fail(case, f"token {i} after {len(prompt)} ids is {given}, not {expected}; logits "
                             f"{float(logits[given]):.6f} and {float(logits[expected]):.6f}")
        return
    if len(want) != len(got):
        tally.fail(case, f"{len(got)} tokens, not {len(want)}")


def compare_scores(tally, case, model, tensors, prefix, continuations, line):
    parts = line.split("|")
    for continuation, part in zip(continuations, parts):
        numbers = part.split()
        with torch.no_grad():
            logits = model.run(tensors, [[*prefix, *continuation][:-1]]).logits[len(prefix) - 1:]
        scores = torch.log_softmax(logits.double(), -1)
        each = scores[range(len(continuation)), continuation]
        error = abs(float(numbers[0]) - float(each.sum()))
        error = max(error, *(abs(float(n) - float(e)) for n, e in zip(numbers[2:], each)))
        tally.worst = max(tally.worst, error)
        tally.scores += 1
        if not error <= LIMIT:
            tally.fail(case, f"a log-likelihood after {len(prefix)} ids differs by {error:.2e}")
        margin = logits.sort(dim=-1).values
        decided = float((margin[:, -1] - margin[:, -2]).min()) > NEAR
        if decided and bool(int(numbers[1])) != (logits.argmax(-1).tolist() == list(continuation)):
            tally.fail(case, "greedy is wrong")


def check(tally, tool, case, model, tensors, rng, adapter=()):
    vocabulary = model.config["vocab_size"]
    room = 31 if model.kind == "phimoe" else 60  # transformers does not have phimoe's long factors
    prompts = [rng.integers(0, vocabulary, length).tolist() for length in (1, 4, 9, 17, 12)]
    new = [min(20, room - len(prompt)) for prompt in prompts]
    want = [greedy(model, tensors, prompt, count) for prompt, count in zip(prompts, new)]
    prefixes = [rng.integers(0, vocabulary, length).tolist() for length in (1, 7, 14)]
    continuations = [[rng.integers(0, vocabulary, length).tolist() for length in lengths]
                     for lengths in ((1, 3), (4,), (2, 1, 9, 5))]
    continuations[2].append(greedy(model, tensors, prefixes[2], 4))
    lines = [f"generate {count} {words(prompt)}" for prompt, count in zip(prompts, new)]
    lines += [f"score {words(prefix)} | {' | '.join(words(ids) for ids in these)}"
              for prefix, these in zip(prefixes, continuations)]
    for slots, piece in ENGINES:
        # The same requests, in another order.
        order = rng.permutation(len(lines)).tolist()
        command = [tool, model.folder, str(slots), "64", str(piece), *adapter]
        out = run(command, "".join(lines[i] + "\n" for i in order)).splitlines()
        answers = [out[order.index(i)] for i in range(len(lines))]
        for prompt, expected, answer in zip(prompts, want, answers):
            compare_answer(tally, case, model, tensors, prompt, expected, [int(word) for word in answer.split()])
        for prefix, these, answer in zip(prefixes, continuations, answers[len(prompts):]):
            compare_scores(tally, case, model, tensors, prefix, these, answer)
    if tally.verbose:
        print(f"done {case}", flush=True)


def check_model(tally, arguments, name, variant):
    rng = numpy.random.default_rng([arguments.seed, configs.ARCHITECTURES.index(name), variant])
    generator = torch.Generator().manual_seed(int(rng.integers(1 << 31)))
    with tempfile.TemporaryDirectory() as folder:
        config = configs.draw(name, variant, rng)
        model = Model(config, folder)
        tensors = model.random_tensors(generator)
        model.write(tensors)
        check(tally, arguments.tool, f"{name} {variant}", model, tensors, rng)
        adapter = os.path.join(folder, "adapter")
        targets = "attention,router,routed_experts" + ("" if model.tied else ",lm_head")
        run([arguments.program, "forward", folder, "--ids", "1,2", "--grads", "--train", "lora", "--targets", targets,
             "--rank", str(RANK), "--alpha", str(ALPHA), "--lora-b-std", "0.1", "--seed", "4", "--adapter-layout",
             "per-expert", "--save-adapter", adapter])
        check(tally, arguments.tool, f"{name} {variant} adapter", model, adapted(tensors, adapter), rng, (adapter,))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--program", default=os.path.join(ROOT, "build/release/bin/metier"))
    parser.add_argument("--tool", default=os.path.join(ROOT, "build/release/bin/infer_tool"))
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", default="")
    parser.add_argument("--verbose", action="store_true")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    transformers.logging.set_verbosity_error()
    tally = Tally(arguments.verbose)
    for name in configs.ARCHITECTURES:
        for variant in range(configs.VARIANTS[name]):
            if arguments.only not in f"{name} {variant}":
                continue
            try:
                check_model(tally, arguments, name, variant)
            except RuntimeError as error:
                tally.fail(f"{name} {variant}", str(error))
    tally.show()
    return 1 if tally.failures else 0


if __name__ == "__main__":
    sys.exit(main())
