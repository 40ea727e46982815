#!/usr/bin/env python3
"""Quantised folders as they are published, in `metier forward` and `metier merge`, against transformers.

Folders of several architectures are written in every format that is read (published_formats.py): fp8 in blocks of
128 x 128, bitsandbytes' nf4 with and without nested scales, mxfp4 by matrix and as gpt-oss stacks it. The reference is
the same model in transformers, in single precision, with the numbers the libraries' own dequantisation gives, in bf16,
as models in bf16 have them: logits, hidden states, routing, and the gradients of LoRA pairs on everything. Then:

  transformers itself opens and dequantises the fp8 folders, and nf4 folders it and bitsandbytes wrote themselves;
  an adapter is merged into the folders: into f32, compared with W + s B A, and, --requantise, into the same format,
  which transformers or the library's dequantisation has to read again with the same logits.

Usage: published_parity.py [--program build/release/bin/metier] [--seed 1] [--only TEXT] [--verbose]
Needs PyTorch, transformers, bitsandbytes and safetensors. The limit is 1e-4 throughout, as in model_parity.py.
"""
import argparse
import json
import os
import subprocess
import sys
import tempfile

try:
    import numpy
    import torch
    import transformers
    from safetensors.torch import load_file, save_file

    import published_formats as formats
except ImportError as error:
    print(f"published_parity: needs torch, transformers, bitsandbytes and safetensors: {error}", file=sys.stderr)
    sys.exit(77)

import model_configs as configs
import model_parity as parity
from model_reference import Model

# Sizes: blocks that are cut (192, 160), and, for transformers' rule of block sizes, whole ones.
MODELS = {
    "deepseek_v2": {"hidden_size": 192, "moe_intermediate_size": 160, "intermediate_size": 224, "kv_lora_rank": 96},
    "deepseek_v3": {"hidden_size": 256, "moe_intermediate_size": 128, "intermediate_size": 256, "kv_lora_rank": 64,
                    "q_lora_rank": 64, "v_head_dim": 64, "qk_nope_head_dim": 64, "qk_rope_head_dim": 64},
    "qwen3_moe": {"hidden_size": 128, "moe_intermediate_size": 128, "num_attention_heads": 8, "head_dim": 16,
                  "num_key_value_heads": 2},
    "mixtral": {"hidden_size": 192, "intermediate_size": 160, "num_attention_heads": 6, "num_key_value_heads": 2},
    "olmoe": {"hidden_size": 64, "intermediate_size": 96, "num_attention_heads": 4, "num_key_value_heads": 4},
    "glm4_moe": {"hidden_size": 128, "moe_intermediate_size": 96, "num_attention_heads": 4, "num_key_value_heads": 2,
                 "head_dim": 32, "intermediate_size": 160},
    "dots1": {"hidden_size": 192, "moe_intermediate_size": 160, "num_attention_heads": 6, "num_key_value_heads": 2,
              "head_dim": 32, "intermediate_size": 224},
    "ernie4_5_moe": {"hidden_size": 128, "moe_intermediate_size": 96, "num_attention_heads": 4, "num_key_value_heads": 2,
                     "head_dim": 32, "intermediate_size": 160},
}
WHOLE_BLOCKS = ("deepseek_v3", "qwen3_moe")
WHOLE_ROWS = ("deepseek_v3", "qwen3_moe", "mixtral", "olmoe")  # of attention: see nf4_dequantise
RANK, ALPHA = 4, 6.0


def draw(name, seed):
    rng = numpy.random.default_rng(seed)
    config = getattr(configs, name)(rng, 0)
    config.update(MODELS[name])
    return config


def write_folder(model, tensors, label):
    """Config and tensors as published; what the file's numbers stand for."""
    file, numbers = formats.quantise(model, tensors, label)
    model.write({name: value.contiguous() for name, value in file.items()})
    model.write_config({**model.config, "quantization_config": formats.CONFIGS[formats.FORMATS[label][0]]})
    return numbers


