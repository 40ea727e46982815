#!/usr/bin/env python3
"""`metier analyze --score reap` and `easy-ep` against their published formulas in f64, on transformers' hidden states.

    tests/parity/score_parity.py [--program build/release/bin/metier] [--models FOLDER...]

transformers runs each model in f64; hooks hand over the residual stream before and after every MoE layer and what its
norm made of it. Gates and expert outputs are made here of the tensors on disk, by the models' own rules, and must add
up to what transformers made of the layer. The formulas are REAP's (2510.13999, with the layer's own gate) and
EASY-EP's (2504.06792, as its code RUCAIBox/EASYEP has it). Fails above 1e-5 of the layer's largest score.
"""
import argparse
import json
import pathlib
import subprocess
import sys
import tempfile

import torch
import transformers
from safetensors.torch import load_file
from torch.nn import functional as F

LIMIT = 1e-5
ROOT = pathlib.Path(__file__).resolve().parents[2]
TEXTS = [f"{a} plus {b} is {a + b}, and {b} times {a} is {a * b}." for a, b in
         ((3, 4), (17, 5), (120, 9), (8, 88), (2, 41), (77, 6), (19, 30), (5, 5))]


class Layer:
    """Gates and experts of one MoE layer, of the tensors on disk."""

    def __init__(self, config, tensors, number):
        self.config, self.tensors = config, tensors
        self.mixtral = config["model_type"] == "mixtral"
        self.prefix = f"model.layers.{number}." + ("block_sparse_moe." if self.mixtral else "mlp.")
        self.names = ("w1", "w3", "w2") if self.mixtral else ("gate_proj", "up_proj", "down_proj")
        self.experts = config["num_local_experts" if self.mixtral else "n_routed_experts"]

    def weight(self, name):
        return self.tensors[f"{self.prefix}{name}.weight"].double()

    def mlp(self, name, x):
        gate, up, down = (self.weight(f"{name}.{part}") for part in self.names)
        return (F.silu(x @ gate.T) * (x @ up.T)) @ down.T

    def gates(self, x):
        """Of every token, its experts [N,k] and their weights."""
        scores = torch.softmax(x @ self.weight("gate").T, dim=-1)
        weights, experts = torch.topk(scores, self.config["num_experts_per_tok"], dim=-1)
        if self.mixtral or self.config["norm_topk_prob"]:
            weights = weights / weights.sum(-1, keepdim=True)
        if not self.mixtral:
            weights = weights * self.config["routed_scaling_factor"]
        return weights, experts

    def shared(self, x):
        names = ("gate_proj", "up_proj", "down_proj")
        if self.mixtral or not self.config.get("n_shared_experts"):
            return torch.zeros_like(x)
        gate, up, down = (self.weight(f"shared_experts.{part}") for part in names)
        return (F.silu(x @ gate.T) * (x @ up.T)) @ down.T


def scores_of(layer, before, normed, after):
    """reap, easy-ep [n] and the slots of every expert."""
    weights, experts = layer.gates(normed)
    outputs = torch.stack([layer.mlp(f"experts.{j}", normed) for j in range(layer.experts)], dim=1)  # [N,n,d]
    chosen = outputs.gather(1, experts[:, :, None].expand(-1, -1, outputs.shape[-1]))
    routed = (weights[:, :, None] * chosen).sum(1)
    apart = (before + routed + layer.shared(normed) - after).abs().max().item()
    # transformers' norms and routers stay f32 in a model of f64
    assert apart < 1e-5 * max(1.0, after.abs().max().item()), f"the layer is not as transformers computes it: {apart}"
    product = weights * chosen.norm(dim=-1)
    change = (1.0 - F.cosine_similarity(before, before + routed, dim=-1)).clamp(min=0.0)
    slots, reap, easy_ep = (torch.zeros(layer.experts, dtype=torch.float64) for _ in range(3))
    slots.index_add_(0, experts.flatten(), torch.ones(experts.numel(), dtype=torch.float64))
    reap.index_add_(0, experts.flatten(), product.flatten())
    easy_ep.index_add_(0, experts.flatten(), (product * change[:, None]).flatten())
    return slots, reap / slots.clamp(min=1.0), easy_ep


