#!/usr/bin/env python3
"""Compares ten steps of `metier train` with the same steps in PyTorch: losses at every step, trained values at the end.

Every architecture, with LoRA on every linear layer and with full training, without and with the objective, in one
micro-batch and in several. The model is transformers' (deepseek: model_deepseek.py), the optimizer torch.optim.AdamW,
the schedule transformers', clipping torch's; tokens come from the `tokenizers` library. LoRA's A is taken from the
program (it draws them by its own generator), everything after that is PyTorch's own.

Usage: train_parity.py [--program build/release/bin/metier] [--seed 1] [--only TEXT] [--verbose]
Needs PyTorch, transformers >= 5.15, tokenizers and safetensors. Both sides compute in single precision. A loss is
compared relative to itself, a tensor by the norm of the difference over the norm of the reference's; 1e-4 is the limit.
The last column holds the same differences against what training changed of each tensor; its limit is 1e-3, because
AdamW moves an element whose gradient is rounding (the bias of keys, which softmax does not see) as far as any other.

AdamW also magnifies rounding where a gradient of the first steps is as small as its epsilon. Where a tensor is beyond
the limit, the reference trains three times more, with every weight about its last bit away. An element may then differ
by three times what that changes in this element, and only the rest counts: no program in single precision is closer.
Each such tensor is printed.

AdamW's epsilon is 1e-8, but 1e-6 where a softmax router's weights are normalised: the logits of experts that are not
chosen then have the gradient zero, single precision leaves about 1e-10 of it on both sides, and AdamW, which divides a
gradient by its own size, would make steps of that. SparseMixer chooses as in evaluation (`noise: false`): its samples
come from other generators.
"""
import argparse
import json
import os
import subprocess
import sys
import tempfile

try:
    import numpy
    import tokenizers
    import torch
    import transformers
    from safetensors.torch import load_file
except ImportError as error:
    print(f"train_parity: needs a Python with torch, transformers, tokenizers and safetensors: {error}",
          file=sys.stderr)
    sys.exit(77)

import model_configs as configs
import objective_reference as objective
from model_parity import LORA_ALPHA, LORA_RANK, Program, adapted, lora_leaves
from model_reference import Model

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
LIMITS = {"loss": 1e-4, "task": 1e-4, "norm": 1e-4, "values": 1e-4, "change": 1e-3}
STEPS, ROWS, RATE, DECAY, CLIP, WARMUP = 10, 6, 3e-3, 0.05, 1.0, 2
VOCABULARY = 260
EPSILON, NORMALISED_EPSILON = 1e-8, 1e-6
NO_LABEL = -100
LAST_BIT, SHAKES, SHAKEN_SHARE = 6e-8, 3, 3.0


# ---------------------------------------------------------------- data


def make_tokenizer(folder):
    """Bytes as tokens, and two of the model's own."""
    alphabet = sorted(tokenizers.pre_tokenizers.ByteLevel.alphabet())
    vocabulary = {"<s>": 0, "</s>": 1, **{letter: 2 + i for i, letter in enumerate(alphabet)}}
    made = tokenizers.Tokenizer(tokenizers.models.BPE(vocabulary, []))
    made.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False)
    made.decoder = tokenizers.decoders.ByteLevel()
    made.add_special_tokens(["<s>", "</s>"])
    made.save(os.path.join(folder, "tokenizer.json"))
    with open(os.path.join(folder, "tokenizer_config.json"), "w", encoding="utf-8") as file:
        json.dump({"tokenizer_class": "PreTrainedTokenizerFast", "bos_token": "<s>", "eos_token": "</s>"}, file)
    return made


def make_rows(rng, folder):
    """Prompts and answers of unequal lengths, few enough letters for tokens to repeat."""
    letters = "abcdefgh ()"
    rows = []
    for _ in range(ROWS):
        lengths = rng.integers(3, 12, size=2)
        prompt, completion = ("".join(letters[i] for i in rng.integers(len(letters), size=n)) for n in lengths)
        rows.append({"prompt": prompt, "completion": completion})
    path = os.path.join(folder, "rows.jsonl")
    with open(path, "w", encoding="utf-8") as file:
        file.writelines(json.dumps(row) + "\n" for row in rows)
    return rows, path


