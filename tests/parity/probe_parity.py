#!/usr/bin/env python3
"""metier probe against servers: metier serve, llama.cpp's, and a small one that speaks vLLM's dialect (vllm_server.py).

Each is asked about 20 adapters that were drawn with other seeds, in two strengths, and each of them as it is, not applied,
without its router's pairs, with the pairs of the experts exchanged, and on a base in 8 bits; where the model has kv_b_proj,
also without its pairs, as vLLM leaves them out. The first line of metier probe must be right every time:

    whole      applied                                  8 bits     applied, and the second line says what rounds so
    base       not applied                              no kv_b    applied, but these parts are dead: kv_b_proj
    no router  applied, but these parts are dead: router
    permuted   applied, but experts have each other's pairs: ... and those it names are right
    shuffled   an order that probe does not try: anything but "applied"

Usage: probe_parity.py [--program build/release/bin/metier] [--llama DIR] [--only TEXT] [--case TEXT] [--tries 20]
       [--first-seed 1] [--verbose]
Seeds that thresholds were chosen with prove nothing: measure with others (--first-seed).
DIR is a checkout of llama.cpp (gguf_parity.py says what it needs); without it that server is left out, and said so.
Needs torch, transformers, peft and safetensors.
"""
import argparse
import collections
import json
import os
import random
import re
import shutil
import subprocess
import sys
import tempfile

import adapter_parity as adapters
import torch
import transformers
from llama_cpp import Server, convert
from safetensors.torch import load_file, save_file
from vllm_server import VllmServer

MODELS = os.path.join(adapters.ROOT, "share", "models")
TARGETS = {"small-deepseek-v2": "attention,router,routed_experts,shared_experts,dense_mlp",
           "small-mixtral": "attention,router,routed_experts"}
STRENGTHS = ("0.05", "0.02")
RIGHT = {"whole": "applied", "base": "not applied", "8 bits": "applied",
         "no router": "applied, but these parts are dead: router",
         "no kv_b": "applied, but these parts are dead: kv_b_proj",
         "permuted": "applied, but experts have each other's pairs: "}
ROUNDED = ("the server rounds, as weights in int8 or arithmetic in bf16 do", "the server's weights seem to be rounded to fp8")


def changed(folder, out, change):
    """The adapter with other tensors."""
    shutil.copytree(folder, out)
    path = os.path.join(out, "adapter_model.safetensors")
    save_file(change(load_file(path)), path, {"format": "pt"})
    return out


def without(word):
    def change(tensors):
        return {name: torch.zeros_like(value) if re.search(rf"{word}\.(weight\.)?lora_B", name) else value
                for name, value in tensors.items()}
    return change


def exchanged(order):
    """Expert e gets the pairs of order[e]."""
    def change(tensors):
        def other(found):
            return f".experts.{order[int(found.group(1))]}."
        return {name: tensors[re.sub(r"\.experts\.(\d+)\.", other, name)].clone() for name in tensors}
    return change


def order_of(experts, seed):
    """Of each expert, whose pairs it has."""
    own = list(range(experts))
    by_digits = sorted(own, key=str)
    orders = [own[1:] + own[:1], own[-1:] + own[:-1], own[::-1], by_digits]
    order = orders[seed % len(orders)]
    return order if order != own else orders[0]


def shuffled(experts, seed):
    order = list(range(experts))
    random.Random(seed).shuffle(order)
    return order


def is_right(server, case, told, order):
    first = told[0]
    if case == "8 bits":
        return first == RIGHT[case] and told[1:2] == [ROUNDED[server == "vLLM's dialect"]]
    if case == "shuffled":
        return first != "applied"
    if case != "permuted":
        return first == RIGHT[case]
    named = re.findall(r"(\d+) (?:has those )?of (\d+)", first)
    return first.startswith(RIGHT[case]) and len(named) > 0 and all(order[int(one)] == int(other) for one, other in named)


class Drawn:
    """An adapter and its variants: {case: folder}, in the layout for transformers 5."""

    def __init__(self, metier, base, targets, seed, kv_b):
        self.metier, self.base, self.seed = metier, base, seed
        with open(os.path.join(base, "config.json"), encoding="utf-8") as file:
            config = json.load(file)
        self.order = order_of(config.get("n_routed_experts") or config["num_local_experts"], seed)
        plain = metier.new("plain")
        metier.run("forward", base, "--threads", "1", "--ids", "5,17,3", "--grads", "--train", "lora", "--targets", targets,
                   "--rank", "8", "--seed", str(seed), "--lora-b-std", STRENGTHS[seed % len(STRENGTHS)],
                   "--save-adapter", plain, "--adapter-layout", "per-expert")
        self.folders = {"whole": plain, "8 bits": plain,
                        "no router": changed(plain, metier.new("router"), without(r"\.gate")),
                        "permuted": changed(plain, metier.new("permuted"), exchanged(self.order)),
                        "shuffled": changed(plain, metier.new("shuffled"), exchanged(shuffled(len(self.order), seed)))}
        if kv_b:
            self.folders["no kv_b"] = changed(plain, metier.new("kv-b"), without(r"\.kv_b_proj"))

    def auto(self, case):
        return self.metier.rewrite(self.base, self.folders[case], "auto")

    def gguf(self, case):
        path = self.metier.new("lora") + ".gguf"
        self.metier.run("adapter", self.folders[case], "--model", self.base, "--to", "gguf", "--out", path)
        return path


