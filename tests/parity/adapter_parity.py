#!/usr/bin/env python3
"""Adapters and merged folders of metier in PEFT and transformers, on small random models.

Every architecture, every choice of what is adapted: `metier forward --save-adapter` writes an adapter in the default
layout, `metier adapter` prints the lines of Python that load it, these lines are run as they are, and the logits must
be those of `metier forward --adapter`. The layout vLLM takes is held against its rules and, name by name, against the
checkpoint: W + alpha/r B A. Rewritten in every layout and back an adapter has the same bytes. `metier train` with
share/configs and with loss-free biases prints lines that load what it trained. Merged folders give the same logits.

The first DeepSeek-MoE, which transformers has not, is model_deepseek.py, brought along by the model's folder.

An error is the largest difference of a logit over the largest change the adapter makes to one; 1e-4 is the limit.
Models are stored in f32 and in bf16; both are computed in f32.

Usage: adapter_parity.py [--program build/release/bin/metier] [--only TEXT] [--verbose]
       adapter_parity.py --survey [LAYOUT...]   # what this Python's transformers and PEFT make of each layout, by case
Needs PyTorch, transformers >= 5.22, peft >= 0.21 and safetensors; --survey takes any it can import.
"""
import argparse
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import warnings

CODE = tempfile.TemporaryDirectory()  # where transformers copies code that a model's folder brings along
os.environ["HF_MODULES_CACHE"] = CODE.name
try:
    import peft
    import torch
    import transformers
    from safetensors.torch import load_file, save_file
except ImportError as error:
    print(f"adapter_parity: needs a Python with torch, transformers, peft and safetensors: {error}", file=sys.stderr)
    sys.exit(77)

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
TOKENIZER = os.path.join(ROOT, "share", "models", "tiny-mixtral")
LIMIT = 1e-4
RANK, ALPHA = 3, 7.0
LAYOUTS = ("per-expert", "fused", "vllm")

COMMON = {"hidden_size": 24, "num_hidden_layers": 3, "num_attention_heads": 4, "vocab_size": 100,
          "max_position_embeddings": 64, "initializer_range": 0.2, "hidden_act": "silu", "tie_word_embeddings": False,
          "rms_norm_eps": 1e-5, "rope_theta": 10000.0, "dtype": "float32", "bos_token_id": 1, "eos_token_id": 2}
FINE = {"intermediate_size": 44, "moe_intermediate_size": 12, "n_routed_experts": 8, "n_shared_experts": 2,
        "num_experts_per_tok": 3, "first_k_dense_replace": 1, "moe_layer_freq": 1, "attention_bias": False}
LATENT = {"kv_lora_rank": 14, "qk_nope_head_dim": 10, "qk_rope_head_dim": 6, "v_head_dim": 12,
          "num_key_value_heads": 4, **FINE}
