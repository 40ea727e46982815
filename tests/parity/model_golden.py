#!/usr/bin/env python3
"""Makes tests/model/golden: tiny checkpoints of the architectures, and what PyTorch says of them.

NAME/config.json, NAME/model.safetensors   as published checkpoints are
NAME/CASE.safetensors                      what one step gives; its metadata says how: train=full or lora, alpha of
                                           LoRA, and method, a method of the objective with its keys
    ids [T], lengths [B]  i32              the packed sequences
    loss                  f64              mean cross-entropy of the next ids, plus the objective
    logits [T,V]
    hidden.L [T,d]                         leaving layer L; full only
    routing.L [T,n]                        weight of every expert for every token, 0 where not chosen; full only
    param.NAME                             LoRA's pairs, under PEFT's names
    grad.NAME                              gradients of some of the tensors that learn

Usage: model_golden.py; needs what model_parity.py needs.
"""
import os
import shutil
import sys

try:
    import numpy
    import torch
    import transformers
    from safetensors.torch import save_file
except ImportError as error:
    print(f"model_golden: needs a Python with torch, transformers and safetensors: {error}", file=sys.stderr)
    sys.exit(77)

import model_configs as configs
import objective_reference as objective
from model_parity import ROOT, draw_sequences, gradients_of, leaves_of, linear_maps, pair_gradients
from model_reference import Model, cross_entropy

FOLDER = os.path.join(ROOT, "tests", "model", "golden")
SEED = 11
RANK, ALPHA = 2, 3.0
LENGTHS = (5, 1, 7)

HEADS = {"hidden_size": 12, "num_attention_heads": 3, "num_key_value_heads": 1}
LATENT = {"hidden_size": 12, "num_attention_heads": 2, "num_key_value_heads": 2, "kv_lora_rank": 10,
          "qk_nope_head_dim": 6, "qk_rope_head_dim": 4, "v_head_dim": 8, "intermediate_size": 20,
          "moe_intermediate_size": 6, "num_hidden_layers": 2}
MODELS = {  # name: architecture, variant, type of the weights, what makes it tiny
    "deepseek": ("deepseek", 1, torch.float32, {**HEADS, "intermediate_size": 20, "moe_intermediate_size": 6,
                                                "n_routed_experts": 5, "num_hidden_layers": 3}),
    "deepseek_v2": ("deepseek_v2", 1, torch.float32, {**LATENT, "q_lora_rank": 12}),
    "deepseek_v2-lite": ("deepseek_v2", 0, torch.bfloat16, LATENT),
    "deepseek_v3": ("deepseek_v3", 1, torch.float32, {**LATENT, "q_lora_rank": 12}),
    "mixtral": ("mixtral", 1, torch.float32, {**HEADS, "intermediate_size": 12, "num_local_experts": 5}),
    "phimoe": ("phimoe", 1, torch.float32, {**HEADS, "intermediate_size": 12, "num_local_experts": 5,
                                            "lm_head_bias": True}),
    "olmoe": ("olmoe", 1, torch.float32, {**HEADS, "intermediate_size": 6, "num_experts": 7}),
    "qwen3_moe": ("qwen3_moe", 1, torch.bfloat16, {**HEADS, "head_dim": 6, "intermediate_size": 20,
                                                  "moe_intermediate_size": 6, "num_experts": 7}),
    "glm4_moe_lite": ("glm4_moe_lite", 1, torch.float32, {**LATENT, "q_lora_rank": 12,
                                                          "mlp_layer_types": ["dense", "sparse"]}),
    "qwen2_moe": ("qwen2_moe", 1, torch.float32, {**HEADS, "intermediate_size": 20, "moe_intermediate_size": 6,
                                                 "shared_expert_intermediate_size": 10, "num_experts": 7}),
    "glm4_moe": ("glm4_moe", 1, torch.float32, {**HEADS, "head_dim": 8, "intermediate_size": 20,
                                                "moe_intermediate_size": 6, "first_k_dense_replace": 1,
                                                "num_hidden_layers": 2, "partial_rotary_factor": 0.5}),
    "dots1": ("dots1", 1, torch.float32, {**HEADS, "head_dim": 6, "intermediate_size": 20, "moe_intermediate_size": 6,
                                          "first_k_dense_replace": 1, "num_hidden_layers": 2}),
    "ernie4_5_moe": ("ernie4_5_moe", 1, torch.float32, {**HEADS, "head_dim": 8, "intermediate_size": 20,
                                                        "moe_intermediate_size": 6, "moe_num_experts": 7,
                                                        "num_hidden_layers": 3, "moe_layer_end_index": -1}),
    "gpt_oss": ("gpt_oss", 0, torch.float32, {**HEADS, "head_dim": 8, "intermediate_size": 12, "num_local_experts": 5,
                                              "num_hidden_layers": 2, "sliding_window": 3}),
}
METHODS = {"metier": {"c_o": 300.0, "c_v": 100.0}, "ernie": {"lambda_orth": 3.0, "zeta": 0.3},
           "paper-code": {"beta": 10.0, "gamma": 10.0}, "erc": {"lambda_erc": 10.0, "erc_alpha": 0.8},
           "intra-cross": {"lambda_sp": 3.0, "lambda_cp": 3.0}}


