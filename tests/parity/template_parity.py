#!/usr/bin/env python3
"""Compares chat templates rendered by metier with those rendered by jinja2, in the environment that transformers'
apply_chat_template makes: the same bytes, or a failure in both.

Usage: template_parity.py real BATCH FOLDER        every template in FOLDER (*.jinja, *.json with a chat_template)
       template_parity.py random BATCH COUNT [SEED] templates from a grammar
BATCH is the program template_batch. Real templates are other people's text and not part of this tree; they are in
llama.cpp (models/templates), vLLM (examples), and in the tokenizer_config.json of every model.
"""
import collections
import copy
import datetime
import hashlib
import json
import os
import pathlib
import struct
import subprocess
import sys
import tempfile
import warnings

import template_cases
import template_grammar
from transformers.utils import chat_template_utils

warnings.simplefilter("ignore")  # of what Python thinks about generated code
NOW = datetime.datetime(2024, 7, 26, 13, 5, 9)


def compiled(text):
    template = chat_template_utils._cached_compile_jinja_template(text)
    template.environment.globals["strftime_now"] = NOW.strftime
    return template


def reference(text, cases):
    """For each case (text, generated stretches) or an exception."""
    try:
        template = compiled(text)
    except Exception as error:
        return [error] * len(cases)
    results = []
    for case in cases:
        blocks, stretches = [], []
        try:
            with template.environment.activate_tracker(blocks, stretches):
                for block in template.generate(**copy.deepcopy(case)):  # filters can change lists
                    blocks.append(block)
            results.append(("".join(blocks), stretches))
        except Exception as error:
            results.append(error)
    return results


def ours(batch, jobs):
    """The records of template_batch for [(template, cases)]."""
    with tempfile.TemporaryDirectory() as folder:
        source, target = os.path.join(folder, "in"), os.path.join(folder, "out")
        with open(source, "w") as file:
            json.dump([{"template": t, "cases": c} for t, c in jobs], file)
        subprocess.run([batch, source, target], check=True)
        data = open(target, "rb").read()
    at, texts = 0, []
    while at < len(data):
        (count,) = struct.unpack_from("<I", data, at)
        texts.append(data[at + 4 : at + 4 + count].decode())
        at += 4 + count
    return list(zip(texts[0::3], texts[1::3], texts[2::3]))


def spans(text):
    return [tuple(map(int, s.split("-"))) for s in text.split(",") if s]


def joined(stretches):
    """Neighbours joined, empty ones left out."""
    result = []
    for start, end in stretches:
        if result and result[-1][1] == start:
            result[-1] = (result[-1][0], end)
        elif end > start:
            result.append((start, end))
    return result


def in_bytes(stretches, text):
    """Stretches of characters as stretches of bytes."""
    return joined((len(text[:start].encode()), len(text[:end].encode())) for start, end in stretches)


def compare(expected, got, generated=True):
    """None where both agree, else what differs."""
    state, text, stretches = got
    if isinstance(expected, Exception):
        return None if state != "ok" else f"jinja2: {type(expected).__name__}: {expected}\nours:   {text!r}"
    if state != "ok":
        return f"jinja2: {expected[0]!r}\nours:   {state}: {text}"
    if text != expected[0]:
        at = next((i for i, (a, b) in enumerate(zip(text, expected[0])) if a != b), min(len(text), len(expected[0])))
        return f"jinja2: ...{expected[0][max(0, at - 60):at + 60]!r}\nours:   ...{text[max(0, at - 60):at + 60]!r}"
    if generated and joined(spans(stretches.split(";")[1])) != in_bytes(expected[1], text):
        return f"generated: {in_bytes(expected[1], text)}, ours {stretches}"
    return None


def has_address(text):
    """Whether a text has an address in it, of a generator or function: not the same twice."""
    return text is not None and (" at 0x" in text.lower() or "<function" in text or "<class" in text)


def templates_in(folder):
    """(name, text) of every template, each text once."""
    seen = set()
    for path in sorted(pathlib.Path(folder).rglob("*")):
        if not path.is_file():
            continue
        found = []
        if path.suffix == ".json":
            try:
                given = json.loads(path.read_text()).get("chat_template")
            except (ValueError, AttributeError):
                continue
            if isinstance(given, str):
                found.append((str(path), given))
            elif isinstance(given, list):
                found += [(f"{path}:{t['name']}", t["template"]) for t in given]
        elif path.suffix in (".jinja", ".jinja2"):
            found.append((str(path), path.read_text()))
        for name, text in found:
            key = hashlib.sha256(text.encode()).digest()
            if key not in seen:
                seen.add(key)
                yield name, text


def real(batch, folder):
    cases = list(template_cases.variables())
    equal = raised = templates = bad_templates = 0
    refused = collections.Counter()
    for name, text in templates_in(folder):
        templates += 1
        expected = reference(text, [c for _, c in cases])
        if all(isinstance(e, Exception) for e in expected):
            print(f"{name}: jinja2 itself refuses all: {expected[0]}")
        got = ours(batch, [(text, [c for _, c in cases])])
        wrong = 0
        for (case, _), want, have in zip(cases, expected, got):
            difference = compare(want, have)
            if difference is None:
                equal += 1
                raised += isinstance(want, Exception)
            else:
                wrong += 1
                if have[0] == "not supported":
                    refused[have[1]] += 1
                if wrong <= 2:
                    print(f"{name} [{case}]\n{difference}")
        bad_templates += wrong > 0
    total = templates * len(cases)
    print(f"{templates} templates, {total} cases: {equal} equal ({raised} of them refused by both), {total - equal} not; {bad_templates} templates differ somewhere")
    for message, count in refused.most_common(20):
        print(f"  {count} x {message}")
    return equal == total


def random_templates(batch, count, seed):
    wrong = refused = raised = done = 0
    variables = template_grammar.VARIABLES
    for first in range(0, count, 2000):
        texts = [template_grammar.template(seed * 1000003 + first + i) for i in range(min(2000, count - first))]
        records = ours(batch, [(t, [variables]) for t in texts])
        for text, have in zip(texts, records):
            (want,) = reference(text, [variables])
            done += 1
            raised += isinstance(want, Exception)
            if have[0] == "not supported":
                refused += 1
                continue
            if not isinstance(want, Exception) and has_address(want[0]):
                continue
            difference = compare(want, have, generated=False)
            if difference is not None:
                wrong += 1
                if wrong <= 40:
                    print(f"{text!r}\n{difference}\n")
    print(f"{done} random templates: {wrong} differ; {raised} raise in jinja2; {refused} refused by name here")
    return wrong == 0


if __name__ == "__main__":
    if sys.argv[1] == "real":
        sys.exit(0 if real(sys.argv[2], sys.argv[3]) else 1)
    sys.exit(0 if random_templates(sys.argv[2], int(sys.argv[3]), int(sys.argv[4]) if len(sys.argv) > 4 else 1) else 1)
