#!/usr/bin/env python3
"""One model folder in metier and in other programs: the Python of scripts/real-check, which says how it is called.

Training: both start from the same LoRA pairs and take the same rows in the same order (metier's shuffle is computed here
again), with the same optimizer and schedule; on the other side are transformers, PEFT, autograd and torch.optim.AdamW.
PEFT stacks gate and up of the experts into one pair, whose B has two blocks of zeros; they stay zeros here, else PEFT
would train a larger adapter than metier.

Folders: a figure is the mean loss of the same held-out texts in both programs. Differences are relative to metier's loss.
The limit is 1e-4 in single precision and 2e-2 in bf16 (as in scripts/gpu-check). An adapter must change the loss by more
than three times the limit, or the row proves nothing and counts as failed. Parts run in processes of their own, so that
each has all of the card's memory, and one that fails leaves the others.
"""
import argparse
import concurrent.futures
import importlib.metadata
import importlib.util
import json
import multiprocessing
import os
import platform
import subprocess
import sys
import time
from dataclasses import dataclass

try:
    import peft
    import torch
    import transformers
    from safetensors.torch import load_file
except ImportError as error:
    print(f"skipped: this needs a Python with torch, transformers, peft, tokenizers and safetensors (PYTHON=...): {error}")
    sys.exit(77)

import objective_reference as objective
from train_parity import NO_LABEL, examples_of, write_config

ROWS, HELD_OUT = 16, 24  # of a step; texts of the figures
RATE, DECAY, CLIP, RANK, ALPHA, LONGEST = 3e-4, 0.01, 1.0, 8, 16.0, 256
LIMITS = {torch.float32: 1e-4, torch.bfloat16: 2e-2}
UNKNOWN = ("deepseek", "gpt_oss", "phimoe")  # not in transformers; other stacks; samples its experts in training


@dataclass
class Job:
    program: str
    model: str
    out: str
    device: str  # metier's name
    steps: int

    @property
    def dtype(self):
        return torch.bfloat16 if self.device == "cuda-bf16" else torch.float32

    @property
    def warmup(self):
        return self.steps // 10

    @property
    def place(self):
        return "cpu" if self.device == "cpu" else "cuda"

    def path(self, name):
        return os.path.join(self.out, name)

    def run(self, *arguments):
        command = [self.program, *arguments]
        result = subprocess.run(command, capture_output=True, text=True, check=False)
        if result.returncode != 0:
            raise RuntimeError(f"{' '.join(command)}: {result.stderr.strip()[-800:]}")
        return result.stdout


# ---------------------------------------------------------------- data


def shuffle(seed, stream, count, index):
    """Place `index` of the permutation that src/train/data/shuffle.c computes."""
    half = 1
    while half < 32 and 1 << 2 * half < count:
        half += 1
    mask, value = (1 << half) - 1, index
    while True:
        left, right = value >> half, value & mask
        for number in range(8):
            word = objective.philox_word(seed, 4 * (number << 32 | right), stream)
            left, right = right, left ^ (word & mask)
        value = left << half | right
        if value < count:
            return value


def order_of(count, seed):
    """The rows of the first epoch of one file, as src/train/data/batches.c draws them."""
    return [shuffle(seed, 3 << 60, count, shuffle(seed, 2 << 60, count, i)) for i in range(count)]


def read_examples(job, name):
    tokenizer = transformers.AutoTokenizer.from_pretrained(job.model, trust_remote_code=True)
    begin = [] if tokenizer.bos_token_id is None else [tokenizer.bos_token_id]
    with open(job.path(name), encoding="utf-8") as file:
        rows = [json.loads(line) for line in file]
    examples = examples_of(tokenizer.backend_tokenizer, rows, begin, tokenizer.eos_token_id)
    return [(ids[:LONGEST], labels[:LONGEST]) for ids, labels in examples]


def write_ids(job):
    examples = read_examples(job, "held-out.jsonl")
    with open(job.path("held-out.ids"), "w", encoding="utf-8") as file:
        file.writelines(",".join(map(str, ids)) + "\n" for ids, _ in examples)
    return [ids for ids, _ in examples]


def mean_loss(logits, sequences):
    """Of every next id; logits: one [T,V] for each sequence."""
    losses = [torch.nn.functional.cross_entropy(rows[:-1].double(), torch.tensor(ids[1:], device=rows.device),
                                                reduction="sum") for rows, ids in zip(logits, sequences)]
    return float(sum(losses)) / sum(len(ids) - 1 for ids in sequences)