def is_kept(name, last_layer):
    """Gradients worth their bytes: those of the last layer's first experts stand for all experts."""
    if ".experts." in name:
        return f".layers.{last_layer}." in name and name.split(".experts.")[1].split(".")[0] in ("0", "1")
    # Attention below is seen through the embedding's gradient; a dense MLP is nowhere else.
    return ".self_attn." not in name or f".layers.{last_layer}." in name


def routing_of(captured):
    return torch.zeros_like(captured.logits).scatter(1, captured.experts, captured.weights)


def write_case(model, case, run, loss, gradients, sequences, params=None, **metadata):
    last_layer = model.config["num_hidden_layers"] - 1
    tensors = {"ids": torch.tensor([i for ids in sequences for i in ids], dtype=torch.int32),
               "lengths": torch.tensor([len(ids) for ids in sequences], dtype=torch.int32),
               "loss": loss.detach().double(), "logits": run.logits}
    if case == "full":
        tensors.update({f"hidden.{layer}": hidden for layer, hidden in enumerate(run.hidden)})
        tensors.update({f"routing.{layer}": routing_of(captured) for layer, captured in run.routers.items()})
    tensors.update({f"param.{name}": value for name, value in (params or {}).items()})
    tensors.update({f"grad.{name}": value for name, value in gradients.items() if is_kept(name, last_layer)})
    tensors = {name: value.detach().contiguous() for name, value in tensors.items()}
    save_file(tensors, os.path.join(model.folder, f"{case}.safetensors"), metadata=metadata)


def learning(leaves):
    return {name: leaf for name, leaf in leaves.items() if leaf.requires_grad}


def make_full(model, tensors, sequences):
    leaves = leaves_of(tensors)
    run = model.run(leaves, sequences)
    loss = cross_entropy(run.logits, sequences)
    write_case(model, "full", run, loss, gradients_of(loss, learning(leaves)), sequences, train="full")


def make_lora(model, tensors, sequences, generator):
    """A pair on every linear layer that is no expert, and on the experts whose gradients are kept."""
    last_layer = model.config["num_hidden_layers"] - 1
    pairs, effective, params = {}, {name: value.float() for name, value in tensors.items()}, {}
    for module in sorted(linear_maps(model)):
        if not is_kept(module, last_layer):
            continue
        out, width = model.shapes[f"{module}.weight"]
        pairs[module] = {"A": torch.randn(RANK, width, generator=generator) / width ** 0.5,
                         "B": 0.3 * torch.randn(out, RANK, generator=generator)}
        for which, value in pairs[module].items():
            params[f"base_model.model.{module}.lora_{which}.weight"] = value.requires_grad_(True)
        name = f"{module}.weight"
        effective[name] = effective[name] + ALPHA / RANK * pairs[module]["B"] @ pairs[module]["A"]
    run = model.run(effective, sequences)
    loss = cross_entropy(run.logits, sequences)
    write_case(model, "lora", run, loss, pair_gradients(loss, pairs), sequences, params, train="lora",
               alpha=repr(ALPHA))


def make_method(model, tensors, sequences, method):
    keys = METHODS[method]
    leaves = leaves_of(tensors)
    run = model.run(leaves, sequences)
    if len(run.routers) < 2 and "lambda_cp" in keys:
        keys = {**keys, "lambda_cp": 0.0}  # there is nothing to couple
    settings = objective.settings_of(method, keys)
    loss = cross_entropy(run.logits, sequences) + model.objective(leaves, run, sequences, settings)[0]
    gradients = {name: value for name, value in gradients_of(loss, learning(leaves)).items()
                 if "embed" in name or ".gate.weight" in name or ".experts.0" in name}
    text = " ".join([f"method={method}", *(f"{key}={value}" for key, value in keys.items())])
    write_case(model, method, run, loss, gradients, sequences, train="full", method=text)


def make_model(number, name):
    architecture, variant, dtype, sizes = MODELS[name]
    rng = numpy.random.default_rng([SEED, number])
    generator = torch.Generator().manual_seed(SEED + number)
    config = {**configs.draw(architecture, variant, rng), **sizes, "vocab_size": 23,
              "torch_dtype": str(dtype).split(".")[1]}
    if architecture == "phimoe":
        pairs = config["hidden_size"] // config["num_attention_heads"] // 2
        for key in ("short_factor", "long_factor"):
            config["rope_scaling"][key] = config["rope_scaling"][key][:pairs]
    os.makedirs(os.path.join(FOLDER, name))
    model = Model(config, os.path.join(FOLDER, name))
    tensors = model.random_tensors(generator, dtype)
    model.write(tensors)
    sequences = draw_sequences(rng, config["vocab_size"], LENGTHS)
    make_full(model, tensors, sequences)
    make_lora(model, tensors, sequences, generator)
    for method in METHODS:
        make_method(model, tensors, sequences, method)


def main():
    transformers.logging.set_verbosity_error()
    torch.set_num_threads(1)
    shutil.rmtree(FOLDER, ignore_errors=True)
    for number, name in enumerate(MODELS):
        make_model(number, name)
    total = 0
    for name in MODELS:
        sizes = {file: os.path.getsize(os.path.join(FOLDER, name, file)) for file in
                 sorted(os.listdir(os.path.join(FOLDER, name)))}
        total += sum(sizes.values())
        print(f"{name:18}" + " ".join(f"{file.split('.')[0]} {size}" for file, size in sizes.items()))
    print(f"{total} bytes in all")


if __name__ == "__main__":
    main()
