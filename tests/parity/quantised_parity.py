#!/usr/bin/env python3
"""Quantised matrices against bitsandbytes (nf4) and transformers (fp8, mxfp4), bit for bit, on the CPU.

Usage: quantised_parity.py QUANTISED_TOOL

nf4: codes, scales and nested codes are bitsandbytes'; what they stand for is its dequantisation. The mean that nested
scales are relative to is torch's to its last bits, because torch adds in an order that depends on the machine: given our
mean, everything else is equal. fp8: codes and scales of transformers' quantiser where blocks divide a matrix, and its
dequantisation. mxfp4: transformers' dequantisation of our codes and of random ones."""
import subprocess
import sys
import types

import bitsandbytes.functional as bnb
import numpy as np
import torch
from transformers.integrations import finegrained_fp8, mxfp4

TOOL = sys.argv[1]
compared = 0


def tool(*words, data=b""):
    words = [str(word) for word in words]
    return subprocess.run([TOOL, *words], input=data, capture_output=True, check=True).stdout


def cut(data, *parts):
    """bytes as arrays of (type, count), one after the other."""
    arrays, place = [], 0
    for kind, count in parts:
        size = count * np.dtype(kind).itemsize
        arrays.append(np.frombuffer(data[place:place + size], kind))
        place += size
    assert place == len(data), (place, len(data))
    return arrays


def same(what, ours, theirs):
    global compared
    ours, theirs = np.ascontiguousarray(ours).reshape(-1), np.ascontiguousarray(theirs).reshape(-1)
    assert ours.shape == theirs.shape and ours.dtype == theirs.dtype, (what, ours.dtype, theirs.dtype)
    nan = ours.dtype.kind == "f" and np.isnan(ours) & np.isnan(theirs)
    differ = np.count_nonzero((ours.view(f"u{ours.itemsize}") != theirs.view(f"u{ours.itemsize}")) & ~np.asarray(nan))
    assert differ == 0, f"{what}: {differ} of {ours.size} differ"
    compared += ours.size


def matrices():
    """Names and numbers: of every size, on code boundaries, zeros, subnormals, the largest."""
    draw = torch.Generator().manual_seed(1)
    for shape in ((1, 1), (1, 3), (3, 1), (2, 32), (5, 63), (128, 128), (7, 192), (256, 384), (130, 200), (300, 1000)):
        x = torch.randn(shape, generator=draw)
        yield f"normal {shape}", x
        yield f"weights {shape}", (0.02 * x).bfloat16().float()
        yield f"zeros {shape}", torch.zeros(shape)
        yield f"sizes {shape}", x * torch.pow(10.0, torch.randint(-42, 37, shape, generator=draw).float())
        yield f"small {shape}", x * 1e-38
        yield f"subnormal {shape}", x * 1e-43
        yield f"large {shape}", x.clamp(-1, 1) * 3.4e38
    code = bnb.get_4bit_type("nf4", device="cpu")
    middle = (code[1:] + code[:-1]) / 2
    beside = torch.cat([middle, torch.nextafter(middle, torch.tensor(2.0)), torch.nextafter(middle, torch.tensor(-2.0))])
    yield "boundaries", torch.cat([beside, torch.ones(19)]).reshape(1, 64) * 0.37