# ---------------------------------------------------------------- metier's side


def our_loss(job, folder, sequences, *options):
    out = job.path("logits.safetensors")
    job.run("forward", folder, "--ids-file", job.path("held-out.ids"), "--out", out, "--device", job.device, *options)
    logits = load_file(out)["logits"].split([len(ids) for ids in sequences])
    os.remove(out)
    return mean_loss(logits, sequences)


def prepare(job):
    """Rows, and the pairs that both begin with."""
    job.run("synth", "--domain", "math", "--count", str(job.steps * ROWS), "--out", job.path("rows.jsonl"))
    job.run("synth", "--domain", "math", "--split", "test", "--count", str(HELD_OUT), "--out", job.path("held-out.jsonl"))
    job.run("forward", job.model, "--ids", "3,4,5,6", "--grads", "--train", "lora", "--targets",
            "attention,router,routed_experts", "--rank", str(RANK), "--alpha", str(ALPHA), "--seed", "1",
            "--save-adapter", job.path("start"), "--device", job.device)
    return write_ids(job)


def train_here(job):
    config = {
        "model": job.model, "out": job.path("run"), "adapter": job.path("start"), "lora": {"dropout": 0.0}, "method": "none",
        "noise": False, "data": {"sources": [{"path": job.path("rows.jsonl")}], "template": "plain", "max_length": LONGEST},
        "batch": {"examples": ROWS}, "steps": job.steps, "device": job.device, "seed": 1,
        "optimizer": {"lr": RATE, "weight_decay": DECAY, "clip": CLIP, "warmup": job.warmup, "schedule": "cosine"},
        "log": {"every": 1, "measure_every": 0, "tensorboard": False},
    }
    write_config(job.path("train.yaml"), config)
    job.run("train", job.path("train.yaml"))
    with open(job.path("run/metrics.jsonl"), encoding="utf-8") as file:
        records = [json.loads(line) for line in file]
    steps = [record for record in records if record["kind"] == "step"]
    return [record["task"] for record in steps], median([record["seconds"] for record in steps])