CONFIGS = {
    "deepseek": {"architectures": ["DeepseekForCausalLM"], "num_key_value_heads": 2, **FINE, "norm_topk_prob": False,
                 "scoring_func": "softmax", "rope_scaling": None},
    "deepseek_v2": {"architectures": ["DeepseekV2ForCausalLM"], **LATENT, "q_lora_rank": 12, "n_group": 1,
                    "topk_group": 1, "topk_method": "greedy", "routed_scaling_factor": 1.0, "norm_topk_prob": False,
                    "scoring_func": "softmax"},
    "deepseek_v3": {"architectures": ["DeepseekV3ForCausalLM"], **LATENT, "q_lora_rank": None, "n_group": 4,
                    "topk_group": 2, "topk_method": "noaux_tc", "routed_scaling_factor": 2.4, "norm_topk_prob": True,
                    "scoring_func": "sigmoid"},
    "glm4_moe_lite": {"architectures": ["Glm4MoeLiteForCausalLM"], **LATENT, "q_lora_rank": 12, "n_group": 4,
                      "topk_group": 2, "routed_scaling_factor": 1.8, "norm_topk_prob": True},
    "mixtral": {"architectures": ["MixtralForCausalLM"], "num_key_value_heads": 2, "intermediate_size": 20,
                "num_local_experts": 5, "num_experts_per_tok": 2, "sliding_window": None, "head_dim": 6},
    "phimoe": {"architectures": ["PhimoeForCausalLM"], "num_key_value_heads": 2, "intermediate_size": 20,
               "num_local_experts": 5, "num_experts_per_tok": 2, "sliding_window": None, "attention_bias": True,
               "lm_head_bias": True, "input_jitter_noise": 0.01, "router_jitter_noise": 0.01},
    "olmoe": {"architectures": ["OlmoeForCausalLM"], "num_key_value_heads": 4, "intermediate_size": 12,
              "num_experts": 7, "num_experts_per_tok": 3, "norm_topk_prob": False, "attention_bias": False},
    "qwen3_moe": {"architectures": ["Qwen3MoeForCausalLM"], "num_key_value_heads": 2, "head_dim": 8,
                  "intermediate_size": 40, "moe_intermediate_size": 12, "num_experts": 6, "num_experts_per_tok": 2,
                  "norm_topk_prob": True, "decoder_sparse_step": 1, "mlp_only_layers": [1], "attention_bias": False},
    "glm4_moe": {"architectures": ["Glm4MoeForCausalLM"], "num_key_value_heads": 2, "head_dim": 8, **FINE, "n_group": 4,
                 "topk_group": 2, "routed_scaling_factor": 2.4, "norm_topk_prob": True, "use_qk_norm": True},
    "dots1": {"architectures": ["Dots1ForCausalLM"], "num_key_value_heads": 2, "head_dim": 8, **FINE, "n_group": 4,
              "topk_group": 2, "routed_scaling_factor": 2.4, "norm_topk_prob": True, "sliding_window": None},
    "ernie4_5_moe": {"architectures": ["Ernie4_5_MoeForCausalLM"], "num_key_value_heads": 2, "head_dim": 8,
                     "intermediate_size": 44, "moe_intermediate_size": 12, "moe_num_experts": 8, "moe_k": 3,
                     "moe_num_shared_experts": 2, "moe_layer_start_index": 1},
    "gpt_oss": {"architectures": ["GptOssForCausalLM"], "num_key_value_heads": 2, "head_dim": 8, "intermediate_size": 12,
                "num_local_experts": 8, "num_experts_per_tok": 3, "sliding_window": 4, "swiglu_limit": 0.9},
    "qwen2_moe": {"architectures": ["Qwen2MoeForCausalLM"], "num_key_value_heads": 2, "intermediate_size": 40,
                  "moe_intermediate_size": 12, "shared_expert_intermediate_size": 20, "num_experts": 6,
                  "num_experts_per_tok": 2, "norm_topk_prob": False, "decoder_sparse_step": 1, "mlp_only_layers": [1]},
}
SHARED = ("deepseek", "deepseek_v2", "deepseek_v3", "glm4_moe_lite", "qwen2_moe", "glm4_moe", "dots1",
          "ernie4_5_moe")
DENSE = (*SHARED, "qwen3_moe")
# The shipped configs that write adapters, and a small model of their architecture.
SHIPPED = {"deepseek-moe-16b": "deepseek", "deepseek-v2-lite": "deepseek_v2", "moonlight-16b-a3b": "deepseek_v3",
           "mixtral-8x7b": "mixtral", "phi-3.5-moe": "phimoe", "finetune-tiny": "deepseek_v2",
           "gpt-oss-20b": "gpt_oss", "glm-4.5-air": "glm4_moe", "ernie-4.5-21b-a3b": "ernie4_5_moe"}


def maps_of(name):
    """Block, gate, up and down of the routed experts, as the checkpoint calls them."""
    if name in ("mixtral", "phimoe"):
        return "block_sparse_moe", "w1", "w3", "w2"
    return "mlp", "gate_proj", "up_proj", "down_proj"