def examples_of(tokenizer, rows, begin, end):
    """(ids, labels) of each row in the template `plain`: labels are those of the next token."""
    examples = []
    for row in rows:
        prompt = [*begin, *tokenizer.encode(row["prompt"], add_special_tokens=False).ids]
        answer = [*tokenizer.encode(row["completion"], add_special_tokens=False).ids, end]
        targets = [NO_LABEL] * len(prompt) + answer
        examples.append((prompt + answer, [*targets[1:], NO_LABEL]))
    return examples


# ---------------------------------------------------------------- the reference's ten steps


def epsilon_of(model):
    router = model.router()
    return NORMALISED_EPSILON if router.kind == "softmax" and router.normalise else EPSILON


class Reference:
    """One run in PyTorch; `leaves` is what learns, `effective()` the checkpoint's tensors with it."""

    def __init__(self, model, examples, leaves, effective, settings):
        self.model, self.examples, self.leaves, self.effective = model, examples, leaves, effective
        self.settings, self.weights = settings, None
        self.optimizer = torch.optim.AdamW(leaves, lr=RATE, betas=(0.9, 0.999), eps=epsilon_of(model), weight_decay=DECAY)
        self.schedule = transformers.get_cosine_schedule_with_warmup(self.optimizer, WARMUP, STEPS)
        self.losses, self.tasks, self.norms = [], [], []

    def terms(self, tensors, run, sequences):
        """The objective of one micro-batch; the scales are those of the first."""
        if self.settings is None:
            return torch.zeros(())
        losses, scales = self.model.objective_losses(tensors, run, sequences, self.settings)
        if self.weights is None:
            first = next(iter(run.routers))
            self.weights = {term: self.model.term_weights(term, losses, scales, self.settings, tensors, first)
                            for term in losses[0]}
        return sum(weight * parts[term] for term, weights in self.weights.items()
                   for weight, parts in zip(weights, losses))

    def step(self, micro_batches):
        """micro_batches: lists of numbers of examples."""
        self.optimizer.zero_grad()
        batches = [[self.examples[i] for i in numbers] for numbers in micro_batches]
        tokens = sum(len(ids) for batch in batches for ids, _ in batch)
        answers = sum(label != NO_LABEL for batch in batches for _, labels in batch for label in labels)
        loss = task = 0.0
        for batch in batches:
            sequences = [ids for ids, _ in batch]
            labels = torch.tensor([label for _, labels in batch for label in labels])
            tensors = self.effective()
            run = self.model.run(tensors, sequences)
            part = torch.nn.functional.cross_entropy(run.logits, labels, ignore_index=NO_LABEL, reduction="sum")
            part = part / answers
            total = part + self.terms(tensors, run, sequences) * (sum(map(len, sequences)) / tokens)
            total.backward()
            loss, task = loss + float(total.detach()), task + float(part.detach())
        self.norms.append(float(torch.nn.utils.clip_grad_norm_(self.leaves, CLIP)))
        self.optimizer.step()
        self.schedule.step()
        self.losses.append(loss)
        self.tasks.append(task)


# ---------------------------------------------------------------- the program's


def write_config(path, values):
    with open(path, "w", encoding="utf-8") as file:
        json.dump(values, file, indent=1)  # JSON is YAML


def train(program, folder, case, words):
    out = os.path.join(folder, f"run-{case}")
    command = [program.path, "train", os.path.join(folder, "train.yaml"), f"out={out}", *words]
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    if result.returncode != 0:
        raise RuntimeError(f"{' '.join(command)}: {result.stderr.strip()[-800:]}")
    with open(os.path.join(out, "metrics.jsonl"), encoding="utf-8") as file:
        records = [json.loads(line) for line in file]
    return out, [record for record in records if record["kind"] == "step"]


