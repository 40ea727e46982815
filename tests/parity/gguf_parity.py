#!/usr/bin/env python3
"""Adapters of metier in llama.cpp, on small random models: `metier adapter --to gguf`.

Of every architecture and choice of what is adapted: llama.cpp's converter makes its own form of the model, `metier
adapter --to gguf` that of the adapter, and llama.cpp's server goes on from 20 prompts. Every token it chooses must be
ours, and its log-probabilities must be ours. What llama.cpp is off by without any adapter is the yardstick: with one
it may be off by three times as much, or by 1e-4. Where llama.cpp does not compute the model itself as transformers does
(SparseMixer in Phi-3.5-MoE), it is held against itself with the merged model, converted.

Adapters with parts that llama.cpp does not apply are refused, and with --drop they are the adapter without these parts.
A merged and a pruned folder are converted, too.

Usage: gguf_parity.py --llama DIR [--program build/release/bin/metier] [--only TEXT]
DIR is a checkout of llama.cpp. Needs torch, transformers, peft, safetensors, what its converter needs, and its server,
built there or from the package xllamacpp.
"""
import argparse
import os
import random
import shutil
import sys
import tempfile

import adapter_parity as adapters
from llama_cpp import Server, convert

try:
    import torch
except ImportError as error:
    print(f"gguf_parity: needs a Python with torch: {error}", file=sys.stderr)
    sys.exit(77)

PROMPTS, NEW, TOP = 20, 12, 20
FLOOR = 1e-4  # of a log-probability
# What llama.cpp can load of a small model: queries of latent attention are compressed unless there are 26 layers, Qwen
# has no dense layers, dots1 has a key for every query and says how its router scores (without that llama.cpp aborts), and
# Phi-3.5-MoE has the names of its published folder. gpt_oss has what llama.cpp takes for granted: a limit of 7 and a
# ramp of YaRN that is rounded.
YARN = {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 16, "beta_fast": 32.0, "beta_slow": 1.0,
        "truncate": True}
CHANGES = {"deepseek_v3": {"q_lora_rank": 12}, "glm4_moe_lite": {"scoring_func": "sigmoid"},
           "deepseek": {"num_key_value_heads": 2}, "qwen2_moe": {"mlp_only_layers": []},
           "qwen3_moe": {"mlp_only_layers": []}, "ernie4_5_moe": {"intermediate_size": 48},
           "dots1": {"num_key_value_heads": 4, "scoring_func": "sigmoid"}, "gpt_oss": {"swiglu_limit": 7.0, "rope_scaling": YARN},
           "phimoe": {"architectures": ["PhiMoEForCausalLM"], "original_max_position_embeddings": 64}}
CHANGED = {"n_group": 1, "topk_group": 1}
OTHER_MODEL = ("phimoe",)  # llama.cpp has another router
LATENT = ("deepseek_v2", "deepseek_v3", "glm4_moe_lite")


def targets_of(name):
    """(what, targets, whether llama.cpp lacks some of it)."""
    every = "router,routed_experts"
    every += ",shared_experts" if name in adapters.SHARED else ""
    every += ",dense_mlp" if name in adapters.DENSE and not name.startswith("qwen") else ""
    lacks = name in LATENT or name == "glm4_moe"
    yield "everything", every + ",attention,lm_head", lacks
    yield "experts", "routed_experts", False
    yield "router", "router", False
    yield "attention", "o_proj" if name in LATENT else "q_proj,k_proj,v_proj" if lacks else "attention", False


def draw_prompts(vocabulary):
    generator = random.Random(7)
    return [[generator.randrange(3, vocabulary) for _ in range(generator.randrange(4, 40))] for _ in range(PROMPTS)]


def ours(metier, folder, ids, *options):
    return torch.log_softmax(metier.logits(folder, ids, *options).double(), -1)


def compare(metier, server, folder, *options):
    """(largest difference of a log-probability, tokens that are not ours, tokens) over all prompts."""
    worst, wrong, count = 0.0, 0, 0
    for prompt in draw_prompts(adapters.COMMON["vocab_size"]):
        tokens, rows = server.complete(prompt, NEW, TOP)
        want = ours(metier, folder, prompt + tokens, *options)[len(prompt) - 1:]
        for place, (token, row) in enumerate(zip(tokens, rows)):
            worst = max(worst, max(abs(float(want[place, id]) - value) for id, value in row.items()))
            best = float(want[place].max())
            wrong += best - float(want[place, token]) > FLOOR
            count += 1
    return worst, wrong, count


def figures_of(server):
    """Of every prompt the tokens, and their log-probabilities."""
    return [server.complete(prompt, NEW, TOP) for prompt in draw_prompts(adapters.COMMON["vocab_size"])]


def effect_of(metier, folder, adapter):
    prompt = draw_prompts(adapters.COMMON["vocab_size"])[0]
    return float((ours(metier, folder, prompt, "--adapter", adapter) - ours(metier, folder, prompt)).abs().max())