def reference(folder):
    """layer number -> [slots, reap, easy-ep] over all texts."""
    config = json.loads((folder / "config.json").read_text())
    tensors = load_file(folder / "model.safetensors")
    model = transformers.AutoModelForCausalLM.from_pretrained(
        folder, dtype=torch.float64, attn_implementation="eager", experts_implementation="eager").eval()
    tokenizer = transformers.PreTrainedTokenizerFast(tokenizer_file=str(folder / "tokenizer.json"))
    seen = {}

    def keep(number, what, tensor):
        seen.setdefault((number, what), []).append(tensor.detach().reshape(-1, tensor.shape[-1]))

    def watch_norm(number):
        def hook(_, inputs, output):
            keep(number, "before", inputs[0])
            keep(number, "normed", output)
        return hook

    def watch_layer(number):
        return lambda _, __, output: keep(number, "after", output[0] if isinstance(output, tuple) else output)

    for number, block in enumerate(model.model.layers):
        block.post_attention_layernorm.register_forward_hook(watch_norm(number))
        block.register_forward_hook(watch_layer(number))
    for text in TEXTS:
        ids = tokenizer.encode(text, add_special_tokens=False)
        ids = [config["bos_token_id"], *ids, config["eos_token_id"]]
        with torch.no_grad():
            model(torch.tensor([ids]))
    found = {}
    for number in range(config["num_hidden_layers"]):
        if config["model_type"] == "deepseek_v2" and number < config["first_k_dense_replace"]:
            continue
        parts = [torch.cat(seen[number, what]) for what in ("before", "normed", "after")]
        found[number] = scores_of(Layer(config, tensors, number), *parts)
    return found


def analyse(program, folder, place, score):
    words = [program, "analyze", "--model", str(folder), "--json", "--device", "cpu",
             "--select-experts", "best", "--score", score, "--keep", "50%", "--out", str(place / "experts.json")]
    for i, text in enumerate(TEXTS):
        path = place / f"{i}.txt"
        path.write_text(text + "\n")
        words += ["--data", str(path)]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        sys.exit(done.stderr)
    layers = {layer["layer"]: layer for layer in json.loads(done.stdout)["overall"]["layers"]}
    return layers, json.loads((place / "experts.json").read_text())["keep"]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--program", default=str(ROOT / "build/release/bin/metier"))
    parser.add_argument("--models", nargs="*", type=pathlib.Path,
                        default=[ROOT / "share/models/tiny-deepseek-v2", ROOT / "share/models/tiny-mixtral"])
    arguments = parser.parse_args()
    worst = 0.0
    for folder in arguments.models:
        expected = reference(folder)
        for place, score in enumerate(("reap", "easy-ep"), start=1):
            with tempfile.TemporaryDirectory() as temporary:
                layers, kept = analyse(arguments.program, folder, pathlib.Path(temporary), score)
            assert sorted(layers) == sorted(expected), (sorted(layers), sorted(expected))
            for number, wanted in expected.items():
                assert layers[number]["load"] == wanted[0].tolist(), f"{folder.name}, layer {number}: other experts"
                got = torch.tensor(layers[number][score], dtype=torch.float64)
                apart = ((got - wanted[place]).abs().max() / wanted[place].max()).item()
                worst = max(worst, apart)
                assert apart < LIMIT, f"{folder.name}, layer {number}, {score}: {apart:.2e}"
                best = sorted(torch.topk(wanted[place], len(wanted[place]) // 2).indices.tolist())
                assert kept[str(number)] == best, f"{folder.name}, layer {number}, {score}: keeps {kept[str(number)]}"
            print(f"{folder.name:20} {score:8} {len(expected)} layers agree")
    print(f"reap and easy-ep: off by {worst:.1e} of a layer's largest score at the most")


if __name__ == "__main__":
    main()
