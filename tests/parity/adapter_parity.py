#!/usr/bin/env python3
"""Adapters and merged folders of metier in PEFT and transformers, on small random models.

For every architecture transformers has, both layouts, and several choices of what is adapted: `metier forward
--save-adapter` writes an adapter, PEFT loads it, and the logits must be those of `metier forward --adapter`; every
tensor of the file must find its place in PEFT's model. Then `metier merge` writes a folder, which transformers loads
and which must give the same logits; and a folder in bf16, which must hold exactly the merged weights, rounded.

Usage: adapter_parity.py [--program build/release/bin/metier] [--only TEXT] [--verbose]
Needs PyTorch, transformers >= 5.15, peft >= 0.19 and safetensors. Errors are the largest difference over the root mean
square of the reference's logits; 1e-4 is the limit.
"""
import argparse
import json
import os
import subprocess
import sys
import tempfile
import warnings

try:
    import torch
    import transformers
    from peft import PeftModel
    from safetensors import safe_open
    from safetensors.torch import load_file, save_file
except ImportError as error:
    print(f"adapter_parity: needs a Python with torch, transformers, peft and safetensors: {error}", file=sys.stderr)
    sys.exit(77)

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
LIMIT = 1e-4
RANK, ALPHA = 3, 7.0

COMMON = {"hidden_size": 24, "num_hidden_layers": 3, "num_attention_heads": 4, "vocab_size": 61,
          "max_position_embeddings": 64, "initializer_range": 0.2, "hidden_act": "silu", "tie_word_embeddings": False,
          "rms_norm_eps": 1e-5, "rope_theta": 10000.0, "dtype": "float32", "bos_token_id": 1, "eos_token_id": 2}
LATENT = {"kv_lora_rank": 14, "qk_nope_head_dim": 10, "qk_rope_head_dim": 6, "v_head_dim": 12,
          "num_key_value_heads": 4, "intermediate_size": 44, "moe_intermediate_size": 10, "n_routed_experts": 8,
          "n_shared_experts": 2, "num_experts_per_tok": 3, "first_k_dense_replace": 1, "attention_bias": False}
CONFIGS = {
    "mixtral": {"architectures": ["MixtralForCausalLM"], "num_key_value_heads": 2, "intermediate_size": 18,
                "num_local_experts": 5, "num_experts_per_tok": 2, "sliding_window": None, "head_dim": 6},
    "qwen3_moe": {"architectures": ["Qwen3MoeForCausalLM"], "num_key_value_heads": 2, "head_dim": 8,
                  "intermediate_size": 40, "moe_intermediate_size": 10, "num_experts": 6, "num_experts_per_tok": 2,
                  "norm_topk_prob": True, "decoder_sparse_step": 1, "mlp_only_layers": [], "attention_bias": False},
    "olmoe": {"architectures": ["OlmoeForCausalLM"], "num_key_value_heads": 4, "intermediate_size": 10,
              "num_experts": 7, "num_experts_per_tok": 3, "norm_topk_prob": False, "attention_bias": False},
    "deepseek_v2": {"architectures": ["DeepseekV2ForCausalLM"], **LATENT, "q_lora_rank": 12, "n_group": 1,
                    "topk_group": 1, "topk_method": "greedy", "routed_scaling_factor": 1.0, "norm_topk_prob": False,
                    "scoring_func": "softmax"},
    "deepseek_v3": {"architectures": ["DeepseekV3ForCausalLM"], **LATENT, "q_lora_rank": None, "n_group": 4,
                    "topk_group": 2, "topk_method": "noaux_tc", "routed_scaling_factor": 2.4, "norm_topk_prob": True,
                    "scoring_func": "sigmoid"},
    "phimoe": {"architectures": ["PhimoeForCausalLM"], "num_key_value_heads": 2, "intermediate_size": 18,
               "num_local_experts": 5, "num_experts_per_tok": 2, "sliding_window": None, "attention_bias": True,
               "lm_head_bias": True, "input_jitter_noise": 0.01, "router_jitter_noise": 0.01, "hidden_size": 24},
}
# What is adapted; and in the per-expert layout, what PEFT can load of it with transformers 5.
EVERYTHING = "attention,router,routed_experts,shared_experts,dense_mlp,lm_head"
SHARED = ("deepseek_v2", "deepseek_v3")


