#!/usr/bin/env python3
"""Compares conversations as ids with transformers' apply_chat_template: the same ids of the whole conversation and of the
prompt, and, where the template has {% generation %} marks, the same trained tokens as its assistant mask. For other
templates: what is trained on must hold the answers and nothing a user said.

Usage: conversation_parity.py TOOL TOKENIZERS TEMPLATES [TOKENIZER...] [-v]
TOOL is the program conversation_tool; TOKENIZERS a folder of folders with tokenizer.json (or .gz); TEMPLATES a folder in
which *.jinja are looked for. Tokenizers and templates are other people's and not part of this tree; every special token a
template writes is added to the tokenizer, so that any template can be compared on any tokenizer.
"""
import collections
import datetime
import gzip
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile

from transformers import PreTrainedTokenizerFast
from transformers.utils import chat_template_utils

DATE = datetime.datetime(2024, 7, 26, 12)
SPECIAL = re.compile(r"<\|[^|<>\s{}'\"]{1,40}\|>|<｜[^｜<>\s{}'\"]{1,40}｜>|<(?:start|end)_of_turn>|\[/?INST\]|\[/?[A-Z_]{3,20}\]")
MARKS = re.compile(r"\{%[-+]?\s*(?:end)?generation\s*[-+]?%\}")
TOOL = {"type": "function", "function": {"name": "weather", "description": "Of a city", "parameters": {
    "type": "object", "properties": {"city": {"type": "string", "description": "which"}}, "required": ["city"]}}}


def u(text):
    return {"role": "user", "content": text}


def a(text, **more):
    return {"role": "assistant", "content": text, **more}


CALL = {"type": "function", "id": "call00001", "function": {"name": "weather", "arguments": {"city": "Zürich", "n": 3}}}
ROWS = [
    {"messages": [u("What is 17 + 25?"), a("17 + 25 = 42.")]},
    {"messages": [{"role": "system", "content": "Be brief."}, u("Hello"), a("Hi!")]},
    {"messages": [u("one"), a("1"), u("two"), a("2"), u("three"), a("3, and that is all there is.")]},
    {"messages": [u("  leading and trailing \n\n"), a("\n\n  white space \n")]},
    {"messages": [u("naïve café, 東京 👩‍👩‍👧 émigré"), a("e\u0301 and \u1e9b\u0323 🙂🏽 العربية ไทย")]},
    {"messages": [u("code"), a("```python\ndef f(x):\n    return x**2\n```\n\n\tdone")]},
    {"messages": [u("think"), a("<think>\nhm, 2*3\n</think>\n\n6")]},
    {"messages": [u("a"), a("<think>\nfirst\n</think>\n\nb"), u("c"), a("<think>\nsecond\n</think>\n\nd")]},
    {"messages": [u("a"), a("b", reasoning_content="because"), u("c"), a("d", reasoning_content="since")]},
    {"messages": [u("Weather?"), a("Let me see.", tool_calls=[CALL]), {"role": "tool", "name": "weather", "tool_call_id": "call00001", "content": "12 °C"},
                  a("It is 12 °C.")], "tools": [TOOL]},
    {"messages": [u("Weather?"), a("", tool_calls=[CALL]), {"role": "tool", "name": "weather", "tool_call_id": "call00001", "content": "12 °C"},
                  a("12."), u("thanks"), a("welcome")], "tools": [TOOL]},
    {"messages": [u("empty"), a("")]},
    {"messages": [u("a list:\n- x\n- y"), a("1. p\n2. q\n\n"), u("."), a("...")]},
]


def load(path):
    for name in ("tokenizer.json", "tokenizer.json.gz"):
        file = path / name
        if file.exists():
            data = file.read_bytes()
            return json.loads(gzip.decompress(data) if name.endswith("gz") else data)
    return None


def prepare(source, templates, folder):
    """The tokenizer with the special tokens of all templates, written to a folder; transformers' one of the same files."""
    tokenizer = json.loads(json.dumps(source))
    have = {t["content"] for t in tokenizer["added_tokens"]} | set(tokenizer["model"]["vocab"])
    specials = [t["content"] for t in tokenizer["added_tokens"] if t["special"]]
    bos = next((t for t in specials if "begin" in t or t == "<s>"), specials[0] if specials else "<s>")
    eos = next((t for t in specials if "end" in t or t == "</s>"), specials[-1] if specials else "</s>")
    number = max([t["id"] for t in tokenizer["added_tokens"]] + list(tokenizer["model"]["vocab"].values())) + 1
    for name in sorted({name for template in templates for name in SPECIAL.findall(template)} - have):
        tokenizer["added_tokens"].append({"id": number, "content": name, "single_word": False, "lstrip": False,
                                          "rstrip": False, "normalized": False, "special": True})
        number += 1
    (folder / "tokenizer.json").write_text(json.dumps(tokenizer, ensure_ascii=False))
    (folder / "tokenizer_config.json").write_text(json.dumps({"bos_token": bos, "eos_token": eos}, ensure_ascii=False))
    (folder / "rows.jsonl").write_text("".join(json.dumps(row, ensure_ascii=False) + "\n" for row in ROWS))
    return PreTrainedTokenizerFast(tokenizer_file=str(folder / "tokenizer.json"), bos_token=bos, eos_token=eos)


def ours(tool, folder, template):
    """A record for every row, or the sentence the template is refused with."""
    (folder / "t.jinja").write_text(template)
    run = subprocess.run([tool, str(folder), str(folder / "t.jinja"), str(folder / "rows.jsonl")], capture_output=True, text=True)
    return [json.loads(line) for line in run.stdout.splitlines()] if run.returncode == 0 else run.stderr.strip()


