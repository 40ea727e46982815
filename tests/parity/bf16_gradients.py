#!/usr/bin/env python3
"""How far bf16 moves the gradients of small models: metier's device beside its cpu in f32, and PyTorch beside itself.

Models of 1, 2, 4 and 8 layers, Mixtral's and DeepSeek-V2's kind, with weights that bf16 has and every expert chosen, so
that no token can go elsewhere. The figure is the norm of the difference over the norm, of all gradients together: the
median over seeds. Everything is trained; the loss is the next id's cross-entropy. It fails where metier's bf16 activations
are more than 1.1 times as far from f32 as PyTorch's bf16 is from its own f32. docs/precision.md has the figures.

Usage: bf16_gradients.py [--program build/cuda/bin/metier] [--device cuda-bf16] [--torch cuda] [--seeds 5]
Needs PyTorch, transformers >= 5.15 and safetensors.
"""
import argparse
import json
import os
import random
import statistics
import subprocess
import sys
import tempfile

try:
    import torch
    import transformers
    from safetensors.torch import load_file
except ImportError as error:
    print(f"bf16_gradients: needs a Python with torch, transformers and safetensors: {error}", file=sys.stderr)
    sys.exit(77)

MOST = 1.1
ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
COMMON = {"hidden_size": 128, "hidden_act": "silu", "max_position_embeddings": 1024, "vocab_size": 512,
          "num_attention_heads": 4, "rms_norm_eps": 1e-6, "rope_theta": 10000, "initializer_range": 0.08,
          "tie_word_embeddings": False, "attention_bias": False}
KINDS = {
    "mixtral": dict(COMMON, model_type="mixtral", architectures=["MixtralForCausalLM"], intermediate_size=256,
                    num_key_value_heads=2, num_local_experts=2, num_experts_per_tok=2, sliding_window=None),
    "deepseek_v2": dict(COMMON, model_type="deepseek_v2", architectures=["DeepseekV2ForCausalLM"],
                        intermediate_size=320, moe_intermediate_size=64, n_routed_experts=4, num_experts_per_tok=4,
                        n_shared_experts=1, first_k_dense_replace=0, moe_layer_freq=1, n_group=1, topk_group=1,
                        topk_method="greedy", scoring_func="softmax", norm_topk_prob=False, routed_scaling_factor=1.0,
                        num_key_value_heads=4, kv_lora_rank=32, q_lora_rank=None, qk_nope_head_dim=32,
                        qk_rope_head_dim=16, v_head_dim=32),
}


def apart(exact, other):
    """Norm of the difference over the norm, of all gradients together."""
    difference = sum((exact[name].double() - other[name].double()).square().sum().item() for name in exact)
    size = sum(exact[name].double().square().sum().item() for name in exact)
    return (difference / size) ** 0.5


def own_gradients(program, folder, device, activations):
    out = os.path.join(folder, "out.safetensors")
    subprocess.run([program, "forward", folder, "--ids-file", os.path.join(folder, "ids.txt"), "--grads", "--train", "full",
                    "--device", device, "--activations", activations, "--out", out], check=True, capture_output=True)
    return {name: value for name, value in load_file(out).items() if name.startswith("grad.")}


def torch_gradients(folder, sequences, device, dtype):
    model = transformers.AutoModelForCausalLM.from_pretrained(folder, dtype=dtype).to(device).train()
    total = sum(len(ids) - 1 for ids in sequences)
    for ids in sequences:
        row = torch.tensor([ids], device=device)
        logits = model(row).logits[0, :-1].float()
        loss = torch.nn.functional.cross_entropy(logits, row[0, 1:], reduction="sum") / total
        loss.backward()
    return {name: value.grad.cpu() for name, value in model.named_parameters() if value.grad is not None}


def make_model(program, folder, config, seed):
    source = folder + ".json"
    with open(source, "w", encoding="utf-8") as file:
        json.dump(config, file)
    subprocess.run([program, "init", "--config", source, "--dtype", "bf16", "--seed", str(seed), "--out", folder],
                   check=True, capture_output=True)


def measure(options, place, config, seed):
    """Of one model: metier's figures with f32 and bf16 activations, and PyTorch's."""
    draw = random.Random(seed)
    sequences = [[draw.randrange(512) for _ in range(length)] for length in (64, 96, 32, 128, 48, 80, 40, 24)]
    folder = os.path.join(place, f"{config['model_type']}-{config['num_hidden_layers']}-{seed}")
    make_model(options.program, folder, config, seed)
    with open(os.path.join(folder, "ids.txt"), "w", encoding="utf-8") as file:
        file.writelines(",".join(map(str, ids)) + "\n" for ids in sequences)
    exact = own_gradients(options.program, folder, "cpu", "f32")
    row = [apart(exact, own_gradients(options.program, folder, options.device, kept)) for kept in ("f32", "bf16")]
    row.append(apart(torch_gradients(folder, sequences, options.torch, torch.float32),
                     torch_gradients(folder, sequences, options.torch, torch.bfloat16)))
    return row


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--program", default=os.path.join(ROOT, "build/cuda/bin/metier"))
    parser.add_argument("--device", default="cuda-bf16")
    parser.add_argument("--torch", default="cuda")
    parser.add_argument("--seeds", type=int, default=5)
    options = parser.parse_args()
    torch.backends.cuda.matmul.allow_tf32 = False
    failed = False
    print(f"{'model':<12} {'layers':>6}  {'f32 activations':>16} {'bf16 activations':>17} {'PyTorch bf16':>13} {'ratio':>6}")
    with tempfile.TemporaryDirectory() as place:
        for kind, config in KINDS.items():
            for layers in (1, 2, 4, 8):
                rows = [measure(options, place, dict(config, num_hidden_layers=layers), seed + 1)
                        for seed in range(options.seeds)]
                f32, bf16, peer = (statistics.median(column) for column in zip(*rows))
                failed = failed or bf16 > MOST * peer
                print(f"{kind:<12} {layers:>6}  {100 * f32:>14.2f} % {100 * bf16:>15.2f} % {100 * peer:>11.2f} %"
                      f" {bf16 / peer:>6.2f}", flush=True)
    if failed:
        print(f"bf16_gradients: bf16 activations are more than {MOST:g} times as far from f32 as PyTorch's", file=sys.stderr)
        sys.exit(1)


if __name__ == "__main__":
    main()