def targets_of(name, layout):
    shared = ",shared_experts,dense_mlp" if name in SHARED else ""
    if layout == "fused":
        block = "block_sparse_moe" if name in ("mixtral", "phimoe") else "mlp"
        down = "w2" if block != "mlp" else "down_proj"
        gate = "w1" if block != "mlp" else "gate_proj"
        yield "everything", "attention,router,routed_experts,lm_head" + shared
        yield "experts", "routed_experts"
        yield "router", "router"
        yield "down", f"*.experts.*.{down}"
        yield "gate", f"*.experts.*.{gate},model.layers.1.self_attn.o_proj"
        yield "esft", f"model.layers.1.{block}.experts.2.*,model.layers.2.{block}.experts.[13].*"
        if shared:
            yield "shared", "shared_experts,dense_mlp"
    else:
        # PEFT's own conversion knows neither phimoe nor that shared experts have the same names as routed ones.
        if name != "phimoe":
            yield "everything", "attention,router,routed_experts,lm_head"
            yield "experts", "routed_experts"
        yield "attention", "attention"


class Metier:
    def __init__(self, program, folder):
        self.program, self.folder = program, folder

    def run(self, *arguments):
        command = [self.program, *arguments]
        result = subprocess.run(command, capture_output=True, text=True, check=False)
        if result.returncode != 0:
            raise RuntimeError(f"{' '.join(command)}: {result.stderr.strip()}")
        return result.stdout

    def logits(self, model, ids, *options):
        out = os.path.join(self.folder, "out.safetensors")
        self.run("forward", model, "--ids", ",".join(map(str, ids)), "--out", out, "--threads", "1", *options)
        return load_file(out)["logits"]


def make_model(metier, name, folder):
    config = {"model_type": name, **COMMON, **CONFIGS[name]}
    path = os.path.join(metier.folder, "config.json")
    with open(path, "w", encoding="utf-8") as file:
        json.dump(config, file, indent=1)
    metier.run("init", "--config", path, "--seed", "3", "--dtype", "f32", "--out", folder)
    weights = os.path.join(folder, "model.safetensors")
    tensors = load_file(weights)
    generator = torch.Generator().manual_seed(5)
    for tensor_name, value in tensors.items():
        if tensor_name.endswith("e_score_correction_bias"):
            tensors[tensor_name] = torch.randn(value.shape, generator=generator) * 0.1
    save_file(tensors, weights, {"format": "pt"})
    with open(os.path.join(folder, "generation_config.json"), "w", encoding="utf-8") as file:
        json.dump({"bos_token_id": 1, "eos_token_id": 2}, file)


def load(folder):
    return transformers.AutoModelForCausalLM.from_pretrained(
        folder, dtype=torch.float32, attn_implementation="eager", experts_implementation="eager").eval()


def difference(got, want):
    return float((got - want).abs().max() / want.pow(2).mean().sqrt())


