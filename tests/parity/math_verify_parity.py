#!/usr/bin/env python3
"""Mathematical answers judged by metier and by math-verify.

Right answers of MATH-500 and Numina, each also as it may be written otherwise (another form of fraction, spaces,
separators, a name before it, ...) and as it must not be (a digit, the sign or the order changed). How a pair was made
says whether it is right, and so who is right where the two judges differ. The answers of tests/eval/labelled/math.jsonl
are compared, too: there the label says it.

Usage: math_verify_parity.py [--data FOLDER] [--golds N] [--program build/release/bin/metier] [--verbose]
FOLDER holds math500/test.jsonl and numina/; N right answers are taken, evenly (300). Needs math-verify.
"""
import argparse
import collections
import gzip
import json
import logging
import os
import re
import subprocess
import sys
import tempfile

try:
    from math_verify import parse, verify
except ImportError as error:
    print(f"math_verify_parity: needs a Python with math-verify: {error}", file=sys.stderr)
    sys.exit(77)

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))


def read_golds(folder):
    golds = []
    for name, field in (("math500/test.jsonl", "answer"), ("numina/numina15_1k_problems.jsonl.gz", "reference_answer")):
        path = os.path.join(folder, name)
        if not os.path.exists(path):
            continue
        with (gzip.open if name.endswith("gz") else open)(path, "rt", encoding="utf-8") as file:
            golds += [re.sub(r"\s+", " ", str(json.loads(line)[field])).strip() for line in file]
    return sorted(set(gold for gold in golds if gold))


# ---------------------------------------------------------------- forms: (name, right, text)

def forms(gold):
    words = re.search(r"[A-Za-z]{3}", re.sub(r"\\[A-Za-z]+", "", gold)) is not None
    number = re.fullmatch(r"-?\d+", gold) is not None
    fraction = re.fullmatch(r"(-?)\\[dt]?frac\{(\d+)\}\{(\d+)\}", gold)
    pair = re.fullmatch(r"\((-?\d+), ?(-?\d+)\)", gold)
    yield "itself", True, gold
    yield "in dollar signs", True, f"${gold}$"
    if "\\frac" in gold:
        yield "\\dfrac", True, gold.replace("\\frac", "\\dfrac")
    if not words and "=" not in gold and "," not in gold and "\\in" not in gold and "<" not in gold and ">" not in gold:
        yield "x = before it", True, f"x = {gold}"
    if number:
        yield "with a unit", True, gold + "\\text{ cm}"
        yield "as a decimal", True, gold + ".0"
        yield "as a fraction", True, f"\\frac{{{2 * int(gold)}}}{{2}}"
        yield "as a sum", True, f"{int(gold) - 1}+1"
        yield "a million times", False, gold + "\\text{ million}" if gold != "0" else "1"
        if len(gold.lstrip("-")) > 3:
            yield "thousands, {,}", True, f"{int(gold):,}".replace(",", "{,}")
            yield "thousands, ,\\!", True, f"{int(gold):,}".replace(",", ",\\!")
            yield "thousands, space", True, f"{int(gold):,}".replace(",", "\\,")
    if fraction:
        sign, over, under = fraction.groups()
        yield "a/b", True, f"{sign}{over}/{under}"
        yield "\\over", True, f"{sign}{{{over} \\over {under}}}"
        yield "not in lowest terms", True, f"{sign}\\frac{{{3 * int(over)}}}{{{3 * int(under)}}}"
        yield "turned over", over == under, f"{sign}\\frac{{{under}}}{{{over}}}"
    if pair:
        yield "the other order", pair[1] == pair[2], f"({pair[2]}, {pair[1]})"
        yield "square brackets", False, f"[{pair[1]}, {pair[2]}]"
    if "\\sqrt" in gold and not words:
        yield "\\sqrt without braces", True, re.sub(r"\\sqrt\{(\d)\}", r"\\sqrt\1", gold)
    digits = [match.start() for match in re.finditer(r"\d", gold)]
    for at in digits[-1:] + digits[:1] if len(digits) > 1 else digits:
        yield "a digit changed", False, gold[:at] + str((int(gold[at]) + 1) % 10) + gold[at + 1:]
    if number and gold != "0":
        yield "the sign changed", False, gold[1:] if gold[0] == "-" else "-" + gold
        yield "one more", False, f"{gold}+1"


