#!/usr/bin/env python3
"""Folders of `metier prune` in transformers, on small random models of every architecture.

Every architecture in f32 and bf16, with and without an adapter, experts drawn at random, other ones in every layer:
transformers opens the pruned folder with nothing missing or left over, and its logits are those of `metier forward`;
`--verify` holds them against the masked model; every tensor is the whole model's, routers' rows and biases selected.
Groups (n_group, topk_group) limit the choice where the architecture has them. With bitsandbytes also folders in
codes as they are published (published_formats.py): the reference is the model in transformers with the numbers the
libraries' own dequantisation gives, and, where transformers opens such a folder itself, that.

The first DeepSeek-MoE, which transformers has not, is model_deepseek.py, brought along by the model's folder.

An error is the largest difference of a logit over the largest logit; 1e-5 is the limit. All compute in f32.

Usage: prune_parity.py [--program build/release/bin/metier] [--only TEXT] [--verbose]
Needs PyTorch, transformers >= 5.22 and safetensors; for codes bitsandbytes, too.
"""
import argparse
import json
import os
import re
import sys
import tempfile

import adapter_parity as adapters

import torch
import transformers
from safetensors.torch import load_file

try:
    import numpy
    import model_parity as parity
    import published_formats as formats
    import published_parity as published
    from model_reference import Model
except (ImportError, SystemExit):
    published = None

LIMIT = 1e-5
GROUPED = {"n_routed_experts": 16, "n_group": 4, "topk_group": 2}
CHANGES = {"deepseek_v2": [{}, {**GROUPED, "topk_method": "group_limited_greedy"}],
           "glm4_moe_lite": [GROUPED, {"n_routed_experts": 8, "n_group": 1, "topk_group": 1}]}


def changes_of(name):
    """What is changed in a small model's config; groups of two experts would leave nothing to remove."""
    return CHANGES.get(name, [GROUPED if adapters.CONFIGS[name].get("n_group", 1) > 1 else {}])


class Report:
    def __init__(self, verbose):
        self.worst, self.failures, self.cases, self.verbose = {}, [], 0, verbose

    def add(self, case, what, error):
        name = case.split()[0]
        self.worst[name] = max(self.worst.get(name, 0.0), error)
        if self.verbose or not error <= LIMIT:
            print(f"{'' if error <= LIMIT else 'FAILED '}{case}: {what}: {error:.2e}", flush=True)
        if not error <= LIMIT:
            self.failures.append(case)

    def expect(self, case, what, true):
        if not true:
            print(f"FAILED {case}: {what}", flush=True)
            self.failures.append(case)


def error_of(got, want):
    return float((got - want).abs().max() / want.abs().max())


def experts_of(config):
    return next(config[key] for key in ("n_routed_experts", "num_local_experts", "num_experts", "moe_num_experts")
                if key in config)


def per_token_of(config):
    return config.get("moe_k") or config["num_experts_per_tok"]


