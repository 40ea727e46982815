#!/usr/bin/env python3
"""Writes tests/model/golden/NAME/adapter_keys.txt: which tensors PEFT asks an adapter of the default layout for.

For every architecture and part of the model that may be adapted: what the config written by metier targets, and names
and shapes of the pairs PEFT then makes on transformers' model. Numbers of layers and experts are written as *, equal
lines once, with their count. tests/model/test_adapter_layouts.c holds what metier writes against them, without Python.

Usage: adapter_golden.py [--program build/release/bin/metier]
"""
import argparse
import collections
import json
import os
import re
import shutil
import sys
import tempfile

from adapter_parity import ALPHA, HERE, RANK, ROOT, Metier, peft, torch, transformers

GOLDEN = os.path.join(ROOT, "tests", "model", "golden")
MODELS = ("deepseek", "deepseek_v2", "deepseek_v3", "mixtral", "phimoe", "olmoe", "qwen3_moe", "glm4_moe_lite",
          "qwen2_moe", "glm4_moe", "dots1", "ernie4_5_moe", "gpt_oss")
PARTS = ("attention", "router", "routed_experts", "shared_experts", "dense_mlp", "lm_head")


def collapse(names):
    counts = collections.Counter(re.sub(r"(?<=\.)\d+(?=\.)", "*", name) for name in names)
    return [f"{name} x{count}" for name, count in sorted(counts.items())]


def model_of(name, folder):
    if name != "deepseek":
        config = transformers.AutoConfig.from_pretrained(folder)
        with torch.device("meta"):
            return transformers.AutoModelForCausalLM.from_config(config)
    import model_deepseek  # pylint: disable=import-outside-toplevel
    with open(os.path.join(folder, "config.json"), encoding="utf-8") as file, torch.device("meta"):
        return model_deepseek.DeepseekMoE(json.load(file))


def describe(metier, name, targets):
    folder = os.path.join(GOLDEN, name)
    adapter = metier.new(name)
    metier.run("forward", folder, "--ids", "1,2,3", "--grads", "--train", "lora", "--targets", targets, "--rank",
               str(RANK), "--alpha", str(ALPHA), "--save-adapter", adapter)
    config = peft.LoraConfig.from_pretrained(adapter)
    lines = [f"module {line}" for line in collapse(sorted(config.target_modules or []))]
    lines += [f"parameter {line}" for line in collapse(config.target_parameters or [])]
    # A module named beside the experts only keeps PEFT from a warning.
    lines += [f"rank {key.split('|')[-1]} {value}" for key, value in config.rank_pattern.items() if "experts" in key]
    lines += [f"alpha {key.split('|')[-1]} {value:g}" for key, value in config.alpha_pattern.items() if "experts" in key]
    config.task_type = None
    tuned = peft.get_peft_model(model_of(name, folder), config)
    pairs = {re.sub(r"\.default\.", ".", key): list(value.shape) for key, value in tuned.state_dict().items()
             if ".lora_" in key}
    return lines + collapse(f"{key} {shape}" for key, shape in pairs.items())


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--program", default=os.path.join(ROOT, "build/release/bin/metier"))
    arguments = parser.parse_args()
    sys.path.insert(0, HERE)
    for name in MODELS:
        folder = tempfile.mkdtemp()
        metier = Metier(os.path.abspath(arguments.program), folder)
        lines = []
        for targets in (*PARTS, "*"):
            try:
                found = describe(metier, name, targets)
            except RuntimeError as error:
                if "matches no linear layer" not in str(error):
                    raise
                continue
            lines += [f"== {targets}", *found]
        with open(os.path.join(GOLDEN, name, "adapter_keys.txt"), "w", encoding="utf-8") as file:
            file.write("\n".join(lines) + "\n")
        shutil.rmtree(folder)
        print(f"{name}: {len(lines)} lines")
    return 0


if __name__ == "__main__":
    sys.exit(main())