def transformers_logits(folder, sequences):
    """As transformers opens the folder and dequantises it, into bf16; computed in single precision."""
    model = transformers.AutoModelForCausalLM.from_pretrained(
        folder, dtype=torch.bfloat16, attn_implementation="eager", experts_implementation="eager")
    model.eval()
    if getattr(model, "is_loaded_in_4bit", False):
        model = model.dequantize()
    for tensor in [*model.parameters(), *model.buffers()]:
        if tensor.is_floating_point():  # experts come out of transformers' fp8 in the type of the scales
            tensor.data = (tensor.data.bfloat16() if tensor.ndim > 1 else tensor.data).float()
    with torch.no_grad():
        return torch.cat([model(input_ids=torch.tensor([ids]), use_cache=False).logits[0].float()
                          for ids in sequences])


# ---------------------------------------------------------------- merging


def write_adapter(folder, model, generator):
    """LoRA pairs on every linear layer, in PEFT's files, per expert: module -> (A, B)."""
    os.makedirs(folder, exist_ok=True)
    pairs, file = {}, {}
    for name, shape in model.shapes.items():
        module = name[:-len(".weight")]
        if module not in parity.linear_maps(model):
            continue
        a = torch.randn(RANK, shape[1], generator=generator) / shape[1] ** 0.5
        b = 0.05 * torch.randn(shape[0], RANK, generator=generator)
        pairs[module] = (a, b)
        file[f"base_model.model.{module}.lora_A.weight"], file[f"base_model.model.{module}.lora_B.weight"] = a, b
    save_file(file, os.path.join(folder, "adapter_model.safetensors"))
    with open(os.path.join(folder, "adapter_config.json"), "w", encoding="utf-8") as out:
        json.dump({"peft_type": "LORA", "task_type": "CAUSAL_LM", "r": RANK, "lora_alpha": ALPHA, "lora_dropout": 0.0,
                   "bias": "none", "base_model_name_or_path": "x", "target_modules": sorted(pairs)}, out)
    return pairs


def merge(program, folder, adapter, out, *options):
    command = [program.path, "merge", folder, "--adapter", adapter, "--out", out, "--verify", *options]
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    if result.returncode != 0:
        raise RuntimeError(f"{' '.join(command)}: {result.stderr.strip()} {result.stdout.strip()}")


def folder_of(model, folder):
    """The same model, its files elsewhere."""
    other = Model.__new__(Model)
    other.__dict__.update(model.__dict__)
    other.folder = folder
    return other


def numbers_of(model, folder):
    """What the tensors of a requantised folder stand for, by the library's own dequantisation."""
    file, numbers = formats.one_by_one(model, load_file(os.path.join(folder, "model.safetensors"))), {}
    for name, shape in model.shapes.items():
        if f"{name}_scale_inv" in file:
            numbers[name] = formats.fp8_dequantise(file[name], file[f"{name}_scale_inv"])
        elif f"{name}.absmax" in file:
            parts = {key[len(name) + 1:]: value for key, value in file.items() if key.startswith(f"{name}.")}
            state = formats.bnb.QuantState.from_dict(parts, torch.device("cpu"))
            numbers[name] = formats.nf4_dequantise(file[name], state)
        elif f"{name}_blocks" in file:
            back = formats.convert_moe_packed_tensors(file[f"{name}_blocks"][None], file[f"{name}_scales"][None])
            numbers[name] = back[0].T.contiguous().float()
        elif name in file:
            numbers[name] = file[name].float()
    return numbers