def targets_of(name):
    """(what, targets): first the parts, all of them together, then choices among their maps."""
    block, gate, up, down = maps_of(name)
    every = "attention,router,routed_experts"
    every += ",shared_experts" if name in SHARED else ""
    every += ",dense_mlp" if name in DENSE else ""
    yield "router", "router"
    yield "experts", "routed_experts"
    if name in SHARED:
        yield "shared", "shared_experts"
    yield "attention", "attention"
    yield "all", every
    yield "head too", every + ",lm_head"
    yield "head", "lm_head"
    if name in DENSE:
        yield "dense", "dense_mlp"
    if name in SHARED:
        yield "router, shared", "router,shared_experts"
    if name == "qwen2_moe":
        yield "shared gate", "shared_expert_gate"
    yield "router, experts", "router,routed_experts"
    yield "words", "o_proj,kv_b_proj" if "kv_lora_rank" in CONFIGS[name] else "q_proj,v_proj"
    yield "one layer", "model.layers.2.*"
    yield "gate", f"*.experts.*.{gate},model.layers.1.self_attn.o_proj"
    yield "up", f"*.experts.*.{up}"
    yield "down", f"*.experts.*.{down}"
    yield "gate, down", f"*.experts.*.{gate},model.layers.2.{block}.experts.*.{down}"
    yield "some experts", f"model.layers.0.{block}.experts.2.*,model.layers.2.{block}.experts.[13].*" \
        if name not in DENSE else f"model.layers.2.{block}.experts.[135].*"
    yield "one map", f"model.layers.2.{block}.experts.1.{up}"


class Metier:
    def __init__(self, program, folder):
        self.program, self.folder, self.count = program, folder, 0

    def run(self, *arguments, **options):
        command = [self.program, *arguments]
        result = subprocess.run(command, capture_output=True, text=True, check=False, **options)
        if result.returncode != 0:
            raise RuntimeError(f"{' '.join(command)}: {result.stderr.strip()}")
        return result.stdout

    def new(self, what):
        self.count += 1
        return os.path.join(self.folder, f"{self.count}-{re.sub('[^a-z0-9]+', '-', what)}")

    def logits(self, model, ids, *options):
        out = os.path.join(self.folder, "out.safetensors")
        self.run("forward", model, "--ids", ",".join(map(str, ids)), "--out", out, "--threads", "1", *options)
        return load_file(out)["logits"]

    def write(self, model, ids, targets, layout, what):
        adapter = self.new(what)
        drawn = self.logits(model, ids, "--grads", "--train", "lora", "--targets", targets, "--rank", str(RANK),
                            "--alpha", str(ALPHA), "--lora-b-std", "0.2", "--seed", "4", "--save-adapter", adapter,
                            "--adapter-layout", layout)
        if not torch.equal(drawn, self.logits(model, ids, "--adapter", adapter)):
            raise RuntimeError(f"{what}: read back it gives other logits")
        return adapter, drawn

    def rewrite(self, model, adapter, layout):
        out = self.new(layout)
        self.run("adapter", adapter, "--model", model, "--layout", layout, "--out", out)
        return out


def make_model(metier, name, dtype="f32", **changes):
    config = {"model_type": name, **COMMON, **CONFIGS[name], **changes}
    if dtype == "bf16":
        config["dtype"] = "bfloat16"
    folder, path = metier.new(name), os.path.join(metier.folder, "config.json")
    with open(path, "w", encoding="utf-8") as file:
        json.dump(config, file, indent=1)
    metier.run("init", "--config", path, "--seed", "3", "--dtype", dtype, "--out", folder)
    weights = os.path.join(folder, "model.safetensors")
    tensors = load_file(weights)
    generator = torch.Generator().manual_seed(5)
    for tensor_name, value in tensors.items():
        if tensor_name.endswith("e_score_correction_bias"):
            tensors[tensor_name] = torch.randn(value.shape, generator=generator) * 0.1
    save_file(tensors, weights, {"format": "pt"})
    for file_name in ("tokenizer.json", "tokenizer_config.json", "generation_config.json"):
        shutil.copy(os.path.join(TOKENIZER, file_name), folder)
    if name == "deepseek":
        for file_name in ("model_deepseek.py", "modeling_deepseek.py"):
            shutil.copy(os.path.join(HERE, file_name), folder)
        config["auto_map"] = {"AutoConfig": "modeling_deepseek.DeepseekConfig",
                              "AutoModelForCausalLM": "modeling_deepseek.DeepseekForCausalLM"}
        with open(os.path.join(folder, "config.json"), "w", encoding="utf-8") as file:
            json.dump(config, file, indent=1)
    return folder


def draw_ids(count=40):
    generator = torch.Generator().manual_seed(9)
    return torch.randint(0, COMMON["vocab_size"], (count,), generator=generator).tolist()


def printed_lines(text):
    """The block of Python at the end of what metier printed: comments, then three lines."""
    lines = text.splitlines()
    code = [line for line in lines if line and not line.startswith("#")][-3:]
    if not code[0].startswith("import ") or lines[-3:] != code:
        raise RuntimeError(f"not three lines of Python at the end of: {text}")
    return "\n".join(code)