def peft_logits(folder, adapter, ids):
    """With PEFT's own warnings about keys that are missing or have no place as errors."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        model = PeftModel.from_pretrained(load(folder), adapter).eval()
    for warning in caught:
        text = str(warning.message)
        if "missing" in text or "Unexpected" in text or "unexpected" in text:
            raise RuntimeError(f"PEFT warns: {text[:300]}")
    stored = load_file(os.path.join(adapter, "adapter_model.safetensors"))
    state = {name: value for name, value in model.state_dict().items() if ".lora_" in name}
    elements, own = sum(v.numel() for v in stored.values()), sum(v.numel() for v in state.values())
    with safe_open(os.path.join(adapter, "adapter_model.safetensors"), "pt") as file:
        fused = file.metadata()["metier.layout"] == "fused"
    if fused and (elements != own or len(stored) != len(state)):
        raise RuntimeError(f"the adapter has {elements} numbers, PEFT {own}")
    with torch.no_grad():
        return model(torch.tensor([ids])).logits[0]


def check_merged(metier, report, case, folder, adapter, ids, want):
    merged, narrow = os.path.join(metier.folder, "merged"), os.path.join(metier.folder, "narrow")
    for path in (merged, narrow):
        subprocess.run(["rm", "-rf", path], check=True)
    metier.run("merge", folder, "--adapter", adapter, "--out", merged, "--verify")
    with torch.no_grad():
        report(case, "merged, transformers", difference(load(merged)(torch.tensor([ids])).logits[0], want))
    report(case, "merged, metier", difference(metier.logits(merged, ids), want))
    if not os.path.exists(os.path.join(merged, "generation_config.json")):
        raise RuntimeError(f"{case}: generation_config.json is not carried over")
    metier.run("merge", folder, "--adapter", adapter, "--out", narrow, "--dtype", "bf16")
    exact, rounded = load_file(os.path.join(merged, "model.safetensors")), load_file(
        os.path.join(narrow, "model.safetensors"))
    for name, value in exact.items():
        expected = value if name.endswith("e_score_correction_bias") else value.bfloat16()
        if not torch.equal(rounded[name], expected):
            raise RuntimeError(f"{case}: {name} in bf16 is not the rounded f32")
    with open(os.path.join(narrow, "config.json"), encoding="utf-8") as file:
        if json.load(file)["dtype"] != "bfloat16":
            raise RuntimeError(f"{case}: the merged config still has the old dtype")


def check(metier, report, name):
    folder = os.path.join(metier.folder, name)
    make_model(metier, name, folder)
    generator = torch.Generator().manual_seed(9)
    ids = torch.randint(0, COMMON["vocab_size"], (40,), generator=generator).tolist()
    with torch.no_grad():
        base = load(folder)(torch.tensor([ids])).logits[0]
    report(f"{name} base", "logits", difference(metier.logits(folder, ids), base))
    for layout in ("fused", "per-expert"):
        for what, targets in targets_of(name, layout):
            case = f"{name} {layout} {what}"
            adapter = os.path.join(metier.folder, case.replace(" ", "-"))
            drawn = metier.logits(folder, ids, "--grads", "--train", "lora", "--targets", targets, "--rank", str(RANK),
                                  "--alpha", str(ALPHA), "--lora-b-std", "0.2", "--seed", "4", "--save-adapter",
                                  adapter, "--adapter-layout", layout)
            read = metier.logits(folder, ids, "--adapter", adapter)
            if not torch.equal(drawn, read):
                raise RuntimeError(f"{case}: read back it gives other logits")
            if difference(read, base) < 1e-2:
                raise RuntimeError(f"{case}: the adapter changes nothing")
            report(case, "PEFT", difference(peft_logits(folder, adapter, ids), read))
            check_merged(metier, report, case, folder, adapter, ids, read)
            if what == "everything":
                check_return(metier, report, case, folder, adapter, ids, read)


def check_return(metier, report, case, folder, adapter, ids, want):
    """PEFT saves the adapter again, in its own way; it is read here."""
    again = adapter + "-again"
    model = PeftModel.from_pretrained(load(folder), adapter)
    model.save_pretrained(again)
    report(case, "saved by PEFT", difference(metier.logits(folder, ids, "--adapter", again), want))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--program", default=os.path.join(ROOT, "build/release/bin/metier"))
    parser.add_argument("--only", default="")
    parser.add_argument("--verbose", action="store_true")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()
    worst, failures = {}, []

    def report(case, what, error):
        key = (case.split()[0], case.split()[1], what)
        worst[key] = max(worst.get(key, 0.0), error)
        if arguments.verbose:
            print(f"{case}: {what}: {error:.1e}", flush=True)
        if not error <= LIMIT:
            failures.append(f"{case}: {what}: {error:.2e}")
            print(f"FAILED {failures[-1]}", flush=True)

    for name in CONFIGS:
        if arguments.only not in name:
            continue
        with tempfile.TemporaryDirectory() as folder:
            try:
                check(Metier(arguments.program, folder), report, name)
            except RuntimeError as error:
                failures.append(f"{name}: {error}")
                print(f"FAILED {failures[-1]}", flush=True)
    for (name, layout, what), error in worst.items():
        print(f"{name:12} {layout:11} {what:22} {error:9.1e}")
    print(f"{len(worst)} rows, {len(failures)} failures")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
