#!/usr/bin/env python3
"""Benchmarks as the hub has them, in Parquet, against the files their authors publish: metier must ask the same and hold
the same answers right.

The rows of a folder of data (share/samples) are written by pyarrow under the names, the columns and the types that the
data sets of docs/evaluation.md have on the hub, in shards of two rows. Then `metier eval` runs on both, with and without
examples, and prompts and right answers of all samples are compared; and `metier recipe`, whose rows must be the same.

Usage: hub_parity.py [--program build/release/bin/metier] [--data share/samples]
"""
import argparse
import csv
import datetime
import glob
import json
import os
import shutil
import subprocess
import sys
import tempfile

try:
    import pyarrow
    import pyarrow.ipc
    import pyarrow.parquet
except ImportError as error:
    print(f"hub_parity: needs a Python with pyarrow: {error}", file=sys.stderr)
    sys.exit(77)

RELATIONS = ["entailment", "neutral", "contradiction"]
PAIRS = ["entailment", "not_entailment"]
# Examples come from elsewhere, or there are none.
WITHOUT_SHOTS = ("bbh", "glue", "humaneval", "mbpp_", "truthfulqa", "numina", "aime", "mmlu_redux", "livebench")


def lines(path):
    with open(path, encoding="utf-8") as file:
        text = file.read()
    if path.endswith(".json"):
        whole = json.loads(text)
        return whole["examples"] if isinstance(whole, dict) else whole
    return [json.loads(line) for line in text.split("\n") if line.strip()]


def table_of(path, names=None):
    with open(path, encoding="utf-8-sig", newline="") as file:
        rows = list(csv.reader(file) if path.endswith(".csv") else (line.rstrip("\r\n").split("\t") for line in file))
    names = names or rows.pop(0)
    return [dict(zip(names, row)) for row in rows if row != [""]]


def write(folder, name, rows):
    """Shards of two rows, named as the hub names them."""
    os.makedirs(folder, exist_ok=True)
    pieces = [rows[i:i + 2] for i in range(0, len(rows), 2)]
    schema = pyarrow.Table.from_pylist(rows).schema
    narrow = [field.with_type(pyarrow.float32()) if field.type == pyarrow.float64() else field for field in schema]
    schema = pyarrow.schema(narrow)  # as STS-B's scores are there
    for i, piece in enumerate(pieces):
        pyarrow.parquet.write_table(pyarrow.Table.from_pylist(piece, schema),
                                    os.path.join(folder, f"{name}-{i:05}-of-{len(pieces):05}.parquet"))


# What a row of GLUE is there.
GLUE = {
    "cola": ("CoLA", lambda r: {"sentence": r["sentence"], "label": int(r["label"])}),
    "sst2": ("SST-2", lambda r: {"sentence": r["sentence"], "label": int(r["label"])}),
    "mnli": ("MNLI", lambda r: {"premise": r["sentence1"], "hypothesis": r["sentence2"],
                                "label": RELATIONS.index(r["gold_label"]) if r["gold_label"] in RELATIONS else -1}),
    "mrpc": ("MRPC", lambda r: {"sentence1": r["#1 String"], "sentence2": r["#2 String"], "label": int(r["Quality"])}),
    "qnli": ("QNLI", lambda r: {"question": r["question"], "sentence": r["sentence"], "label": PAIRS.index(r["label"])}),
    "qqp": ("QQP", lambda r: {"question1": r["question1"], "question2": r["question2"], "label": int(r["is_duplicate"])}),
    "rte": ("RTE", lambda r: {"sentence1": r["sentence1"], "sentence2": r["sentence2"], "label": PAIRS.index(r["label"])}),
    "stsb": ("STS-B", lambda r: {"sentence1": r["sentence1"], "sentence2": r["sentence2"], "label": float(r["score"])}),
    "wnli": ("WNLI", lambda r: {"sentence1": r["sentence1"], "sentence2": r["sentence2"], "label": int(r["label"])}),
}


def mmlu(path):
    rows = table_of(path, ["question", "A", "B", "C", "D", "answer"])
    return [{"question": row["question"], "subject": "s", "choices": [row[letter] for letter in "ABCD"],
             "answer": "ABCD".index(row["answer"])} for row in rows]