def run_lines(code, ids):
    """Runs printed lines, with PEFT's warnings about keys, patterns and targets as errors."""
    names = {}
    code = code.replace('")', '", dtype="float32")', 1).replace('", trust', '", dtype="float32", trust', 1)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        exec(code, names)  # pylint: disable=exec-used
    # Without a module among the targets nothing keeps PEFT from warning of patterns for parameters, which it applies.
    patterns = ("pattern",) if names["model"].peft_config["default"].target_modules else ()
    for warning in caught:
        text = str(warning.message)
        if any(word in text for word in ("missing", "nexpected", "were set but no", *patterns)):
            raise RuntimeError(f"PEFT warns: {text[:300]}")
    with torch.no_grad():
        return names["model"](torch.tensor([ids])).logits[0]


def load(folder):
    return transformers.AutoModelForCausalLM.from_pretrained(
        folder, dtype=torch.float32, trust_remote_code=True).eval()


def difference(got, want, base):
    """Of a logit, over what the adapter changes."""
    effect = float((want - base).abs().max())
    if effect < 1e-2:
        raise RuntimeError(f"the adapter changes logits by {effect:.1e} only")
    return float((got - want).abs().max()) / effect


def vllm_logits(metier, folder, adapter, ids):
    """What vLLM's rules make of an adapter: W + alpha/r B A under the checkpoint's names, all experts or none."""
    with open(os.path.join(adapter, "adapter_config.json"), encoding="utf-8") as file:
        config = json.load(file)
    refused = [key for key in ("rank_pattern", "alpha_pattern", "modules_to_save", "target_parameters", "use_dora",
                               "use_rslora") if config.get(key)]
    if refused or config["bias"] != "none":
        raise RuntimeError(f"vllm: the config has {refused}")
    stored = load_file(os.path.join(adapter, "adapter_model.safetensors"))
    tensors = load_file(os.path.join(folder, "model.safetensors"))
    experts = {}
    for name in stored:
        match = re.fullmatch(r"base_model\.model\.(.+)\.lora_(A|B)\.weight", name)
        if match.group(2) == "B":
            continue
        module = match.group(1)
        a, b = stored[name], stored[name.replace(".lora_A.", ".lora_B.")]
        if a.shape[0] != config["r"] or b.shape[1] != config["r"]:
            raise RuntimeError(f"vllm: {module} has another rank")
        weight = tensors[module + ".weight"]
        change = config["lora_alpha"] / config["r"] * (b.double() @ a.double())
        tensors[module + ".weight"] = (weight.double() + change).to(torch.float32)
        routed = re.fullmatch(r"(.*\.experts)\.(\d+)\.(\w+)", module)
        if routed:
            experts.setdefault(routed.group(1), set()).add((int(routed.group(2)), routed.group(3)))
    for block, found in experts.items():
        every = {(int(m.group(1)), m.group(2)) for m in (
            re.fullmatch(re.escape(block) + r"\.(\d+)\.(\w+)\.weight", name) for name in tensors) if m}
        if found != every:
            raise RuntimeError(f"vllm: {block} lacks {sorted(every - found)}")
    merged = metier.new("applied")
    shutil.copytree(folder, merged)
    save_file(tensors, os.path.join(merged, "model.safetensors"), {"format": "pt"})
    with torch.no_grad():
        return load(merged)(torch.tensor([ids])).logits[0]


def check_layouts(metier, report, case, folder, adapter, ids, want, base):
    """Every layout, rewritten from the default one, has the same pairs; back again it has the same bytes."""
    for layout in LAYOUTS:
        if layout == "fused" and case.startswith("deepseek "):
            continue
        written = metier.rewrite(folder, adapter, layout)
        if not torch.equal(metier.logits(folder, ids, "--adapter", written), want):
            raise RuntimeError(f"{case}: in the layout {layout} it is another adapter")
        if layout == "vllm" and not case.startswith("gpt_oss "):  # its stacks have names of their own, not looked up
            report(case, "vllm by its rules", difference(vllm_logits(metier, folder, written, ids), want, base))
        back = metier.rewrite(folder, written, "auto")
        for file in os.listdir(adapter):
            with open(os.path.join(adapter, file), "rb") as one, open(os.path.join(back, file), "rb") as other:
                if one.read() != other.read():
                    raise RuntimeError(f"{case}: by way of {layout} {file} has other bytes")