def labelled():
    with open(os.path.join(ROOT, "tests/eval/labelled/math.jsonl"), encoding="utf-8") as file:
        for line in map(json.loads, file):
            name = "labelled, in a box" if "\\boxed" in line["answer"] else "labelled, in prose"
            yield line["gold"], name, line["right"], line["answer"]


# ---------------------------------------------------------------- judges

def ask_metier(program, pairs):
    with tempfile.TemporaryDirectory() as folder:
        rows = [{"id": str(i), "problem": "?", "reference_answer": gold} for i, (gold, _, _, _) in enumerate(pairs)]
        answers = [{"task": "numina", "id": str(i), "answer": text} for i, (_, _, _, text) in enumerate(pairs)]
        for name, lines in (("rows", rows), ("answers", answers)):
            with open(os.path.join(folder, name + ".jsonl"), "w", encoding="utf-8") as file:
                file.writelines(json.dumps(line) + "\n" for line in lines)
        with open(os.path.join(ROOT, "share/tasks/numina.yaml"), encoding="utf-8") as file:
            task = re.sub(r"^data: .*$", "data: rows.jsonl", file.read(), flags=re.MULTILINE)
        path = os.path.join(folder, "numina.yaml")
        with open(path, "w", encoding="utf-8") as file:
            file.write(task)
        out = os.path.join(folder, "out")
        subprocess.run([program, "eval", path, "--data", folder, "--answers", os.path.join(folder, "answers.jsonl"),
                        "--out", out, "--quiet"], check=True, stdout=subprocess.DEVNULL)
        with open(os.path.join(out, "samples_numina.jsonl"), encoding="utf-8") as file:
            scores = {line["id"]: line["score"] for line in map(json.loads, file)}
    return [scores[str(i)] == 1.0 for i in range(len(pairs))]


def ask_math_verify(pairs):
    logging.disable(logging.CRITICAL)
    parsed = {}

    def read(text):
        if text not in parsed:
            parsed[text] = parse(text)
        return parsed[text]

    return [bool(verify(read(f"\\boxed{{{gold}}}"), read(text))) for gold, _, _, text in pairs]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", default=os.path.join(ROOT, "../shared/data"))
    parser.add_argument("--golds", type=int, default=300)
    parser.add_argument("--program", default=os.path.join(ROOT, "build/release/bin/metier"))
    parser.add_argument("--verbose", action="store_true")
    arguments = parser.parse_args()
    golds = read_golds(arguments.data)
    if not golds:
        print("math_verify_parity: skipped, no right answers below " + arguments.data)
        return 77
    step = max(1, len(golds) // arguments.golds)
    pairs = [(gold, name, right, f"\\boxed{{{text}}}") for gold in golds[::step] for name, right, text in forms(gold)]
    pairs += labelled()
    ours = ask_metier(arguments.program, pairs)
    theirs = ask_math_verify(pairs)
    table = collections.OrderedDict()
    for (gold, name, right, text), mine, other in zip(pairs, ours, theirs):
        row = table.setdefault(name, [0, 0, 0, 0, 0])
        row[0] += 1
        row[1] += mine == other
        row[2] += mine == right != other
        row[3] += other == right != mine
        row[4] += mine == other != right
        if arguments.verbose and (mine != right or other != right):
            print(f"{name}: {'right' if right else 'wrong'}, metier says {mine}, math-verify {other}: {gold!r} {text!r}")
    print("| form | pairs | same verdict | metier is right | math-verify is right | both are wrong |\n|---|---|---|---|---|---|")
    for name, row in table.items():
        print(f"| {name} | " + " | ".join(map(str, row)) + " |")
    sums = [sum(row[i] for row in table.values()) for i in range(5)]
    print("| all | " + " | ".join(map(str, sums)) + " |")
    return 1 if sums[3] + sums[4] > sums[0] // 100 else 0


if __name__ == "__main__":
    sys.exit(main())