def lay_out_others(data, hub):
    """Data sets whose rows are the same in both layouts."""
    same = [("arc_easy", "arc/ARC-Easy"), ("arc_challenge", "arc/ARC-Challenge"), ("hellaswag", "hellaswag"),
            ("winogrande", "winogrande"), ("truthfulqa_mc1", "truthfulqa"), ("truthfulqa_mc2", "truthfulqa"),
            ("numina_cot", "numina")]
    inside = {"hellaswag": "data", "winogrande": "winogrande_xl", "truthfulqa": "multiple_choice", "numina": "data"}
    for _, folder in same:
        for split in ("train", "validation", "test"):
            if os.path.exists(f"{data}/{folder}/{split}.jsonl"):
                write(os.path.join(hub, folder, inside.get(folder, "")), split, lines(f"{data}/{folder}/{split}.jsonl"))
    os.makedirs(f"{hub}/aime")
    pyarrow.parquet.write_table(pyarrow.Table.from_pylist(lines(f"{data}/aime/aime24.jsonl")),
                                f"{hub}/aime/aime_2024_problems.parquet")
    shutil.copy(f"{data}/aime/aime25.jsonl", f"{hub}/aime/test.jsonl")
    for path in glob.glob(f"{data}/mmlu_redux/*.jsonl"):
        subject = os.path.basename(path)[:-len(".jsonl")]
        table = pyarrow.Table.from_pylist(lines(path))
        os.makedirs(f"{hub}/mmlu_redux/{subject}")
        with pyarrow.ipc.new_stream(f"{hub}/mmlu_redux/{subject}/data-00000-of-00001.arrow", table.schema) as file:
            file.write_table(table)
        same.append((f"mmlu_redux_{subject}", path))
    return [task for task, _ in same] + ["aime24", "aime25"] + lay_out_livebench(data, hub)


def lay_out_livebench(data, hub):
    """A data set for each category, with the rows and columns of all of its tasks."""
    tasks = []
    for category in sorted(os.listdir(f"{data}/livebench")):
        rows = []
        for task in sorted(os.listdir(f"{data}/livebench/{category}")):
            rows += lines(f"{data}/livebench/{category}/{task}/question.jsonl")
            tasks.append("livebench_" + ("instructions_" if category == "instruction_following" else "") + task.lower())
        names = list(dict.fromkeys(name for row in rows for name in row))
        rows = [{name: row.get(name) for name in names} for row in rows]
        for row in rows:
            date = row.get("livebench_release_date")
            row["livebench_release_date"] = datetime.datetime.fromisoformat(date) if date else None
        write(f"{hub}/livebench/{category}/data", "test", rows)
    return tasks


def lay_out(data, hub):
    """Writes what there is of `data` in the hub's layout; returns the tasks and recipes that have data now."""
    tasks, recipes = ["gsm8k", "humaneval", "mbpp", "mbpp_sanitized_chat"], ["gsm8k", "mmlu_pro", "mbpp"]
    for split in ("test", "train"):
        write(f"{hub}/gsm8k/main", split, lines(f"{data}/gsm8k/{split}.jsonl"))
    write(f"{hub}/mmlu_pro/data", "test", lines(f"{data}/mmlu_pro/test.jsonl"))
    write(f"{hub}/mmlu_pro/data", "validation", lines(f"{data}/mmlu_pro/mmlu_pro_dev.json"))
    categories = {row["category"] for row in lines(f"{data}/mmlu_pro/mmlu_pro_dev.json")}
    tasks += sorted("mmlu_pro_" + category.replace(" ", "_") for category in categories)
    write(f"{hub}/humaneval/openai_humaneval", "test", lines(f"{data}/humaneval/HumanEval.jsonl"))
    problems = {"full": lines(f"{data}/mbpp/mbpp.jsonl"), "sanitized": lines(f"{data}/mbpp/sanitized-mbpp.json")}
    for config, rows in problems.items():
        for split, low, high in (("prompt", 1, 10), ("test", 11, 510), ("train", 601, 974)):
            chosen = [row for row in rows if low <= row["task_id"] <= high]
            if chosen:
                write(f"{hub}/mbpp/{config}", split, chosen)
    for path in sorted(glob.glob(f"{data}/mmlu/test/*_test.csv")):
        subject = os.path.basename(path)[:-len("_test.csv")]
        tasks.append(f"mmlu_{subject}")
        write(f"{hub}/mmlu/{subject}", "test", mmlu(path))
        dev = f"{data}/mmlu/dev/{subject}_dev.csv"
        if os.path.exists(dev):
            write(f"{hub}/mmlu/{subject}", "dev", mmlu(dev))
    for path in sorted(glob.glob(f"{data}/bbh/tasks/*.json")):
        name = os.path.basename(path)[:-len(".json")]
        tasks.append(f"bbh_{name}")
        write(f"{hub}/bbh/{name}", "test", lines(path))
    for name, (folder, convert) in GLUE.items():
        columns = ["source", "label", "star", "sentence"] if name == "cola" else None
        files = {"train": "train.tsv", "validation_matched" if name == "mnli" else "validation":
                 "dev_matched.tsv" if name == "mnli" else "dev.tsv"}
        for split, file in files.items():
            write(f"{hub}/glue/{name}", split, [convert(row) for row in table_of(f"{data}/glue/{folder}/{file}", columns)])
        tasks.append(f"glue_{name}")
        if name != "stsb":  # whose answer is written 4.2 here and 4.200 there
            recipes.append(f"glue_{name}")
    return tasks + lay_out_others(data, hub), recipes


