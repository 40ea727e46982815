"""Weights in the formats quantised folders are published in, written with the libraries that define them.

Each format is a function from (name, matrix) to the tensors of the file and the matrix these stand for, the latter by
the library's own dequantisation, into bf16, as models in bf16 are dequantised: transformers' for fp8 in blocks and for
mxfp4, bitsandbytes' for nf4.
"""
import os
import re

os.environ.setdefault("TORCH_COMPILE_DISABLE", "1")  # bitsandbytes' generic code would be compiled for every shape

import bitsandbytes.functional as bnb
import torch
from bitsandbytes.backends.default.ops import _dequantize_4bit_compute
from transformers.integrations.finegrained_fp8 import Fp8Dequantize
from transformers.integrations.mxfp4 import FP4_VALUES, convert_moe_packed_tensors

FP8_BLOCK, MXFP4_BLOCK = 128, 32
STACK = re.compile(r"(.*\.experts)\.(gate_up_proj|down_proj)(_blocks|_scales)?")


def fp8_dequantise(codes, scales):
    """transformers' own where its rule for block sizes (rows / scales) gives 128, or one block; else DeepSeek's."""
    rows, columns = codes.shape
    if all(size % FP8_BLOCK == 0 or size <= FP8_BLOCK for size in (rows, columns)):
        return Fp8Dequantize(None)._dequantize_one(codes, scales, torch.bfloat16).float()
    spread = scales.float().repeat_interleave(FP8_BLOCK, 0)[:rows].repeat_interleave(FP8_BLOCK, 1)[:, :columns]
    return (codes.float() * spread).bfloat16().float()