def check_nf4(name, x):
    out, size = x.shape
    blocks = -(-out * size // 64)
    half = (out * size + 1) // 2
    packed, state = bnb.quantize_4bit(x, quant_type="nf4", blocksize=64)
    data = tool("quantise", "nf4", "single", out, size, data=x.numpy().tobytes())
    codes, scales = cut(data, ("u1", half), ("f4", blocks))
    same(f"nf4 codes of {name}", codes, packed.numpy())
    same(f"nf4 scales of {name}", scales, state.absmax.numpy())
    back = np.frombuffer(tool("dequantise", "nf4", "single", out, size, data=data), "f4")
    if size % 64 == 0 or size % 2 == 1:  # of other widths bitsandbytes' CPU kernel takes the wrong scales
        same(f"nf4 numbers of {name}", back, bnb.dequantize_4bit(packed, state).numpy())

    data = tool("quantise", "nf4", "double", out, size, data=x.numpy().tobytes())
    nested_blocks = -(-blocks // 256)
    codes, nested_codes, nested, offset = cut(data, ("u1", half), ("u1", blocks), ("f4", nested_blocks), ("f4", 1))
    same(f"nested nf4 codes of {name}", codes, packed.numpy())
    mean = state.absmax.double().mean().item()
    assert abs(offset[0] - mean) <= 1e-7 * abs(mean) + 1e-45, (name, offset[0], mean)
    theirs, state2 = bnb.quantize_blockwise(state.absmax - torch.from_numpy(offset.copy()), blocksize=256)
    same(f"nested codes of {name}", nested_codes, theirs.numpy())
    same(f"nested scales of {name}", nested, state2.absmax.numpy())
    map_ = tool("map")
    same("nested map", np.frombuffer(map_, "f4"), state2.code.numpy())
    scales = bnb.dequantize_blockwise(theirs, state2) + torch.from_numpy(offset.copy())
    back = np.frombuffer(tool("dequantise", "nf4", "double", out, size, data=data + map_), "f4")
    state.absmax = scales
    if size % 64 == 0 or size % 2 == 1:
        same(f"nested nf4 numbers of {name}", back, bnb.dequantize_4bit(packed, state).numpy())


class Config:
    """What transformers' quantiser reads of a quantisation config."""

    weight_block_size = (128, 128)
    scale_fmt = None


def check_fp8(name, x):
    out, size = x.shape
    grid = (-(-out // 128), -(-size // 128))
    data = tool("quantise", "fp8", "single", out, size, data=x.numpy().tobytes())
    codes, scales = cut(data, ("u1", out * size), ("f4", grid[0] * grid[1]))
    back = np.frombuffer(tool("dequantise", "fp8", "single", out, size, data=data), "f4")
    padded = np.zeros((grid[0] * 128, grid[1] * 128), "u1")  # transformers has whole blocks alone
    padded[:out, :size] = codes.reshape(out, size)
    quantizer = types.SimpleNamespace(quantization_config=Config())
    fp8 = torch.from_numpy(padded).view(torch.float8_e4m3fn)
    theirs = finegrained_fp8.Fp8Dequantize(quantizer)._dequantize_one(
        fp8, torch.from_numpy(scales.copy()).reshape(grid), torch.float32)
    same(f"fp8 numbers of {name}", back, theirs[:out, :size].numpy())
    tiny = x.reshape(-1).abs().max() * 2.0 ** 100 < 448 / 3.4e38 * 2.0 ** 100  # whole blocks that we call zeros
    if out % 128 or size % 128 or tiny or "sizes" in name:
        return
    made = finegrained_fp8.Fp8Quantize(quantizer)._quantize_one("a.weight", x)
    same(f"fp8 codes of {name}", codes, made["a.weight"].view(torch.uint8).numpy())
    same(f"fp8 scales of {name}", scales, made["a.weight_scale_inv"].numpy())


def check_mxfp4(name, x, random):
    out, size = x.shape
    blocks = -(-size // 32)
    data = tool("quantise", "mxfp4", "single", out, size, data=x.numpy().tobytes())
    if random:  # any codes, any scales but NaN
        draw = np.random.default_rng(2)
        data = draw.integers(0, 256, out * blocks * 16, "u1").tobytes() + draw.integers(0, 255, out * blocks, "u1").tobytes()
    codes, scales = cut(data, ("u1", out * blocks * 16), ("u1", out * blocks))
    back = np.frombuffer(tool("dequantise", "mxfp4", "single", out, size, data=data), "f4")
    theirs = mxfp4.convert_moe_packed_tensors(
        torch.from_numpy(codes.copy()).reshape(1, out, blocks, 16), torch.from_numpy(scales.copy()).reshape(1, out, blocks))
    theirs = theirs.transpose(1, 2)[0, :, :size].contiguous()  # [in,out] as gpt-oss has it
    same(f"mxfp4 numbers of {name}", torch.from_numpy(back.copy()).bfloat16().view(torch.int16).numpy(),
         theirs.reshape(-1).view(torch.int16).numpy())


def main():
    for name, x in matrices():
        check_nf4(name, x)
        check_fp8(name, x)
        check_mxfp4(name, x, False)
        check_mxfp4(name, x, True)
    every = torch.arange(256, dtype=torch.uint8)
    back = np.frombuffer(tool("dequantise", "fp8", "single", 1, 256, data=every.numpy().tobytes() + np.ones(2, "f4").tobytes()), "f4")
    same("every fp8 code", back, every.view(torch.float8_e4m3fn).float().numpy())
    print(f"{compared:,} codes, scales and numbers, all equal bit for bit")


if __name__ == "__main__":
    main()