def samples_of(program, task, data, folder, shots):
    """Prompt and right answer of every sample, with an answer that is the same for all."""
    asked = [program, "eval", task, "--data", data, "--shots", str(shots)]
    done = subprocess.run([*asked, "--questions", "-"], capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"FAILED {task}, {data}: {done.stderr}")
    questions = [json.loads(line) for line in done.stdout.splitlines()]
    answers = os.path.join(folder, "answers.jsonl")
    with open(answers, "w", encoding="utf-8") as file:
        file.writelines(json.dumps({"task": q["task"], "id": q["id"], "answer": "?"}) + "\n" for q in questions)
    out = os.path.join(folder, "out")
    open_doors = ["--without-sandbox"] if task.startswith(("humaneval", "mbpp")) else []  # the answer is no program
    shutil.rmtree(out, ignore_errors=True)
    done = subprocess.run([*asked, "--answers", answers, "--out", out, *open_doors], capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"FAILED {task}, {data}: {done.stderr}")
    def number(text):
        return str(float(text)) if task == "glue_stsb" else text

    samples = [json.loads(line) for path in glob.glob(f"{out}/samples_*.jsonl") for line in open(path, encoding="utf-8")]
    return sorted((q["prompt"], ) for q in questions), sorted(number(str(sample["target"])) for sample in samples)


def recipe_rows(program, recipe, data, folder):
    path = os.path.join(folder, "rows.jsonl")
    done = subprocess.run([program, "recipe", recipe, "--data", data, "--out", path, "--skip-missing"],
                          capture_output=True, text=True)
    if done.returncode != 0:
        return done.stderr.replace(data, "DATA").split(": ")[0]
    return sorted(json.loads(line)["prompt"] + json.loads(line)["completion"] for line in open(path, encoding="utf-8"))


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--program", default="build/release/bin/metier")
    parser.add_argument("--data", default="share/samples")
    arguments = parser.parse_args()
    count = 0
    with tempfile.TemporaryDirectory() as folder:
        hub = os.path.join(folder, "hub")
        tasks, recipes = lay_out(arguments.data, hub)
        if os.path.isdir(f"{arguments.data}/bbh/cot-prompts"):
            shutil.copytree(f"{arguments.data}/bbh/cot-prompts", f"{hub}/bbh/cot-prompts")
        for task in tasks:
            for shots in (0, 1):
                if shots == 1 and task.startswith(WITHOUT_SHOTS):
                    continue
                ours = samples_of(arguments.program, task, hub, folder, shots)
                theirs = samples_of(arguments.program, task, arguments.data, folder, shots)
                if ours != theirs or not ours[1]:
                    sys.exit(f"FAILED {task}, {shots} examples:\n  {ours}\n  {theirs}")
                count += len(ours[1])
        for recipe in recipes:
            ours = recipe_rows(arguments.program, recipe, hub, folder)
            theirs = recipe_rows(arguments.program, recipe, arguments.data, folder)
            if ours != theirs:
                sys.exit(f"FAILED recipe {recipe}:\n  {ours}\n  {theirs}")
    print(f"{len(tasks)} tasks, {count} samples and {len(recipes)} recipes: the same from Parquet as from published files")


if __name__ == "__main__":
    main()