def check_merge(table, case, program, model, numbers, sequences, label, place):
    generator = torch.Generator().manual_seed(3)
    adapter = os.path.join(place, "adapter")
    pairs = write_adapter(adapter, model, generator)
    want = {name: numbers[name] + ALPHA / RANK * pairs[name[:-7]][1] @ pairs[name[:-7]][0]
            if name[:-7] in pairs else numbers[name] for name in model.shapes}
    plain = folder_of(model, os.path.join(place, "plain"))
    merge(program, model.folder, adapter, plain.folder, "--dtype", "f32")
    got = formats.one_by_one(model, load_file(os.path.join(plain.folder, "model.safetensors")))
    if set(got) != set(model.shapes):
        table.fail(case, f"merged tensors differ: {sorted(set(got) ^ set(model.shapes))[:4]}")
        return
    for name in model.shapes:
        table.add("merged", case, name, parity.relative_to_rms(got[name].float(), want[name]))
    with open(os.path.join(plain.folder, "config.json"), encoding="utf-8") as file:
        if "quantization_config" in json.load(file):
            table.fail(case, "the merged config has a quantization_config")
    again = folder_of(model, os.path.join(place, "again"))
    merge(program, model.folder, adapter, again.folder, "--requantise")
    numbers = numbers_of(again, again.folder)
    if set(numbers) != set(model.shapes):
        table.fail(case, f"requantised tensors differ: {sorted(set(numbers) ^ set(model.shapes))[:4]}")
        return
    with torch.no_grad():
        run = model.run(numbers, sequences)
    got = program.forward(again, sequences)
    table.add("again", case, "logits", parity.relative_to_rms(got["logits"], run.logits))
    if opens_itself(model, label):
        logits = transformers_logits(again.folder, sequences)
        table.add("opened", case, "requantised", parity.relative_to_rms(got["logits"], logits))


# ---------------------------------------------------------------- reading


def opens_itself(model, label):
    """transformers 5 has no linear layers for experts of bitsandbytes, and reads fp8 in whole blocks only."""
    return label.startswith("fp8") and model.kind in WHOLE_BLOCKS


def check_lora(table, case, program, model, numbers, sequences):
    got = program.forward(model, sequences, *parity.lora_options("*"))
    pairs = parity.lora_leaves(got)
    if set(pairs) != parity.linear_maps(model):
        table.fail(case, f"LoRA is not on every linear layer: {sorted(set(pairs) ^ parity.linear_maps(model))[:4]}")
    run = model.run(parity.adapted(numbers, pairs), sequences)
    table.add("logits", case, "LoRA's logits", parity.relative_to_rms(got["logits"], run.logits))
    parity.compare_gradients(table, "lora", case, parity.given_gradients(got),
                             parity.pair_gradients(parity.cross_entropy(run.logits, sequences), pairs))


def check_format(table, program, name, label, seed):
    case = f"{name} {label} seed {seed}"
    with tempfile.TemporaryDirectory() as place:
        folder = os.path.join(place, "model")
        os.mkdir(folder)
        model = Model(draw(name, seed), folder)
        generator = torch.Generator().manual_seed(seed)
        tensors = model.random_tensors(generator, torch.bfloat16)
        numbers = write_folder(model, tensors, label)
        rng = numpy.random.default_rng(seed)
        sequences = [rng.integers(model.config["vocab_size"], size=length).tolist() for length in (9, 1, 14)]
        with torch.no_grad():
            run = model.run(numbers, sequences)
        got = program.forward(model, sequences)
        parity.compare_forward(table, case, got, run)
        if opens_itself(model, label):
            logits = transformers_logits(folder, sequences)
            table.add("opened", case, "logits", parity.relative_to_rms(got["logits"], logits))
        check_lora(table, case, program, model, numbers, sequences)
        check_merge(table, case, program, model, numbers, sequences, label, place)
        table.done(case)


