#!/usr/bin/env python3
"""Compares our tokenizers with the `tokenizers` and `tiktoken` libraries: every id, every decoded text.

Usage: tokenizer_parity.py [--build build/release] [--data ../shared/data] [--megabytes 5] [--speed-only | --no-speed]
Needs the packages tokenizers and tiktoken; real tokenizers are used where --data has them.
"""
import argparse
import gzip
import json
import os
import struct
import subprocess
import sys
import tempfile
import time

os.environ["TOKENIZERS_PARALLELISM"] = "false"
os.environ["RAYON_NUM_THREADS"] = "1"

import tiktoken  # noqa: E402
from tokenizers import Tokenizer  # noqa: E402

import tokenizer_cases as cases  # noqa: E402

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))


class Ours:
    """Our tokenizer, through the program tokenizer_batch."""

    def __init__(self, build, folder, path):
        self.program = os.path.join(build, "bin", "tokenizer_batch")
        self.folder = folder
        self.path = path

    def run(self, mode, records, options):
        source, target = os.path.join(self.folder, "in"), os.path.join(self.folder, "out")
        with open(source, "wb") as file:
            for record in records:
                if mode == "encode":
                    file.write(struct.pack("<I", len(record)) + record)
                else:
                    file.write(struct.pack(f"<I{len(record)}i", len(record), *record))
        subprocess.run([self.program, mode, self.path, source, target, *options], check=True)
        data = open(target, "rb").read()
        at, result = 0, []
        while at < len(data):
            (count,) = struct.unpack_from("<I", data, at)
            at += 4
            if mode == "encode":
                result.append(list(struct.unpack_from(f"<{count}i", data, at)))
                at += 4 * count
            else:
                result.append(data[at : at + count])
                at += count
        return result


class Report:
    def __init__(self):
        self.failures = 0
        self.bytes = 0
        self.texts = 0

    def compare(self, what, texts, got, expected):
        if len(got) != len(expected):
            self.failures += 1
            print(f"FAIL {what}: {len(got)} answers for {len(expected)} texts")
            return
        for i, (a, b) in enumerate(zip(got, expected)):
            if a != b:
                self.failures += 1
                at = next((k for k, (x, y) in enumerate(zip(a, b)) if x != y), min(len(a), len(b)))
                print(f"FAIL {what}, text {i}: differs at {at}: ours {a[max(0, at - 2):at + 6]} reference {b[max(0, at - 2):at + 6]}")
                if len(texts[i]) < 300:
                    print(f"     {texts[i]!r}")
                return


def compare_tokenizer(report, name, ours, reference, texts):
    decoded = [t.decode("utf-8", "replace") for t in texts]
    plain = [e.ids for e in reference.encode_batch(decoded, add_special_tokens=False)]
    report.compare(f"{name} encode", texts, ours.run("encode", texts, []), plain)
    special = [reference.encode(t).ids for t in decoded[:60]]
    report.compare(f"{name} encode with special", texts, ours.run("encode", texts[:60], ["--special"]), special)
    reference.encode_special_tokens = True
    as_text = [reference.encode(t, add_special_tokens=False).ids for t in decoded[:400]]
    reference.encode_special_tokens = False
    report.compare(f"{name} encode, special tokens as text", texts, ours.run("encode", texts[:400], ["--as-text"]), as_text)
    records = plain + special
    for skip in (False, True):
        expected = [reference.decode(ids, skip_special_tokens=skip).encode() for ids in records]
        got = ours.run("decode", records, ["--skip-special"] if skip else [])
        report.compare(f"{name} decode{' without special' if skip else ''}", records, got, expected)
    report.bytes += sum(map(len, texts))
    report.texts += len(texts)