def base_config(model, path):
    return {
        "model": model.folder, "out": "-", "train": "lora", "targets": ["*"], "noise": False,
        "lora": {"rank": LORA_RANK, "alpha": LORA_ALPHA, "dropout": 0.0, "layout": "per-expert"},
        "data": {"sources": [{"path": path, "form": "prompt"}], "template": "plain", "max_length": 64},
        "batch": {"examples": ROWS, "tokens": 4096}, "steps": STEPS,
        "optimizer": {"lr": RATE, "weight_decay": DECAY, "clip": CLIP, "warmup": WARMUP, "schedule": "cosine",
                      "epsilon": epsilon_of(model)},
        "log": {"every": 1, "tensorboard": False}, "threads": 1, "seed": 5,
    }


# ---------------------------------------------------------------- comparing


class Table:
    def __init__(self, verbose):
        self.rows, self.failures, self.cases, self.verbose = {}, [], 0, verbose

    def add(self, case, kind, what, error):
        self.rows.setdefault(case, {}).setdefault(kind, []).append(error)
        if not error <= LIMITS[kind]:
            self.failures.append(f"{case}: {what}: {error:.2e}")
            print(f"FAILED {self.failures[-1]}", flush=True)

    def show(self):
        print(f"{'':34}" + "".join(f"{kind:>10}" for kind in LIMITS))
        for case, row in self.rows.items():
            print(f"{case:34}" + "".join(f"{max(row[kind]):10.1e}" for kind in LIMITS))
        print(f"{len(self.rows)} runs, {len(self.failures)} failures")


def compare_run(table, case, records, reference):
    if len(records) != STEPS:
        table.add(case, "loss", f"{len(records)} records instead of {STEPS}", float("inf"))
    for step, record in enumerate(records):
        for kind, key, want in (("loss", "loss", reference.losses), ("task", "task", reference.tasks),
                                ("norm", "gradient_norm", reference.norms)):
            table.add(case, kind, f"{key} of step {step + 1}", abs(record[key] - want[step]) / abs(want[step]))


class Trained:
    """A run of the reference and what it ends with; runs from weights a last bit away, once a tensor needs them."""

    def __init__(self, start_over, micro_batches):
        self.start_over, self.micro_batches, self.shaken = start_over, micro_batches, None
        self.reference, self.end = self.run(lambda value: value.clone())

    def run(self, changed):
        reference, named = self.start_over(changed)
        for _ in range(STEPS):
            reference.step(self.micro_batches)
        return reference, {name: leaf.detach().double() for name, leaf in named.items()}

    def undetermined(self, name):
        """How far each element of a tensor goes when every weight is a last bit away."""
        if self.shaken is None:
            draws = torch.Generator().manual_seed(1)
            self.shaken = [self.run(lambda value: value * (1.0 + LAST_BIT * torch.randn(value.shape, generator=draws)))[1]
                           for _ in range(SHAKES)]
        return torch.stack([(end[name] - self.end[name]).abs() for end in self.shaken]).amax(dim=0)


def compare_tensor(table, case, name, got, trained, start):
    got, want, start = got.double(), trained.end[name], start.double()
    off, sizes = (got - want).abs(), {"values": float(want.norm()), "change": float((want - start).norm())}
    if any(float(off.norm()) > LIMITS[kind] * size > 0.0 for kind, size in sizes.items()):
        moved = trained.undetermined(name)
        size = max(sizes.values())
        print(f"{case}: {name}: {float(off.norm()) / size:.1e} off; a last bit of every weight moves it by "
              f"{float(moved.norm()) / size:.1e}", flush=True)
        off = (off - SHAKEN_SHARE * moved).clamp_min(0.0)
    error = float(off.norm())
    for kind, size in sizes.items():  # 0: an expert nobody chose; then nothing may differ
        table.add(case, kind, f"{kind} of {name}", error / size if size > 0.0 else error)


# ---------------------------------------------------------------- the cases


def initial_pairs(program, model):
    """LoRA's A as the program draws it from the seed; B is zero."""
    got = program.forward(model, [[0, 1, 2]], "--grads", "--train", "lora", "--targets", "*", "--rank",
                          str(LORA_RANK), "--alpha", str(LORA_ALPHA), "--seed", "5")
    return lora_leaves(got)