def reference(tokenizer, row, marks):
    """(ids, mask or None, prompt ids) or the exception."""
    try:
        out = tokenizer.apply_chat_template(row["messages"], tools=row.get("tools"), tokenize=True, return_dict=True,
                                            return_assistant_tokens_mask=marks)
    except Exception as error:
        return error
    try:
        prompt = tokenizer.apply_chat_template(row["messages"], tools=row.get("tools"), tokenize=True, return_dict=True,
                                               add_generation_prompt=True)["input_ids"]
    except Exception:
        prompt = None
    return out["input_ids"], out.get("assistant_masks"), prompt


def judge(tokenizer, row, want, got, marks):
    """What is wrong, or None; or a word in parentheses: both refuse, or only we do more."""
    if isinstance(want, Exception):
        return "(both refuse)" if "error" in got else "(only theirs refuses)"
    ids, mask, prompt = want
    if "error" in got:
        unfound = "none of the answers can be found" in got["error"]
        text = tokenizer.decode(ids)
        # An answer's words without its calls are not the answer.
        written = any(len(m["content"].strip()) > 3 and m["content"].strip() in text
                      for m in row["messages"] if m["role"] == "assistant" and not m.get("tool_calls"))
        return "(there is nothing to train on)" if unfound and (marks and not any(mask) or not written) else "ours refuses: " + got["error"]
    if ids != got["ids"]:
        return "other ids"
    if prompt is not None and got["prompt"] and prompt != got["prompt"]:
        return "another prompt"
    if marks:
        return None if mask == got["trained"] else last_characters(mask, got["trained"])
    said = tokenizer.decode([i for i, t in zip(ids, got["trained"]) if t])
    answers = [m["content"].split("</think>")[-1].strip() for m in row["messages"] if m["role"] == "assistant" and not m.get("tool_calls")]
    missing = [x for x in answers if len(x) > 1 and x not in said and x in tokenizer.decode(ids)]
    if missing and not got["lost"]:
        return "an answer is not trained on: %r not in %r" % (missing[0], said)
    for m in row["messages"]:
        if m["role"] == "user" and len(m["content"].strip()) > 5 and m["content"].strip() in said:
            return "a user's words are trained on: %r" % said
    return None


def last_characters(mask, trained):
    """Of a last character that is several tokens (a byte each, or a space put in front of it), theirs takes the first; and
    for a stretch that is empty, the token around it."""
    more = [i for i, (m, t) in enumerate(zip(mask, trained)) if t > m]
    less = [i for i, (m, t) in enumerate(zip(mask, trained)) if t < m]
    if all(1 in mask[max(i - 3, 0):i] for i in more) and all(not any(mask[max(i - 1, 0):i] + mask[i + 1:i + 2]) for i in less):
        return "(theirs takes part of a character, or an empty stretch)"
    return "another mask"


def compare(tool, folder, theirs, name, template, totals):
    try:
        compiled = chat_template_utils._compile_jinja_template(template)
    except Exception:
        totals["templates jinja2 refuses"] += 1
        return
    compiled.environment.globals["strftime_now"] = DATE.strftime
    theirs.chat_template = template
    records = ours(tool, folder, template)
    if isinstance(records, str):
        totals["TEMPLATES WE REFUSE"] += 1
        print(f"{name}: {records}")
        return
    marks = bool(MARKS.search(template))
    # Without its marks, answers are found by rendering: that should give the same.
    unmarked = ours(tool, folder, MARKS.sub("", template)) if marks else [{}] * len(ROWS)
    totals["templates"] += 1
    totals["templates with marks"] += marks
    for number, (row, got, bare) in enumerate(zip(ROWS, records, unmarked)):
        want = reference(theirs, row, marks)
        verdict = judge(theirs, row, want, got, marks)
        totals["conversations"] += 1
        for key in ("lost", "other", "unended"):
            totals["answers: " + key] += got.get(key, 0)
        if verdict is None:
            totals["same"] += 1
            totals["same masks"] += marks
        elif verdict.startswith("("):
            totals[verdict] += 1
        else:
            totals["DIFFERENT"] += 1
            print(f"{name} row {number}: {verdict}"[:400])
        if marks and "ids" in bare and bare["ids"] == got.get("ids"):
            same = bare["trained"] == got["trained"]
            totals["by rendering as by marks" if same else "by rendering otherwise than by marks"] += 1
            if not same and "-v" in sys.argv:
                print(f"{name} row {number}: marks {shown(theirs, got)!r}, rendering {shown(theirs, bare)!r}")


def shown(tokenizer, record):
    return tokenizer.decode([i for i, t in zip(record["ids"], record["trained"]) if t])


def main():
    tool, tokenizers, templates = sys.argv[1:4]
    chosen = [word for word in sys.argv[4:] if word != "-v"]
    totals = collections.Counter()
    seen = {}
    for file in sorted(pathlib.Path(templates).rglob("*.jinja")):
        seen.setdefault(file.read_text(errors="replace"), os.path.relpath(file, templates))
    for source in sorted(pathlib.Path(tokenizers).iterdir()):
        tokenizer = load(source) if source.is_dir() and (not chosen or source.name in chosen) else None
        if tokenizer is None:
            continue
        totals["tokenizers"] += 1
        with tempfile.TemporaryDirectory() as place:
            theirs = prepare(tokenizer, seen, pathlib.Path(place))
            for template, name in seen.items():
                compare(tool, pathlib.Path(place), theirs, f"{source.name} {name}", template, totals)
    for key, value in sorted(totals.items()):
        print(f"{key}: {value}")
    return 1 if totals["DIFFERENT"] or totals["templates"] == 0 else 0


if __name__ == "__main__":
    sys.exit(main())