def real_tokenizers(data, folder):
    """(name, path) of the real tokenizers, unpacked; the one of the small bases was learnt here."""
    found = [("small", os.path.join(ROOT, "share", "models", "small-mixtral", "tokenizer.json"))]
    for name in ("deepseek-llm", "deepseek_v3", "mixtral"):
        source = os.path.join(data, "tokenizers", name, "tokenizer.json.gz")
        if os.path.exists(source):
            target = os.path.join(folder, name + ".json")
            with open(target, "wb") as file:
                file.write(gzip.open(source).read())
            found.append((name, target))
    model = os.path.join(data, "tokenizers", "llama2", "tokenizer.model")
    if os.path.exists(model):
        target = os.path.join(folder, "llama2.json")
        with open(target, "w") as file:
            file.write(cases.from_sentencepiece(model))
        found.append(("llama2", target))
        content = json.load(open(target))
        names = ["<|endoftext|>", "<|assistant|>", "<|placeholder1|>", "<|placeholder2|>", "<|placeholder3|>",
                 "<|placeholder4|>", "<|system|>", "<|end|>", "<|placeholder5|>", "<|placeholder6|>", "<|user|>"]
        for i, token in enumerate(names):
            content["added_tokens"].append({"id": 32000 + i, "content": token, "single_word": False, "lstrip": False,
                                            "rstrip": i > 0, "normalized": False, "special": True})
        target = os.path.join(folder, "phi-3.5.json")
        json.dump(content, open(target, "w"))
        found.append(("phi-3.5", target))
    return found


def compare_vectors(report, data, name, vectors, ours):
    """llama.cpp's own strings and ids."""
    path = os.path.join(data, "tokenizers", "llama.cpp", f"ggml-vocab-{vectors}.gguf")
    if not os.path.exists(path + ".inp"):
        return
    texts = open(path + ".inp", "rb").read().split(b"\n__ggml_vocab_test__\n")
    expected = [[int(n) for n in line.split()] for line in open(path + ".out").read().split("\n")[: len(texts)]]
    report.compare(f"{name} against llama.cpp's {vectors}", texts, ours.run("encode", texts, []), expected)
    print(f"  llama.cpp {vectors}: {len(texts)} strings")


def compare_tiktoken(report, build, folder, data, bytes_wanted):
    for size, named in ((300, True), (6000, False), (6000, True), (cases.O200K_RANKS, False)):
        texts = None if size < 1000 else cases.training_text() + [t.decode("utf-8", "replace")[:200000] for t in cases.corpus(data, 2000000)]
        pattern = cases.O200K if size == cases.O200K_RANKS else cases.KIMI
        ranks = cases.tiktoken_ranks(min(size, 6000), texts)
        cases.fill_ranks(ranks, size)
        place = os.path.join(folder, f"tiktoken_{size}_{named}")
        os.mkdir(place)
        with open(os.path.join(place, "tiktoken.model"), "wb") as file:
            file.write(cases.tiktoken_file(ranks))
        specials = cases.tiktoken_specials(len(ranks))
        if named:
            with open(os.path.join(place, "tokenizer_config.json"), "w") as file:
                file.write(cases.tiktoken_config(len(ranks)))
        elif pattern == cases.O200K:
            specials = cases.o200k_specials()
        else:
            specials = {f"<|reserved_token_{len(ranks) + i}|>": len(ranks) + i for i in range(256)}
        reference = tiktoken.Encoding("made", pat_str=pattern, mergeable_ranks=ranks, special_tokens=specials)
        ours = Ours(build, folder, place)
        texts = cases.small_texts(11, 300, list(specials)[:20]) + cases.mixed_text(data, bytes_wanted if size > 1000 else 0)
        decoded = [t.decode("utf-8", "replace") for t in texts]
        expected = [reference.encode(t, allowed_special="all") for t in decoded]
        report.compare(f"tiktoken {size}", texts, ours.run("encode", texts, []), expected)
        ordinary = [reference.encode_ordinary(t) for t in decoded]
        report.compare(f"tiktoken {size} ordinary", texts, ours.run("encode", texts, ["--as-text"]), ordinary)
        # Cuts of the ids fall inside characters.
        records = [ids[k:] for ids in expected for k in (0, 1, 2)]
        back = [reference.decode(ids).encode() for ids in records]
        report.compare(f"tiktoken {size} decode", records, ours.run("decode", records, []), back)
        report.bytes += sum(map(len, texts))
        report.texts += len(texts)
    print("  tiktoken: 4 vocabularies")


def cut_ids(records, most=400):
    """Parts of id lists that begin and end anywhere."""
    return [ids[k : k + 7 + k] for ids in records[:most] for k in (1, 2, 3) if len(ids) > k]