class Case:
    def __init__(self, metier, root, report):
        self.metier, self.root, self.report = metier, root, report

    def gguf(self, folder, what):
        out = self.metier.new(what) + ".gguf"
        convert(self.root, folder, out)
        return out

    def against_merged(self, name, model, folder, adapter, lora):
        """llama.cpp with the adapter and with the merged model: the same tokens and figures."""
        merged = self.metier.new("merged")
        self.metier.run("merge", folder, "--adapter", adapter, "--out", merged)
        with Server(self.root, self.gguf(merged, "merged")) as server:
            want = figures_of(server)
        with Server(self.root, model, lora) as server:
            got = figures_of(server)
        wrong = sum(one[0] != other[0] for one, other in zip(want, got))
        worst = max(abs(row[id] - other[id]) for one, two in zip(want, got) if one[0] == two[0]
                    for row, other in zip(one[1], two[1]) for id in row.keys() & other.keys())
        self.report(name, worst, FLOOR, wrong, PROMPTS, effect_of(self.metier, folder, adapter))

    def adapted(self, name, what, targets, lacks, folder, model, limit):
        adapter, _ = self.metier.write(folder, adapters.draw_ids(), targets, "auto", f"{name} {what}")
        lora, kept = self.metier.new("lora") + ".gguf", adapter
        words = ("adapter", adapter, "--model", folder, "--to", "gguf", "--out", lora)
        if lacks:
            try:
                self.metier.run(*words)
                raise AssertionError(f"{name} {what}: is not refused")
            except RuntimeError as error:
                if "llama.cpp does not apply" not in str(error) or os.path.exists(lora):
                    raise
            kept = without(self.metier, folder, adapter, name)
        self.metier.run(*words, *(["--drop"] if lacks else []))
        if name in OTHER_MODEL:
            self.against_merged(f"{name} {what}", model, folder, kept, lora)
            return
        with Server(self.root, model, lora) as server:
            worst, wrong, count = compare(self.metier, server, folder, "--adapter", kept)
        self.report(f"{name} {what}", worst, limit, wrong, count, effect_of(self.metier, folder, kept))

    def folders(self, name, folder):
        """A merged and a pruned folder, converted."""
        adapter, _ = self.metier.write(folder, adapters.draw_ids(), "routed_experts,router", "auto", "merged")
        merged, pruned = self.metier.new("merged"), self.metier.new("pruned")
        self.metier.run("merge", folder, "--adapter", adapter, "--out", merged)
        rows = os.path.join(self.metier.folder, "rows.jsonl")
        with open(rows, "w", encoding="utf-8") as file:
            file.write("".join('{"prompt": "%d", "completion": " %d"}\n' % (i, i + 1) for i in range(40)))
        self.metier.run("prune", folder, "--keep", "50%", "--data", rows, "--out", pruned)
        for what, made in (("merged", merged), ("pruned", pruned)):
            with Server(self.root, self.gguf(made, what)) as server:
                worst, wrong, count = compare(self.metier, server, made)
            self.report(f"{name} {what} folder", worst, 5e-3, wrong, count, 0.0)

    def architecture(self, name):
        changes = {key: value for key, value in CHANGED.items() if key in adapters.CONFIGS[name]}
        folder = adapters.make_model(self.metier, name, **{**changes, **CHANGES.get(name, {})})
        model = self.gguf(folder, name)
        limit = FLOOR
        if name not in OTHER_MODEL:
            with Server(self.root, model) as server:
                worst, wrong, count = compare(self.metier, server, folder)
            self.report(f"{name} base", worst, 5e-3, wrong, count, 0.0)
            limit = max(FLOOR, 3 * worst)
        for what, targets, lacks in targets_of(name):
            self.adapted(name, what, targets, lacks, folder, model, limit)
        if name in ("mixtral", "deepseek_v2", "qwen3_moe"):
            self.folders(name, folder)


def without(metier, folder, adapter, name):
    """The adapter without the pairs llama.cpp does not apply: PEFT's file with zeros in their B."""
    from safetensors.torch import load_file, save_file
    plain = metier.rewrite(folder, adapter, "per-expert")
    made = metier.new("without")
    shutil.copytree(plain, made)
    path = os.path.join(made, "adapter_model.safetensors")
    tensors = load_file(path)
    words = ("q_proj", "q_a_proj", "q_b_proj", "kv_a_proj_with_mqa", "kv_b_proj", "lm_head") if name in LATENT else (
        "o_proj", "mlp.down_proj", "shared_experts.down_proj")
    for key, value in tensors.items():
        if any(f".{word}.lora_B" in key for word in words):
            tensors[key] = torch.zeros_like(value)
    save_file(tensors, path, {"format": "pt"})
    return made


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--llama", default=os.environ.get("LLAMA_CPP"), required="LLAMA_CPP" not in os.environ)
    parser.add_argument("--program", default=os.path.join(adapters.ROOT, "build/release/bin/metier"))
    parser.add_argument("--only", default="")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    failures, rows = [], 0

    def report(case, worst, limit, wrong, count, effect):
        nonlocal rows
        rows += 1
        good = worst <= limit and wrong == 0 and (effect == 0.0 or effect > 20 * limit)
        print(f"{case:26} off by {worst:.1e} of {limit:.1e}, {wrong} of {count} tokens wrong, "
              f"the adapter changes {effect:.1e}{'' if good else '  FAILED'}", flush=True)
        if not good:
            failures.append(case)

    for name in adapters.CONFIGS:
        if not name.startswith(arguments.only):
            continue
        with tempfile.TemporaryDirectory() as folder:
            metier = adapters.Metier(os.path.abspath(arguments.program), folder)
            try:
                Case(metier, os.path.abspath(arguments.llama), report).architecture(name)
            except (RuntimeError, AssertionError, ValueError) as error:
                failures.append(name)
                print(f"{name}: FAILED {error}", flush=True)
    print(f"{rows} rows, {len(failures)} failures")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