def name_of(drawn, case):
    return f"{case}-{drawn.seed}".replace(" ", "-")


class Serve:
    """metier serve with all adapters."""

    def __init__(self, program, base, named, *options):
        words = [word for name, folder in named.items() for word in ("--adapter", f"{name}={folder}")]
        self.process = subprocess.Popen([program, "serve", f"base={base}", "--port", "0", "--threads", "1", *words, *options],
                                        stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        for line in self.process.stdout:
            if line.startswith("listening on "):
                self.url = line.split()[-1]
                return
        raise RuntimeError("metier serve does not start")

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.terminate()
        self.process.wait()


class Cases:
    def __init__(self, metier, llama, seeds, case, report):
        self.metier, self.llama, self.seeds, self.case, self.report = metier, llama, seeds, case, report

    def draw(self, model):
        base = os.path.join(MODELS, model)
        return base, [Drawn(self.metier, base, TARGETS[model], seed, "deepseek" in model)
                      for seed in self.seeds]

    def probe(self, server, url, name, drawn, case):
        if self.case not in case:
            return
        done = subprocess.run([self.metier.program, "probe", url, "--model", name, "--adapter", drawn.folders["whole"],
                               "--base", drawn.base, "--threads", "1"], capture_output=True, text=True, check=False)
        self.report(server, case, drawn, (done.stdout or done.stderr).splitlines())

    def ours(self):
        base, every = self.draw("small-deepseek-v2")
        for drawn in every:
            named = {name_of(drawn, case): folder for case, folder in drawn.folders.items()}
            with Serve(self.metier.program, base, named) as server:
                for case in drawn.folders:
                    if case != "8 bits":
                        self.probe("metier serve", server.url, name_of(drawn, case), drawn, case)
                self.probe("metier serve", server.url, "base", drawn, "base")
            with Serve(self.metier.program, base, named, "--quantize",
                       "int8,routed_experts,shared_experts,dense_mlp,attention") as server:
                self.probe("metier serve", server.url, name_of(drawn, "8 bits"), drawn, "8 bits")

    def vllm(self):
        base, every = self.draw("small-deepseek-v2")
        names = {name_of(drawn, case): drawn.auto(case) for drawn in every for case in drawn.folders}
        names["base"] = None
        with VllmServer(base, names) as exact, VllmServer(base, names, fp8=True) as fp8:
            for drawn in every:
                for case in drawn.folders:
                    server = fp8 if case == "8 bits" else exact
                    self.probe("vLLM's dialect", server.url, name_of(drawn, case), drawn, case)
                self.probe("vLLM's dialect", exact.url, "base", drawn, "base")

    def llama_cpp(self):
        base, every = self.draw("small-mixtral")
        models = {outtype: self.metier.new(outtype) + ".gguf" for outtype in ("ALL_F32", "MOSTLY_Q8_0")}
        for outtype, path in models.items():
            convert(self.llama, base, path, outtype)
        for drawn in every:
            for case in (*drawn.folders, "base"):
                model = models["MOSTLY_Q8_0" if case == "8 bits" else "ALL_F32"]
                with Server(self.llama, model, "" if case == "base" else drawn.gguf(case)) as server:
                    self.probe("llama.cpp", server.url, "any", drawn, case)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--program", default=os.path.join(adapters.ROOT, "build/release/bin/metier"))
    parser.add_argument("--llama", default=os.environ.get("LLAMA_CPP"))
    parser.add_argument("--only", default="")
    parser.add_argument("--case", default="")
    parser.add_argument("--tries", type=int, default=20)
    parser.add_argument("--first-seed", type=int, default=1)
    parser.add_argument("--verbose", action="store_true", help="all of what metier probe prints")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()
    right, told = collections.Counter(), collections.Counter()

    def report(server, case, drawn, lines):
        told[(server, case)] += 1
        good = is_right(server, case, lines, drawn.order)
        right[(server, case)] += good
        if not good or arguments.verbose:
            print(f"{server}, {case}, seed {drawn.seed}: {'; '.join(lines[:2])}{'' if good else '  WRONG'}", flush=True)
        if arguments.verbose:
            print("\n".join(lines), flush=True)

    with tempfile.TemporaryDirectory() as folder:
        cases = Cases(adapters.Metier(os.path.abspath(arguments.program), folder),
                      arguments.llama and os.path.abspath(arguments.llama),
                      range(arguments.first_seed, arguments.first_seed + arguments.tries), arguments.case, report)
        for server, run in (("ours", cases.ours), ("vllm", cases.vllm), ("llama", cases.llama_cpp)):
            if arguments.only not in server:
                continue
            if server == "llama" and not arguments.llama:
                print("llama.cpp's server is left out: --llama DIR is missing")
                continue
            run()
    for key, count in told.items():
        print(f"{key[0]:16} {key[1]:10} {right[key]} of {count} right")
    wrong = sum(told.values()) - sum(right.values())
    print(f"{sum(told.values())} probes, {wrong} wrong")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