def check_merged(metier, report, case, folder, adapter, ids, want, base):
    merged, narrow = metier.new("merged"), metier.new("narrow")
    metier.run("merge", folder, "--adapter", adapter, "--out", merged, "--verify")
    with torch.no_grad():
        report(case, "merged, transformers", difference(load(merged)(torch.tensor([ids])).logits[0], want, base))
    report(case, "merged, metier", difference(metier.logits(merged, ids), want, base))
    if not os.path.exists(os.path.join(merged, "generation_config.json")):
        raise RuntimeError(f"{case}: generation_config.json is not carried over")
    metier.run("merge", folder, "--adapter", adapter, "--out", narrow, "--dtype", "bf16")
    exact, rounded = (load_file(os.path.join(path, "model.safetensors")) for path in (merged, narrow))
    for name, value in exact.items():
        expected = value if name.endswith("e_score_correction_bias") else value.bfloat16()
        if not torch.equal(rounded[name], expected):
            raise RuntimeError(f"{case}: {name} in bf16 is not the rounded f32")
    with open(os.path.join(narrow, "config.json"), encoding="utf-8") as file:
        if json.load(file)["dtype"] != "bfloat16":
            raise RuntimeError(f"{case}: the merged config still has the old dtype")


def check_return(metier, report, case, folder, adapter, ids, want, base):
    """PEFT saves the adapter again, in its own way; it is read here, and rewritten, with rsLoRA's scale, too."""
    again = metier.new("again")
    model = peft.PeftModel.from_pretrained(load(folder), adapter)
    model.save_pretrained(again)
    with torch.no_grad():
        report(case, "merged by PEFT", difference(model.merge_and_unload()(torch.tensor([ids])).logits[0], want, base))
    report(case, "saved by PEFT", difference(metier.logits(folder, ids, "--adapter", again), want, base))
    path = os.path.join(again, "adapter_config.json")
    with open(path, encoding="utf-8") as file:
        config = json.load(file)
    config["use_rslora"] = True
    with open(path, "w", encoding="utf-8") as file:
        json.dump(config, file)
    ours = metier.logits(folder, ids, "--adapter", again)
    report(case, "rsLoRA", difference(run_lines(printed_lines(metier.run("adapter", again, "--model", folder)), ids),
                                      ours, base))
    rewritten = metier.rewrite(folder, again, "auto")
    lines = printed_lines(metier.run("adapter", rewritten, "--model", folder))
    report(case, "rsLoRA, rewritten", difference(run_lines(lines, ids), ours, base))


def check_case(metier, report, folder, case, targets, ids, base):
    adapter, want = metier.write(folder, ids, targets, "auto", case)
    lines = printed_lines(metier.run("adapter", adapter, "--model", folder))
    report(case, "PEFT", difference(run_lines(lines, ids), want, base))
    check_layouts(metier, report, case, folder, adapter, ids, want, base)
    return adapter, want


def check(metier, report, name):
    ids = draw_ids()
    folder = make_model(metier, name)
    with torch.no_grad():
        base = load(folder)(torch.tensor([ids])).logits[0]
    ours = metier.logits(folder, ids)
    report(f"{name} base", "logits", float((ours - base).abs().max() / base.pow(2).mean().sqrt()))
    for what, targets in targets_of(name):
        case = f"{name} {what}"
        adapter, want = check_case(metier, report, folder, case, targets, ids, base)
        if what in ("all", "head too", "some experts"):
            check_merged(metier, report, case, folder, adapter, ids, want, base)
        if what == "all":
            check_return(metier, report, case, folder, adapter, ids, want, base)
    # The first three parts of the table with weights of 16 bits; and what the model's own variants change.
    variants = [("bf16", {}, "bf16")]
    if name not in ("deepseek", "phimoe"):  # these are never tied
        variants.append(("tied", {"tie_word_embeddings": True}, "f32"))
    if "kv_lora_rank" in CONFIGS[name]:
        variants.append(("queries", {"q_lora_rank": 12 if CONFIGS[name]["q_lora_rank"] is None else None}, "f32"))
    for variant, changes, dtype in variants:
        folder = make_model(metier, name, dtype, **changes)
        base = metier.logits(folder, ids)
        every = dict(targets_of(name))["all"]
        check_case(metier, report, folder, f"{name} {variant}", every, ids, base)