def fp8(name, matrix, scale_type=torch.float32):
    rows, columns = matrix.shape
    scales = torch.empty(-(-rows // FP8_BLOCK), -(-columns // FP8_BLOCK))
    codes = torch.empty(rows, columns, dtype=torch.float8_e4m3fn)
    for i in range(scales.shape[0]):
        for j in range(scales.shape[1]):
            block = (slice(i * FP8_BLOCK, (i + 1) * FP8_BLOCK), slice(j * FP8_BLOCK, (j + 1) * FP8_BLOCK))
            scales[i, j] = matrix[block].abs().max() / 448.0
            scales[i, j] = scales[i, j].to(scale_type)
            codes[block] = (matrix[block] / scales[i, j]).clamp(-448.0, 448.0).to(torch.float8_e4m3fn)
    scales = scales.to(scale_type)
    return {name: codes, f"{name}_scale_inv": scales}, fp8_dequantise(codes, scales)


def fp8_bf16_scales(name, matrix):
    return fp8(name, matrix, torch.bfloat16)


def nf4_dequantise(codes, state):
    """bitsandbytes' generic code: its CPU kernel (0.50.2) reads wrong scales where rows are no multiple of 64."""
    absmax = state.absmax
    if state.nested:
        absmax = bnb.dequantize_blockwise(state.absmax, state.state2) + state.offset
    return _dequantize_4bit_compute(codes.reshape(-1), absmax.float(), state.code, state.blocksize, state.shape,
                                    state.dtype).float()


def nf4(name, matrix, nested=False):
    codes, state = bnb.quantize_4bit(matrix.bfloat16().contiguous(), blocksize=64, quant_type="nf4", compress_statistics=nested)
    parts = {f"{name}.{key}": value for key, value in state.as_dict(packed=True).items()}
    return {name: codes, **parts}, nf4_dequantise(codes, state)


def nf4_nested(name, matrix):
    return nf4(name, matrix, True)


def mxfp4_blocks(matrix):
    """[..., rows, columns] to blocks [..., rows, columns/32, 16] and scales, as OCP's MX 1.0 rounds."""
    groups = matrix.reshape(*matrix.shape[:-1], -1, MXFP4_BLOCK)
    largest = groups.abs().amax(-1)
    exponents = torch.where(largest > 0, torch.floor(torch.log2(largest)) - 2.0, torch.full_like(largest, -127.0))
    exponents = exponents.clamp(-127, 127)
    values = torch.tensor(FP4_VALUES[:8])
    scaled = groups / torch.exp2(exponents)[..., None]
    codes = (scaled.abs()[..., None] - values).abs().argmin(-1) + torch.where(scaled < 0, 8, 0)
    codes = codes.to(torch.uint8)
    return codes[..., 0::2] | codes[..., 1::2] << 4, (exponents + 127).to(torch.uint8)


def mxfp4(name, matrix):
    """One matrix alone."""
    blocks, scales = mxfp4_blocks(matrix)
    numbers = convert_moe_packed_tensors(blocks[None], scales[None])
    return {f"{name}_blocks": blocks, f"{name}_scales": scales}, numbers[0].T.contiguous().float()


def mxfp4_together(model, tensors):
    """The experts of each layer as gpt-oss has them: (tensors of the file, name -> matrix)."""
    file, numbers = {}, {}
    gate, up, down = model.expert_names()
    marker = f".experts.0.{down}.weight"
    for block in [name[:-len(marker)] for name in tensors if name.endswith(marker)]:
        count = sum(1 for name in tensors if name.startswith(f"{block}.experts.") and name.endswith(f".{down}.weight"))
        for fused, parts in (("gate_up_proj", (gate, up)), ("down_proj", (down,))):
            names = [[f"{block}.experts.{number}.{part}.weight" for part in parts] for number in range(count)]
            stack = torch.stack([torch.cat([tensors[name].float() for name in row]) for row in names])
            blocks, scales = mxfp4_blocks(stack)
            file[f"{block}.experts.{fused}_blocks"], file[f"{block}.experts.{fused}_scales"] = blocks, scales
            back = convert_moe_packed_tensors(blocks, scales).transpose(1, 2).float()
            for row, matrix in zip(names, back):
                numbers.update(zip(row, (piece.contiguous() for piece in matrix.chunk(len(parts)))))
    return file, numbers


def one_by_one(model, file):
    """A file's tensors, with a matrix for each expert where these lie together, in floats or in codes."""
    gate, up, down = model.expert_names()
    result = {}
    for name, value in file.items():
        match = STACK.fullmatch(name)
        if match is None:
            result[name] = value
            continue
        block, which, kind = match.groups()
        if kind == "_scales":
            continue
        if kind == "_blocks":
            value = convert_moe_packed_tensors(value, file[f"{block}.{which}_scales"]).transpose(1, 2).float()
        parts = (gate, up) if which == "gate_up_proj" else (down,)
        for number, matrix in enumerate(value):
            result.update((f"{block}.{number}.{part}.weight", piece.contiguous())
                          for part, piece in zip(parts, matrix.chunk(len(parts))))
    return result


CONFIGS = {
    "fp8": {"quant_method": "fp8", "activation_scheme": "dynamic", "fmt": "e4m3", "weight_block_size": [128, 128],
            "modules_to_not_convert": ["lm_head", "gate"]},
    "nf4": {"quant_method": "bitsandbytes", "load_in_4bit": True, "load_in_8bit": False, "bnb_4bit_quant_type": "nf4",
            "bnb_4bit_compute_dtype": "float32", "bnb_4bit_quant_storage": "uint8", "bnb_4bit_use_double_quant": False,
            "llm_int8_skip_modules": ["lm_head"]},
    "mxfp4": {"quant_method": "mxfp4", "modules_to_not_convert": ["self_attn", "gate", "embed_tokens", "lm_head"]},
}

# name: (quantization_config, the function, which weights besides the routed experts')
FORMATS = {
    "fp8": ("fp8", fp8, "layers"),
    "fp8, bf16 scales": ("fp8", fp8_bf16_scales, "layers"),
    "nf4": ("nf4", nf4, "layers"),
    "nf4 nested": ("nf4", nf4_nested, "layers"),
    "nf4, router, head": ("nf4", nf4_nested, "all"),
    "mxfp4": ("mxfp4", mxfp4, "experts"),
    "mxfp4 together": ("mxfp4", None, "experts"),
}


def is_quantised(name, shape, extent):
    """Whether a weight of a folder is quantised: matrices of layers but the router's, experts alone, or all."""
    if len(shape) != 2 or name.startswith("model.embed") or name.endswith("e_score_correction_bias"):
        return False
    if extent == "experts":
        return ".experts." in name
    if extent == "layers":
        return not name.endswith("gate.weight") and name.startswith("model.layers.")
    return True


def quantise(model, tensors, label):
    """(tensors of the file, name -> the f32 numbers they stand for) of a format."""
    _, function, extent = FORMATS[label]
    file, numbers = {}, {name: value.float() for name, value in tensors.items()}
    if function is None:
        file, together = mxfp4_together(model, tensors)
        numbers.update(together)
    for name, value in tensors.items():
        if not is_quantised(name, value.shape, extent):
            file[name] = value
        elif function is not None:
            parts, numbers[name] = function(name, value.float())
            file.update(parts)
    return file, numbers
