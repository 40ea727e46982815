#!/usr/bin/env python3
"""Makes tests/formats/golden/tokenizers: small tokenizers, texts, and what the reference libraries say of them.

texts.bin     records of a 32-bit length and a text
NAME.json     a tokenizer; NAME.model and NAME.config for tiktoken
NAME.expected a line per text: how many ids it has, a hash of them, and a hash of the rest: the ids with special tokens
              added, the ids with special tokens in the text taken as text, and the decoded plain ids with and
              without special tokens
real.expected the same for real tokenizers, which are not part of this repository: lines begin with a name

The hash is 64-bit FNV-1a over 32-bit little-endian ids and over bytes, its halves joined by exclusive or.
Usage: tokenizer_golden.py [--data ../shared/data]
"""
import argparse
import json
import os
import shutil
import struct
import sys
import tempfile

import tiktoken
from tokenizers import Tokenizer

import tokenizer_cases as cases
from tokenizer_parity import ROOT, real_tokenizers

FOLDER = os.path.join(ROOT, "tests", "formats", "golden", "tokenizers")
TOKENS = ["<s>", "</s>", "<|endoftext|>", "<|user|>", "<|end|>", "<mask>", "[L]", "[R]", "[LR]", "MiXed", "abcd", "  ",
          "<｜begin▁of▁sentence｜>", "<|im_end|>", "[EOS]", "Hello", "word"]
SPLITS = ("split_removed_regex_invert", "split_isolated_regex", "split_isolated_empty", "split_isolated_lines",
          "split_merged_with_previous_regex", "split_merged_with_next_regex", "split_contiguous_text")


def fnv(data):
    value = 0xCBF29CE484222325
    for byte in data:
        value = ((value ^ byte) * 0x100000001B3) & 0xFFFFFFFFFFFFFFFF
    return f"{(value ^ value >> 32) & 0xFFFFFFFF:08x}"


def pack(ids):
    return struct.pack(f"<{len(ids)}i", *ids)


def line(plain, special, as_text, whole, skipped):
    return f"{len(plain)} {fnv(pack(plain))} {fnv(pack(special) + pack(as_text) + whole.encode() + skipped.encode())}"


def expected_lines(tokenizer, texts):
    for raw in texts:
        text = raw.decode("utf-8", "replace")
        plain = tokenizer.encode(text, add_special_tokens=False).ids
        special = tokenizer.encode(text).ids
        tokenizer.encode_special_tokens = True
        as_text = tokenizer.encode(text, add_special_tokens=False).ids
        tokenizer.encode_special_tokens = False
        yield line(plain, special, as_text, tokenizer.decode(plain, skip_special_tokens=False),
                   tokenizer.decode(plain, skip_special_tokens=True))


def tiktoken_lines(encoding, specials, texts):
    for raw in texts:
        text = raw.decode("utf-8", "replace")
        plain = encoding.encode(text, allowed_special="all")
        skipped = encoding.decode([i for i in plain if i not in specials])
        yield line(plain, plain, encoding.encode_ordinary(text), encoding.decode(plain), skipped)


def write(name, data):
    with open(os.path.join(FOLDER, name), "wb") as file:
        file.write(data if isinstance(data, bytes) else data.encode())


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--data", default=os.path.join(ROOT, "..", "shared", "data"))
    options = parser.parse_args()
    shutil.rmtree(FOLDER, ignore_errors=True)
    os.makedirs(FOLDER)
    texts = cases.small_texts(17, 24, TOKENS)
    write("texts.bin", b"".join(struct.pack("<I", len(t)) + t for t in texts))
    for name, tokenizer in cases.small_tokenizers():
        if name.startswith("split_") and name not in SPLITS:
            continue
        write(name + ".json", json.dumps(json.loads(tokenizer.to_str()), ensure_ascii=False, separators=(",", ":")) + "\n")
        write(name + ".expected", "\n".join(expected_lines(tokenizer, texts)) + "\n")
    ranks = cases.tiktoken_ranks(700)
    specials = cases.tiktoken_specials(len(ranks))
    encoding = tiktoken.Encoding("made", pat_str=cases.KIMI, mergeable_ranks=ranks, special_tokens=specials)
    write("tiktoken.model", cases.tiktoken_file(ranks))
    write("tiktoken.config", cases.tiktoken_config(len(ranks)) + "\n")
    write("tiktoken.expected", "\n".join(tiktoken_lines(encoding, set(specials.values()), texts)) + "\n")
    with tempfile.TemporaryDirectory() as folder:
        lines = []
        for name, path in real_tokenizers(options.data, folder):
            if os.path.exists(os.path.join(options.data, "tokenizers", name, "tokenizer.json.gz")):
                lines += [f"{name} {answer}" for answer in expected_lines(Tokenizer.from_file(path), texts)]
        write("real.expected", "\n".join(lines) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