def check_training(metier, report, config, name):
    """A shipped config with a small model, some steps; attention with dropout; and, where it has them, moving biases."""
    ids = draw_ids()
    folder = make_model(metier, name)
    base = metier.logits(folder, ids)
    rows = os.path.join(metier.folder, "rows.jsonl")
    with open(rows, "w", encoding="utf-8") as file:
        for i in range(64):
            file.write(json.dumps({"instruction": f"add {i} and {i % 7}", "output": f"{i + i % 7}"}) + "\n")
    variants = {"as shipped": [],
                "attention, dropout": ["targets=attention", "lora.dropout=0.3", "method=none", "objective.alpha=0",
                                       "objective.beta=0", "objective.gamma=0"]}
    if name == "deepseek_v3":
        variants["loss-free"] = ["method=loss-free", "objective.bias_rate=0.2"]
    for variant, words in variants.items():
        out = metier.new("run")
        text = metier.run("train", os.path.join(ROOT, "share", "configs", config + ".yaml"), f"model={folder}",
                          f"out={out}", f"data.path={rows}", "data.template=plain", "data.max_length=60", "steps=6",
                          "optimizer.lr=3e-2", "optimizer.warmup=0", "batch.examples=8", "batch.tokens=512",
                          "evaluation.split=0", "--threads=1", "--quiet", *words)
        want = metier.logits(folder, ids, "--adapter", os.path.join(out, "adapter"))
        report(f"{name} {config}", f"trained, {variant}", difference(run_lines(printed_lines(text), ids), want, base))


def survey(metier, name, layouts):
    """What this Python makes of every layout: the error, or the kind of refusal."""
    ids = draw_ids()
    folder = make_model(metier, name)
    base = metier.logits(folder, ids)
    for what, targets in targets_of(name):
        cells = []
        for layout in layouts:
            try:
                adapter, want = metier.write(folder, ids, targets, layout, f"{name} {what}")
                model = peft.PeftModel.from_pretrained(load(folder), adapter).eval()
                with torch.no_grad():
                    error = difference(model(torch.tensor([ids])).logits[0], want, base)
                cells.append(f"{error:.1e}" + ("" if error <= LIMIT else " WRONG"))
            except Exception as error:  # pylint: disable=broad-except
                reason = str(error).splitlines()[0] if str(error) else ""
                cells.append(f"{type(error).__name__}: {reason}"[:60])
        print(f"{name:12} {what:16} " + " ".join(f"{layout}={cell:22}" for layout, cell in zip(layouts, cells)),
              flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--program", default=os.path.join(ROOT, "build/release/bin/metier"))
    parser.add_argument("--only", default="")
    parser.add_argument("--verbose", action="store_true")
    parser.add_argument("--survey", nargs="*", metavar="LAYOUT")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()
    print(f"transformers {transformers.__version__}, PEFT {peft.__version__}")
    rows, failures = {}, []

    def report(case, what, error):
        rows[(case, what)] = error
        if arguments.verbose:
            print(f"{case}: {what}: {error:.1e}", flush=True)
        if not error <= LIMIT:
            failures.append(f"{case}: {what}: {error:.2e}")
            print(f"FAILED {failures[-1]}", flush=True)

    def guarded(name, function, *rest):
        with tempfile.TemporaryDirectory() as folder:
            try:
                function(Metier(os.path.abspath(arguments.program), folder), *rest)
            except RuntimeError as error:
                failures.append(f"{name}: {error}")
                print(f"FAILED {failures[-1]}", flush=True)

    for name in CONFIGS:
        if arguments.only and not name.startswith(arguments.only):
            continue
        if arguments.survey is not None:
            guarded(name, survey, name, arguments.survey or ["auto", "per-expert", "vllm"])
            continue
        guarded(name, check, report, name)
        for config in (c for c, small in SHIPPED.items() if small == name):
            guarded(f"{name} {config}", check_training, report, config, name)
    for (case, what), error in rows.items():
        print(f"{case:30} {what:28} {error:9.1e}")
    print(f"{len(rows)} rows, {len(failures)} failures")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
