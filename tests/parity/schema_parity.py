#!/usr/bin/env python3
"""The JSON Schemas of keys against jsonschema: shipped files are valid, and what metier refuses for a value or a key is not.

    tests/parity/schema_parity.py build/release/bin/metier

Needs jsonschema and PyYAML.
"""
import json
import pathlib
import re
import subprocess
import sys
import tempfile

import jsonschema
import yaml

SHARE = pathlib.Path(__file__).resolve().parents[2] / "share"


class Loader(yaml.SafeLoader):
    """YAML 1.2's scalars, as metier and editors' servers read them; PyYAML's own are 1.1's (1e-4 a text, yes a flag)."""


Loader.yaml_implicit_resolvers = {}
for tag, pattern, first in [("bool", r"true|false", "tf"), ("null", r"null|~|", "n~"), ("int", r"[-+]?[0-9]+", "-+0123456789"),
                            ("float", r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?", "-+.0123456789")]:
    Loader.add_implicit_resolver(f"tag:yaml.org,2002:{tag}", re.compile(f"^(?:{pattern})$"), list(first) + ([""] if tag == "null" else []))

LEAST = "model: m\nout: o\ndata.path: d.jsonl\n"
# (text after LEAST, whether a value or key of it is wrong)
TRAIN = [
    ("", False), ("method: paper\n", False), ("method: dpo\n", True), ("lora:\n  rank: 4\n", False), ("lora.rank: 4\n", False), ("lora:\n", False),
    ("lora.rank: 0\n", True), ("lora.rank: 4.5\n", True), ("lora.rank: many\n", True), ("lora.dropout: 1\n", True), ("lora.dropout: 0.5\n", False),
    ("lora.rnak: 4\n", True), ("lora:\n  rnak: 4\n", True), ("optimizer:\n  lr: 1e-4\n  schedule: linear\n", False), ("optimizer.schedule: poly\n", True),
    ("batch.tokens: auto\n", False), ("batch.tokens: 1\n", True), ("batch.tokens: few\n", True), ("targets: [q_proj, router]\n", False),
    ("targets: q_proj,router\n", False), ("noise: false\n", False), ("noise: no\n", False), ("noise: maybe\n", True), ("objective:\n  beta: 1e-3\nmethod: paper\n", False),
    ("objective.form: cosin\nmethod: paper\n", True), ("gradient_accumulation_steps: 4\n", True), ("lora.alpha: '5'\n", True), ("seed: -1\n", True),
    ("freeze:\n", False), ("freeze: [a, b]\n", False), ("evaluation.split: 1\n", True), ("data.template_date: 2024-01-01\n", False),
]
SOURCES = [("- a.jsonl\n", False), ("- path: a.jsonl\n  weight: 2\n", False), ("- path: a.jsonl\n  weight: 0\n", True), ("- path: a.jsonl\n  wight: 2\n", True),
           ("- path: a.jsonl\n  form: texts\n", True)]


def main():
    metier, checked, failures = sys.argv[1], 0, []
    schema = {}
    for verb in ("train", "compare", "eval", "recipe"):
        schema[verb] = json.loads(subprocess.run([metier, verb, "--schema"], check=True, capture_output=True, text=True).stdout)
        jsonschema.Draft7Validator.check_schema(schema[verb])

    def errors(verb, text):
        return [error.message[:200] for error in jsonschema.Draft7Validator(schema[verb]).iter_errors(yaml.load(text, Loader))]

    for verb, folder, pattern in [("train", "configs", "*.yaml"), ("compare", "configs", "compare*.yaml"), ("eval", "tasks", "*.yaml"), ("recipe", "recipes", "*.yaml")]:
        for path in sorted((SHARE / folder).glob(pattern)):
            if verb == "train" and path.name.startswith("compare"):
                continue
            checked += 1
            failures += [f"{path.name}: {error}" for error in errors(verb, path.read_text())]
    cases = [(LEAST + text, wrong) for text, wrong in TRAIN] + [("model: m\nout: o\ndata.sources:\n" + text, wrong) for text, wrong in SOURCES]
    with tempfile.TemporaryDirectory() as folder:
        for text, wrong in cases:
            checked += 1
            path = pathlib.Path(folder) / "run.yaml"
            path.write_text(text)
            said = subprocess.run([metier, "train", path, "--dry-run"], capture_output=True, text=True).stderr
            refused = f"{path}:" in said  # a line of the file is wrong; that the model is not there is another matter
            if refused != wrong or bool(errors("train", text)) != wrong:
                failures.append(f"{text!r}: metier {'refuses' if refused else 'takes'} it ({said.strip()[:160]}), the schema says {errors('train', text)}")
    print("\n".join(failures) or f"{checked} files and cases: schema and metier agree")
    sys.exit(1 if failures else 0)


main()