def compare_partial_decode(report, name, ours, reference, texts):
    plain = cut_ids([e.ids for e in reference.encode_batch([t.decode("utf-8", "replace") for t in texts[:400]])])
    expected = [reference.decode(ids, skip_special_tokens=False).encode() for ids in plain]
    report.compare(f"{name} decode of parts", plain, ours.run("decode", plain, []), expected)


def speed(build, folder, data, real):
    text = b"".join(cases.corpus(data, 12000000))[:6000000].decode("utf-8", "replace")
    path = os.path.join(folder, "speed.txt")
    with open(path, "wb") as file:
        file.write(text.encode())
    size = len(text.encode())
    print(f"speed, one thread, one text of {size} bytes (prose and code); best of 3 and of 2")
    slowest = None
    for name, target in real:
        if name == "phi-3.5":
            continue
        program = os.path.join(build, "bin", "tokenizer_speed")
        words = subprocess.run([program, target, path, "3"], check=True, capture_output=True, text=True).stdout.split()
        ours = float(words[0])
        reference = Tokenizer.from_file(target)
        theirs = None
        for _ in range(2):
            start = time.perf_counter()
            ids = reference.encode(text, add_special_tokens=False).ids
            taken = time.perf_counter() - start
            theirs = taken if theirs is None else min(theirs, taken)
        assert len(ids) == int(words[1])
        ratio = theirs / ours
        slowest = ratio if slowest is None else min(slowest, ratio)
        print(f"  {name:14} ours {size / ours / 1e6:7.2f} MB/s   tokenizers {size / theirs / 1e6:6.2f} MB/s   ratio {ratio:.1f}")
    return slowest


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--build", default=os.path.join(ROOT, "build", "release"))
    parser.add_argument("--data", default=os.path.join(ROOT, "..", "shared", "data"))
    parser.add_argument("--megabytes", type=float, default=5)
    parser.add_argument("--no-speed", action="store_true")
    parser.add_argument("--speed-only", action="store_true")
    parser.add_argument("--only", help="names that contain this")
    options = parser.parse_args()
    report = Report()
    with tempfile.TemporaryDirectory() as folder:
        real = real_tokenizers(options.data, folder)
        if not options.speed_only:
            for name, tokenizer in cases.small_tokenizers():
                if options.only and options.only not in name:
                    continue
                path = os.path.join(folder, name + ".json")
                tokenizer.save(path)
                ours = Ours(options.build, folder, path)
                texts = cases.small_texts(3, 240, cases.added_texts(tokenizer)[:20])
                compare_tokenizer(report, name, ours, tokenizer, texts)
                compare_partial_decode(report, name, ours, tokenizer, texts)
                print(f"  {name}: {len(texts)} texts", flush=True)
            for name, path in real:
                if options.only and options.only not in name:
                    continue
                reference = Tokenizer.from_file(path)
                ours = Ours(options.build, folder, path)
                added = cases.added_texts(reference)[:20]
                texts = cases.small_texts(5, 400, added)
                compare_partial_decode(report, name, ours, reference, texts)
                texts += cases.mixed_text(options.data, int(options.megabytes * 1e6), 2, added)
                compare_tokenizer(report, name, ours, reference, texts)
                print(f"  {name}: {len(texts)} texts, {sum(map(len, texts))} bytes", flush=True)
                for vectors, owner in (("deepseek-llm", "deepseek-llm"), ("llama-spm", "llama2"), ("phi-3", "phi-3.5")):
                    if owner == name:
                        compare_vectors(report, options.data, name, vectors, ours)
            if not options.only or "tiktoken".startswith(options.only):
                compare_tiktoken(report, options.build, folder, options.data, int(options.megabytes * 1e6))
            print(f"{report.texts} texts, {report.bytes} bytes compared, {report.failures} failures")
        if not options.no_speed:
            slowest = speed(options.build, folder, options.data, real)
            if slowest is not None and slowest < 1:
                print("FAIL slower than the reference")
                report.failures += 1
    return 1 if report.failures else 0


if __name__ == "__main__":
    sys.exit(main())