def median(values):
    return sorted(values)[len(values) // 2]


# ---------------------------------------------------------------- the others' side, each in a process of its own


def open_model(job, folder):
    quiet()
    model, info = transformers.AutoModelForCausalLM.from_pretrained(
        folder, dtype=job.dtype, device_map=job.place, trust_remote_code=True, output_loading_info=True)
    for key in ("missing_keys", "unexpected_keys", "mismatched_keys"):
        if info[key]:
            raise RuntimeError(f"{key}: {sorted(info[key])[:4]}")
    return model


def quiet():
    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()


def keep_zeros(name, parameter, width):
    """The blocks of zeros in B of gate and up, [2·width, 2·RANK·experts]: column k·n + e is column k of expert e."""
    if not (name.endswith("lora_B.default.weight") and ".experts." in name and parameter.shape[0] == 2 * width):
        return
    columns = parameter.shape[1] // 2
    mask = torch.zeros_like(parameter)
    mask[:width, :columns] = mask[width:, columns:] = 1.0
    parameter.register_hook(lambda gradient: gradient * mask)


def train_there(job):
    model = open_model(job, job.model)
    config = model.config
    width = getattr(config, "moe_intermediate_size", None) or config.intermediate_size
    model.gradient_checkpointing_enable(gradient_checkpointing_kwargs={"use_reentrant": False})
    model = peft.PeftModel.from_pretrained(model, job.path("start"), is_trainable=True).train()
    trained = {name: parameter for name, parameter in model.named_parameters() if parameter.requires_grad}
    for name, parameter in trained.items():
        keep_zeros(name, parameter, width)
    optimizer = torch.optim.AdamW(trained.values(), lr=RATE, weight_decay=DECAY)
    schedule = transformers.get_cosine_schedule_with_warmup(optimizer, job.warmup, job.steps)
    examples = read_examples(job, "rows.jsonl")
    order = order_of(len(examples), 1)
    losses, seconds = [], []
    for step in range(job.steps):
        begin = time.perf_counter()
        batch = [examples[row] for row in order[step * ROWS:(step + 1) * ROWS]]
        ids, labels, mask = padded(batch, job.place)
        logits = model(input_ids=ids, attention_mask=mask, use_cache=False).logits.float()
        loss = torch.nn.functional.cross_entropy(logits.flatten(0, 1), labels.flatten(), ignore_index=NO_LABEL)
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(trained.values(), CLIP)
        optimizer.step()
        schedule.step()
        losses.append(float(loss.detach()))
        seconds.append(time.perf_counter() - begin)
    model.save_pretrained(job.path("adapter-of-peft"))
    return losses, median(seconds)


def padded(batch, place):
    """ids, labels and mask, [examples, longest]."""
    longest = max(len(ids) for ids, _ in batch)
    rows = [(ids + [0] * (longest - len(ids)), labels + [NO_LABEL] * (longest - len(ids)),
             [1] * len(ids) + [0] * (longest - len(ids))) for ids, labels in batch]
    return (torch.tensor(part, device=place) for part in zip(*rows))


def transformers_loss(job, folder, sequences, adapter=None):
    model = open_model(job, folder)
    if adapter is not None:
        model = peft.PeftModel.from_pretrained(model, adapter)
    model.eval()
    with torch.no_grad():
        logits = [model(torch.tensor([ids], device=job.place), use_cache=False).logits[0] for ids in sequences]
    return mean_loss(logits, sequences)


def vllm_loss(job, folder, sequences, adapter=None):
    import vllm
    from vllm.lora.request import LoRARequest

    lora = {} if adapter is None else {"enable_lora": True, "max_lora_rank": RANK}
    model = vllm.LLM(model=folder, dtype=str(job.dtype).removeprefix("torch."), enforce_eager=True, max_model_len=2 * LONGEST,
                     trust_remote_code=True, **lora)
    answers = model.generate([{"prompt_token_ids": ids} for ids in sequences],
                             vllm.SamplingParams(max_tokens=1, temperature=0.0, prompt_logprobs=0),
                             lora_request=None if adapter is None else LoRARequest("trained", 1, adapter))
    total = -sum(place[token].logprob for answer, ids in zip(answers, sequences)
                 for token, place in zip(ids[1:], answer.prompt_logprobs[1:]))
    return total / sum(len(ids) - 1 for ids in sequences)


def apart(function, *arguments):
    """In a fresh process, which gives its memory back."""
    with concurrent.futures.ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn")) as pool:
        return pool.submit(function, *arguments).result()


# ---------------------------------------------------------------- the table


class Table:
    def __init__(self, job):
        self.job, self.failures = job, 0
        self.file = open(job.path("table.txt"), "w", encoding="utf-8")

    def say(self, text):
        print(text, flush=True)
        print(text, file=self.file, flush=True)

    def row(self, what, ours, other, verdict):
        self.say(f"{what:52} {ours:>10} {other:>10}  {verdict}")

    def compare(self, what, ours, other, least_change=None):
        """least_change: how far ours is from the loss without the adapter."""
        error, limit = abs(other - ours) / abs(ours), LIMITS[self.job.dtype]
        good = error <= limit
        verdict = f"{error:.1e} apart, {'well' if good else 'FAILED'}; limit {limit:g}"
        if least_change is not None and abs(least_change) <= 3.0 * limit * abs(ours):
            good, verdict = False, f"FAILED: the adapter changes the loss by {least_change:.2g} only"
        self.failures += not good
        self.row(what, f"{ours:.5f}", f"{other:.5f}", verdict)

    def attempt(self, what, part):
        """part() adds its rows; what goes wrong in it is a row, too."""
        try:
            return part()
        except Exception as error:  # pylint: disable=broad-except
            self.failures += 1
            first = (str(error).strip().splitlines() or [""])[0]
            self.row(what, "-", "-", f"FAILED: {type(error).__name__}: {first[:200]}")
            return None


def heading(job, table):
    found = {name: "not installed" if importlib.util.find_spec(name) is None else importlib.metadata.version(name)
             for name in ("torch", "transformers", "peft", "vllm")}
    table.say(", ".join(job.run("--version").strip().splitlines()[:2]))
    card = torch.cuda.get_device_name() if job.place == "cuda" else platform.machine()
    table.say(f"{card}; {job.device}; Python {platform.python_version()}, "
              + ", ".join(f"{name} {version}" for name, version in found.items()))
    model = json.loads(job.run("inspect", job.model, "--json"))
    table.say(f"{os.path.basename(os.path.normpath(job.model))}: {model['architecture']['model_type']}, "
              f"{model['parameters']['total']:,} weights")
    table.say("")
    table.row("", "metier", "the other", "")


def training(job, table):
    ours, our_seconds = train_here(job)
    theirs, their_seconds = apart(train_there, job)
    with open(job.path("losses.tsv"), "w", encoding="utf-8") as file:
        file.writelines(f"{step + 1}\t{here:.7f}\t{there:.7f}\n" for step, (here, there) in enumerate(zip(ours, theirs)))
    if len(ours) != len(theirs):
        raise RuntimeError(f"{len(ours)} steps instead of {len(theirs)}")
    shown = {1, 2, 5, *range(10, job.steps, 10), job.steps}
    for step in sorted(step for step in shown if step <= job.steps):
        table.row(f"loss of step {step}, PEFT and autograd", f"{ours[step - 1]:.5f}", f"{theirs[step - 1]:.5f}", "")
    worst = max(range(job.steps), key=lambda step: abs(ours[step] - theirs[step]) / abs(ours[step]))
    table.compare(f"farthest apart, step {worst + 1}", ours[worst], theirs[worst])
    table.row("seconds a step, median", f"{our_seconds:.3f}", f"{their_seconds:.3f}", "")


def folders(job, table, sequences, loaders):
    base = our_loss(job, job.model, sequences)
    adapter, peft_adapter, vllm_adapter = job.path("run/adapter"), job.path("adapter-of-peft"), job.path("adapter-for-vllm")
    adapted = our_loss(job, job.model, sequences, "--adapter", adapter)

    def merged(loader):
        table.compare(f"metier merge, in {loader}", our_loss(job, job.path("merged"), sequences),
                      apart(loaders[loader], job, job.path("merged"), sequences), adapted - base)

    def pruned(loader):
        table.compare(f"metier prune --keep 50%, in {loader}", our_loss(job, job.path("half"), sequences),
                      apart(loaders[loader], job, job.path("half"), sequences))

    job.run("merge", job.model, "--adapter", adapter, "--out", job.path("merged"))
    job.run("prune", job.model, "--keep", "50%", "--data", job.path("rows.jsonl"), "--template", "plain", "--out",
            job.path("half"), "--verify", "--device", job.device)
    job.run("adapter", adapter, "--model", job.model, "--layout", "vllm", "--out", vllm_adapter)
    table.attempt("PEFT's adapter, read by metier", lambda: table.compare(
        "the adapter trained in PEFT: read by metier, by PEFT", our_loss(job, job.model, sequences, "--adapter", peft_adapter),
        apart(transformers_loss, job, job.model, sequences, peft_adapter), adapted - base))
    for loader, loss in loaders.items():
        read = adapter if loader == "transformers" else vllm_adapter
        table.attempt(f"the model, in {loader}", lambda: table.compare(  # pylint: disable=cell-var-from-loop
            f"the model, in {loader}", base, apart(loss, job, job.model, sequences)))
        table.attempt(f"the adapter, in {loader}", lambda: table.compare(
            f"the adapter, in {'PEFT' if loader == 'transformers' else loader}", adapted,
            apart(loss, job, job.model, sequences, read), adapted - base))
        table.attempt(f"metier merge, in {loader}", lambda: merged(loader))
        table.attempt(f"metier prune, in {loader}", lambda: pruned(loader))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name in ("--program", "--model", "--out"):
        parser.add_argument(name, required=True)
    parser.add_argument("--device", default="auto")
    parser.add_argument("--steps", type=int, default=50)
    arguments = parser.parse_args()
    if arguments.device == "auto":
        arguments.device = "cuda-bf16" if torch.cuda.is_available() else "cpu"
    quiet()
    with open(os.path.join(arguments.model, "config.json"), encoding="utf-8") as file:
        kind = json.load(file)["model_type"]
    if kind in UNKNOWN:
        sys.exit(f"real-check: {kind} is not among the architectures that this script can train in PEFT")
    os.makedirs(arguments.out)
    job = Job(**vars(arguments))
    table = Table(job)
    heading(job, table)
    sequences = prepare(job)
    table.attempt("training", lambda: training(job, table))
    loaders = {"transformers": transformers_loss}
    if importlib.util.find_spec("vllm") is not None:
        loaders["vLLM"] = vllm_loss
    table.attempt("folders", lambda: folders(job, table, sequences, loaders))
    if "vLLM" not in loaders:
        table.row("vLLM", "-", "-", "skipped: not installed")
    table.say(f"\n{table.failures} failures")
    return 1 if table.failures else 0


if __name__ == "__main__":
    sys.exit(main())