def check_lora(table, case, program, made, method, words, micro_batches):
    model, tensors, examples = made
    drawn = initial_pairs(program, model)
    start = {f"{module}.lora_{which}": leaf.detach() for module, pair in drawn.items() for which, leaf in pair.items()}
    settings = None if method is None else objective.settings_of(method, {})

    def start_over(changed):
        frozen = {name: changed(value) for name, value in tensors.items()}
        leaves = {name: changed(value).requires_grad_(True) for name, value in start.items()}
        pairs = {module: {which: leaves[f"{module}.lora_{which}"] for which in "AB"} for module in drawn}
        return Reference(model, examples, list(leaves.values()), lambda: adapted(frozen, pairs), settings), leaves

    trained = Trained(start_over, micro_batches)
    out, records = train(program, model.folder, case.split()[-1],
                         [f"method={method or 'none'}", *words])
    compare_run(table, case, records, trained.reference)
    adapter = load_file(os.path.join(out, "adapter", "adapter_model.safetensors"))
    for name, value in start.items():
        compare_tensor(table, case, name, adapter[f"base_model.model.{name}.weight"], trained, value)


def check_full(table, case, program, made):
    model, tensors, examples = made

    def start_over(changed):
        leaves = {name: changed(value).requires_grad_(not name.endswith("e_score_correction_bias"))
                  for name, value in tensors.items()}
        learning = [leaf for leaf in leaves.values() if leaf.requires_grad]
        return Reference(model, examples, learning, lambda: leaves, None), leaves

    trained = Trained(start_over, [list(range(ROWS))])
    config = base_config(model, os.path.join(model.folder, "rows.jsonl"))
    config.pop("lora")
    write_config(os.path.join(model.folder, "train.yaml"), {**config, "train": "full"})
    out, records = train(program, model.folder, "full", ["method=none"])
    compare_run(table, case, records, trained.reference)
    written = load_file(os.path.join(out, "model", "model.safetensors"))
    written = model.split(written) if model.turned else written  # experts that lie together, one by one
    for name, value in tensors.items():
        compare_tensor(table, case, name, written[name], trained, value)


def make(folder, name, seed):
    rng = numpy.random.default_rng([seed, configs.ARCHITECTURES.index(name)])
    config = {**configs.draw(name, 1, rng), "vocab_size": VOCABULARY, "bos_token_id": 0, "eos_token_id": 1}
    os.makedirs(folder)
    model = Model(config, folder)
    tensors = model.random_tensors(torch.Generator().manual_seed(int(rng.integers(1 << 31))))
    model.write(tensors)
    tokenizer = make_tokenizer(folder)
    rows, path = make_rows(rng, folder)
    write_config(os.path.join(folder, "train.yaml"), base_config(model, path))
    return model, tensors, examples_of(tokenizer, rows, [0], 1)


def check_architecture(table, program, place, name, seed):
    made = make(os.path.join(place, f"{name}-{seed}"), name, seed)
    everything = [list(range(ROWS))]
    check_lora(table, f"{name} lora task", program, made, None, [], everything)
    check_lora(table, f"{name} lora paper", program, made, "paper", [], everything)
    check_lora(table, f"{name} lora metier", program, made, "metier", [], everything)
    # One example a micro-batch: each in turn, whatever the order.
    longest = max(len(ids) for ids, _ in made[2])
    check_lora(table, f"{name} lora accumulated", program, made, None,
               [f"batch.tokens={longest}", f"data.max_length={longest}"], [[i] for i in range(ROWS)])
    check_full(table, f"{name} full task", program, made)
    if table.verbose:
        print(f"done {name}", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--program", default=os.path.join(ROOT, "build", "release", "bin", "metier"))
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", default="", help="architectures whose name contains this")
    parser.add_argument("--verbose", action="store_true", help="say when an architecture is done")
    arguments = parser.parse_args()
    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()
    torch.set_num_threads(1)
    table = Table(arguments.verbose)
    with tempfile.TemporaryDirectory() as place:
        program = Program(arguments.program, place)
        for name in (name for name in configs.ARCHITECTURES if arguments.only in name):
            check_architecture(table, program, place, name, arguments.seed)
    table.show()
    return 1 if table.failures else 0


if __name__ == "__main__":
    sys.exit(main())