def draw_experts(folder, path, seed):
    """About half of the experts, equally many of each group; layer -> kept."""
    with open(os.path.join(folder, "config.json"), encoding="utf-8") as file:
        config = json.load(file)
    count, groups = experts_of(config), config.get("n_group", 1)
    each = max(count // groups // 2, -(-(per_token_of(config) + 1) // config.get("topk_group", 1)), 2)
    each = min(each, count // groups)
    layers = sorted({int(match.group(1)) for match in (
        re.match(r"model\.layers\.(\d+)\..*\.experts\.", name)
        for name in load_file(os.path.join(folder, "model.safetensors"))) if match})
    generator = torch.Generator().manual_seed(seed)
    kept = {}
    for layer in layers:
        size = count // groups
        kept[layer] = sorted(group * size + int(expert) for group in range(groups)
                             for expert in torch.randperm(size, generator=generator)[:each])
    with open(path, "w", encoding="utf-8") as file:
        json.dump({"experts": count, "layers": len(layers), "keep": kept}, file)
    return kept


def selected(tensors, kept, experts):
    """The pruned model's tensors, made here: name -> value."""
    result = {}
    for name, value in tensors.items():
        match = re.match(r"model\.layers\.(\d+)\.", name)
        layer = int(match.group(1)) if match else -1
        expert = re.match(r"(.*\.experts\.)(\d+)(\..*)", name)
        if expert and layer in kept:
            if int(expert.group(2)) in kept[layer]:
                result[expert.group(1) + str(kept[layer].index(int(expert.group(2)))) + expert.group(3)] = value
        elif layer in kept and re.search(r"\.(gate|moe_statics)\.(weight|e_score_correction_bias)$", name):
            assert value.numel() % experts == 0 and experts in value.shape[:2]
            result[name] = value[kept[layer]] if value.shape[0] == experts else value[:, kept[layer]]
        elif layer in kept and re.search(r"\.(experts\.(gate_up|down)_proj(_bias|_blocks|_scales)?|router\.(weight|bias))$", name):
            result[name] = value[kept[layer]]  # gpt_oss: all experts of a layer in one tensor
        else:
            result[name] = value
    return result


def open_pruned(report, case, folder):
    """In transformers, nothing missing, nothing left over."""
    model, info = transformers.AutoModelForCausalLM.from_pretrained(
        folder, dtype=torch.float32, trust_remote_code=True, output_loading_info=True)
    for key in ("missing_keys", "unexpected_keys", "mismatched_keys"):
        report.expect(case, f"{key}: {sorted(info[key])[:4]}", not info[key])
    return model.eval()


def prune(metier, case, folder, experts, *options):
    out = metier.new(case)
    text = metier.run("prune", folder, "--experts", experts, "--out", out, "--verify", "--speed", "0", *options)
    if "verified" not in text:
        raise RuntimeError(f"{case}: {text}")
    return out


def check_plain(metier, report, name, changes, dtype):
    case = f"{name} {dtype}{' groups' if changes.get('n_group', 1) > 1 else ''}"
    ids = adapters.draw_ids()
    folder = adapters.make_model(metier, name, dtype, **changes)
    path = os.path.join(metier.folder, "experts.json")
    kept = draw_experts(folder, path, 7)
    out = prune(metier, case, folder, path)
    with open(os.path.join(folder, "config.json"), encoding="utf-8") as file:
        count = experts_of(json.load(file))
    want = selected(load_file(os.path.join(folder, "model.safetensors")), kept, count)
    got = load_file(os.path.join(out, "model.safetensors"))
    report.expect(case, f"tensors: {sorted(set(got) ^ set(want))[:4]}", set(got) == set(want))
    for tensor, value in want.items():
        report.expect(case, f"{tensor} is another", torch.equal(got[tensor], value) and got[tensor].dtype == value.dtype)
    with torch.no_grad():
        logits = open_pruned(report, case, out)(torch.tensor([ids])).logits[0]
    report.add(case, "transformers", error_of(metier.logits(out, ids), logits))
    whole = metier.logits(folder, ids)
    report.expect(case, "pruning changes nothing", error_of(metier.logits(out, ids), whole) > 1e-3)
    targets = next(targets for what, targets in adapters.targets_of(name) if what == "all")
    adapter, _ = metier.write(folder, ids, targets, "auto", case)
    out = prune(metier, case, folder, path, "--adapter", adapter)
    with torch.no_grad():
        logits = open_pruned(report, case, out)(torch.tensor([ids])).logits[0]
    report.add(case, "with an adapter, transformers", error_of(metier.logits(out, ids), logits))
    report.cases += 1


def check_codes(metier, report, name, label):
    """A folder in codes: its pruned one, by the libraries' dequantisation."""
    case = f"{name} {label}"
    folder = metier.new(case)
    os.mkdir(folder)
    config = published.draw(name, 1)
    if name == "deepseek_v3":
        config.update({**GROUPED, "num_experts_per_tok": 3})
    model = Model(config, folder)
    published.write_folder(model, model.random_tensors(torch.Generator().manual_seed(1), torch.bfloat16), label)
    path = os.path.join(metier.folder, "experts.json")
    with open(path, "w", encoding="utf-8") as file:
        layers = sorted({int(re.match(r"model\.layers\.(\d+)\.", tensor).group(1)) for tensor in model.shapes
                         if ".experts." in tensor})
        count, groups = experts_of(config), config.get("n_group", 1)
        size = count // groups
        each = max(size // 2, -(-per_token_of(config) // config.get("topk_group", 1)), 2)
        keep = [group * size + size - each + i for group in range(groups) for i in range(each)]
        json.dump({"experts": count, "layers": len(layers), "keep": {layer: keep for layer in layers}}, file)
    out = prune(metier, case, folder, path)
    with open(os.path.join(out, "config.json"), encoding="utf-8") as file:
        smaller = json.load(file)
    report.expect(case, "quantization_config is another",
                  smaller["quantization_config"] == formats.CONFIGS[formats.FORMATS[label][0]])
    scratch = metier.new("scratch")
    os.mkdir(scratch)
    pruned = Model({key: value for key, value in smaller.items() if key != "quantization_config"}, scratch)
    numbers = published.numbers_of(pruned, out)
    report.expect(case, f"tensors: {sorted(set(numbers) ^ set(pruned.shapes))[:4]}", set(numbers) == set(pruned.shapes))
    ids = numpy.random.default_rng(1).integers(config["vocab_size"], size=24).tolist()
    with torch.no_grad():
        want = pruned.run(numbers, [ids]).logits
    got = metier.logits(out, ids)
    report.add(case, "dequantised, in transformers", error_of(got, want))
    if published.opens_itself(model, label):
        report.add(case, "opened by transformers", error_of(got, published.transformers_logits(out, [ids])))
    report.cases += 1


def check_gpt_oss_codes(metier, report):
    """As gpt-oss is published: experts together in mxfp4, their biases in floats."""
    case = "gpt_oss mxfp4"
    config = {"model_type": "gpt_oss", **adapters.COMMON, **adapters.CONFIGS["gpt_oss"], "hidden_size": 64,
              "head_dim": 16, "intermediate_size": 96, "dtype": "bfloat16"}
    path, folder = os.path.join(metier.folder, "config.json"), metier.new(case)
    with open(path, "w", encoding="utf-8") as file:
        json.dump(config, file)
    metier.run("init", "--config", path, "--seed", "3", "--dtype", "bf16", "--quantize", "mxfp4,routed_experts", "--out", folder)
    experts = os.path.join(metier.folder, "experts.json")
    kept = draw_experts(folder, experts, 7)
    out = prune(metier, case, folder, experts)
    want = selected(load_file(os.path.join(folder, "model.safetensors")), kept, config["num_local_experts"])
    got = load_file(os.path.join(out, "model.safetensors"))
    report.expect(case, f"tensors: {sorted(set(got) ^ set(want))[:4]}", set(got) == set(want))
    for tensor, value in want.items():
        report.expect(case, f"{tensor} is another", torch.equal(got[tensor], value) and got[tensor].dtype == value.dtype)
    model = transformers.AutoModelForCausalLM.from_pretrained(
        out, quantization_config=transformers.Mxfp4Config(dequantize=True), dtype=torch.float32, attn_implementation="eager")
    ids = adapters.draw_ids()
    with torch.no_grad():
        logits = model(torch.tensor([ids])).logits[0]
    report.add(case, "dequantised by transformers", error_of(metier.logits(out, ids), logits))
    report.expect(case, "pruning changes nothing", error_of(metier.logits(out, ids), metier.logits(folder, ids)) > 1e-3)
    report.cases += 1


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--program", default=os.path.join(adapters.ROOT, "build", "release", "bin", "metier"))
    parser.add_argument("--only", default="", help="cases whose name contains this, for example 'mixtral bf16'")
    parser.add_argument("--verbose", action="store_true", help="every error")
    arguments = parser.parse_args()
    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()
    torch.set_num_threads(1)
    report = Report(arguments.verbose)
    with tempfile.TemporaryDirectory() as place:
        metier = adapters.Metier(arguments.program, place)
        for name in adapters.CONFIGS:
            for changes in changes_of(name):
                for dtype in ("f32", "bf16"):
                    if arguments.only in f"{name} {dtype}":
                        check_plain(metier, report, name, changes, dtype)
        for name in published.MODELS if published else ():
            for label in formats.FORMATS:
                if arguments.only in f"{name} {label}":
                    check_codes(metier, report, name, label)
        if arguments.only in "gpt_oss mxfp4":
            check_gpt_oss_codes(metier, report)
    print("  ".join(f"{name} {error:.1e}" for name, error in report.worst.items()))
    codes = "" if published else "; codes skipped: no bitsandbytes"
    print(f"{report.cases} cases, {len(report.failures)} failures, largest error "
          f"{max(report.worst.values(), default=0.0):.1e}{codes}")
    return 1 if report.failures or report.cases == 0 else 0


if __name__ == "__main__":
    sys.exit(main())
