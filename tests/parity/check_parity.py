#!/usr/bin/env python3
"""metier adapter --check on good adapters: every architecture, choice of what is adapted and layout, ours, and the same
as PEFT saves them again. None may have a finding. And the cards beside them, read by huggingface_hub.

PEFT saves what it can load: the layout `auto`, but not the first DeepSeek-MoE's, whose code is not in transformers.

Usage: check_parity.py [--program build/release/bin/metier] [--only TEXT]
Needs torch, transformers >= 5.22, peft >= 0.21, safetensors and huggingface_hub.
"""
import argparse
import collections
import os
import subprocess
import sys
import tempfile
import warnings

import adapter_parity as adapters
import peft
import torch
import transformers
from huggingface_hub import ModelCard

CHOICES = ("router", "experts", "shared", "attention", "all", "head", "dense", "down", "some experts")


def findings(metier, adapter, folder):
    """'': none."""
    done = subprocess.run([metier.program, "adapter", adapter, "--model", folder, "--check"], capture_output=True, text=True,
                          check=False)
    good = done.returncode == 0 and "nothing is wrong with it" in done.stdout
    return "" if good else (done.stdout or done.stderr).splitlines()[0]


def save_by_peft(metier, folder, adapter):
    """The adapter, loaded and saved again."""
    out = metier.new("peft")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        peft.PeftModel.from_pretrained(adapters.load(folder), adapter).save_pretrained(out)
    return out


def card_fault(adapter):
    data = ModelCard.load(os.path.join(adapter, "README.md")).data
    good = data.library_name == "peft" and isinstance(data.base_model, str) and "metier" in data.tags
    return "" if good else f"card: {data}"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--program", default=os.path.join(adapters.ROOT, "build/release/bin/metier"))
    parser.add_argument("--only", default="")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()
    counts, wrong = collections.Counter(), 0

    def note(name, who, case, fault):
        nonlocal wrong
        counts[(name, who)] += 1
        wrong += fault != ""
        if fault:
            print(f"{name}, {case}, {who}: {fault}  WRONG", flush=True)

    for name in adapters.CONFIGS:
        if not name.startswith(arguments.only):
            continue
        with tempfile.TemporaryDirectory() as place:
            metier = adapters.Metier(os.path.abspath(arguments.program), place)
            folder = adapters.make_model(metier, name)
            for case, targets in adapters.targets_of(name):
                if case not in CHOICES:
                    continue
                adapter, _ = metier.write(folder, adapters.draw_ids(), targets, "auto", case)
                note(name, "card", case, card_fault(adapter))
                for layout in adapters.LAYOUTS:
                    try:
                        written = metier.rewrite(folder, adapter, layout)
                    except RuntimeError as error:  # a layout that this model's adapters cannot have
                        print(f"{name}, {case}: no {layout}: {str(error).rsplit(': ', 1)[-1]}")
                        continue
                    note(name, layout, case, findings(metier, written, folder))
                if name != "deepseek":
                    note(name, "PEFT", case, findings(metier, save_by_peft(metier, folder, adapter), folder))
        print(f"{name:14} " + ", ".join(f"{who} {count}" for (one, who), count in counts.items() if one == name), flush=True)
    good = sum(count for (_, who), count in counts.items() if who != "card")
    print(f"{good} adapters checked, {wrong} wrong")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