def check_own(table, program, name, nested, seed):
    """A folder transformers and bitsandbytes write themselves, and run: experts stay floats there."""
    case = f"{name} own nf4{' nested' if nested else ''} seed {seed}"
    with tempfile.TemporaryDirectory() as place:
        folder, quantised = os.path.join(place, "model"), os.path.join(place, "quantised")
        os.mkdir(folder)
        model = Model(draw(name, seed), folder)
        model.save_pretrained(model.random_tensors(torch.Generator().manual_seed(seed), torch.bfloat16))
        settings = transformers.BitsAndBytesConfig(load_in_4bit=True, bnb_4bit_quant_type="nf4",
                                                   bnb_4bit_use_double_quant=nested,
                                                   bnb_4bit_compute_dtype=torch.float32)
        loaded = transformers.AutoModelForCausalLM.from_pretrained(folder, quantization_config=settings,
                                                                   dtype=torch.bfloat16)
        loaded.save_pretrained(quantised)
        rng = numpy.random.default_rng(seed)
        sequences = [rng.integers(model.config["vocab_size"], size=length).tolist() for length in (9, 1, 14)]
        got = program.forward(folder_of(model, quantised), sequences)
        table.add("opened", case, "logits",
                  parity.relative_to_rms(got["logits"], transformers_logits(quantised, sequences)))
        adapter, again = os.path.join(place, "adapter"), os.path.join(place, "again")
        write_adapter(adapter, model, torch.Generator().manual_seed(3))
        merge(program, quantised, adapter, again, "--requantise")
        got = program.forward(folder_of(model, again), sequences)
        table.add("opened", case, "requantised",
                  parity.relative_to_rms(got["logits"], transformers_logits(again, sequences)))
        table.done(case)


def check_gpt_oss(table, program, seed):
    """Random weights that metier writes as gpt-oss is published, and that it requantises with an adapter."""
    case = f"gpt_oss mxfp4 seed {seed}"
    settings = transformers.Mxfp4Config(dequantize=True)

    def opened(folder, sequences):
        model = transformers.AutoModelForCausalLM.from_pretrained(folder, quantization_config=settings, dtype=torch.float32,
                                                                  attn_implementation="eager")
        with torch.no_grad():
            return torch.cat([model(torch.tensor([ids])).logits[0] for ids in sequences])

    with tempfile.TemporaryDirectory() as place:
        rng = numpy.random.default_rng(seed)
        source, folder, adapter, again = (os.path.join(place, name) for name in ("source", "model", "adapter", "again"))
        os.mkdir(source)
        sizes = {"hidden_size": 64, "intermediate_size": 96, "initializer_range": 0.3}
        model = Model({**configs.draw("gpt_oss", 1, rng), **sizes}, source)
        sequences = [rng.integers(model.config["vocab_size"], size=length).tolist() for length in (9, 1, 14)]
        subprocess.run([program.path, "init", "--config", os.path.join(source, "config.json"), "--seed", str(seed), "--dtype", "bf16",
                        "--quantize", "mxfp4,routed_experts", "--out", folder], check=True, capture_output=True)
        got = program.forward(folder_of(model, folder), sequences)
        table.add("opened", case, "logits", parity.relative_to_rms(got["logits"], opened(folder, sequences)))
        write_adapter(adapter, model, torch.Generator().manual_seed(3))
        merge(program, folder, adapter, again, "--requantise")
        got = program.forward(folder_of(model, again), sequences)
        table.add("again", case, "requantised", parity.relative_to_rms(got["logits"], opened(again, sequences)))
        table.done(case)


class Table(parity.Table):
    KINDS = ("logits", "hidden", "weights", "lora", "merged", "again", "opened")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--program", default=os.path.join(parity.ROOT, "build", "release", "bin", "metier"))
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", default="", help="cases whose name contains this, for example 'mixtral nf4'")
    parser.add_argument("--verbose", action="store_true", help="say when a case is done")
    arguments = parser.parse_args()
    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()
    torch.set_num_threads(1)
    table = Table(arguments.verbose)
    with tempfile.TemporaryDirectory() as place:
        program = parity.Program(arguments.program, place)
        for name in MODELS:
            for label in formats.FORMATS:
                if arguments.only in f"{name} {label}":
                    check_format(table, program, name, label, arguments.seed)
            for nested in (False, True) if name in WHOLE_ROWS else ():
                if arguments.only in f"{name} own nf4{' nested' if nested else ''}":
                    check_own(table, program, name, nested, arguments.seed)
        if arguments.only in "gpt_oss mxfp4":
            check_gpt_oss(table, program, arguments.seed)
    table.show()
    return 1 if table.failures or table.cases == 0 else 0


if __name__ == "__main__":
    sys.exit(main())
