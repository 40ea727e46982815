"""The paper's benchmarks for lm_eval_parity.py: the harness's task files, ours, and rows in the layout of each.

Rows come from FOLDER (docs/evaluation.md says which files). Where the public files lack some, rows are made in the data
set's own layout, which `made` says: MNLI and QQP as tables (of other copies), BBH's tasks without a file (questions and
worked examples of the harness's own file), GPQA, HumanEval+."""
import csv
import gzip
import json
import os
import re

import yaml

GLUE = {  # ours: theirs, file, columns where the file has none, labels, metric
    "glue_cola": ("cola", "CoLA", ["source", "label", "star", "sentence"], ["0", "1"], "mcc"),
    "glue_sst2": ("sst2", "SST-2", None, ["0", "1"], "acc"),
    "glue_mrpc": ("mrpc", "MRPC", None, ["0", "1"], "acc"),
    "glue_qqp": ("qqp", "QQP", None, ["0", "1"], "acc"),
    "glue_mnli": ("mnli", "MNLI", None, ["entailment", "neutral", "contradiction"], "acc"),
    "glue_qnli": ("qnli", "QNLI", None, ["entailment", "not_entailment"], "acc"),
    "glue_rte": ("rte", "RTE", None, ["entailment", "not_entailment"], "acc"),
    "glue_wnli": ("wnli", "WNLI", None, ["0", "1"], "acc"),
}
RENAMED = {"#1 String": "sentence1", "#2 String": "sentence2", "Quality": "label", "is_duplicate": "label",
           "gold_label": "label"}


def opened(path):
    if not os.path.exists(path) and os.path.exists(path + ".gz"):
        return gzip.open(path + ".gz", "rt", encoding="utf-8-sig", newline="")
    return open(path, encoding="utf-8-sig", newline="")


def json_lines(path):
    with opened(path) as file:
        return [json.loads(line) for line in file]


def json_file(path):
    with opened(path) as file:
        return json.load(file)


def write_json_lines(path, rows):
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "w", encoding="utf-8") as file:
        file.writelines(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)


def write_text(path, text):
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "w", encoding="utf-8") as file:
        file.write(text)


def table_rows(path, names=None):
    """GLUE's tables: tabs, and no quoting."""
    with opened(path) as file:
        lines = [line.rstrip("\r\n").split("\t") for line in file]
    if names is None:
        names, lines = lines[0], lines[1:]
    return [dict(zip(names, line)) for line in lines]


def redux_row(row, error):
    return {**row, "error_type": error, "source": None, "correct_answer": None, "potential_reason": None}


class Task:
    """One task: ours, the harness's file, its rows by split; its metric and filters, and which of ours these are, in order
    (the first ones, unless `readings` says otherwise). `judge`: what judges there where rules differ on purpose."""

    def __init__(self, ours, theirs, splits, metric, filters=("none",), shots=0, made="", extra=None, judge="", readings=None):
        self.ours, self.theirs, self.splits, self.metric = ours, theirs, splits, metric
        self.filters, self.shots, self.made, self.extra = filters, shots, made, extra or {}
        self.judge, self.readings = judge, readings or range(len(filters))

    @property
    def test(self):
        """The split that is asked."""
        return next(name for name in ("test", "validation", "validation_matched", "train") if name in self.splits)

    @property
    def label(self):
        """The metric's name here."""
        if self.ours.startswith("mmlu_redux"):
            return "acc"
        return {"pass_at_1": "pass@1"}.get(self.metric, self.metric)

    @property
    def chooses(self):
        return self.metric in ("acc", "mcc")


class Benchmarks:
    """Every benchmark; `folder` becomes the folder of data that metier reads: the files of `data`, and rows made here."""

    def __init__(self, harness, data, folder):
        self.harness, self.data, self.folder = harness, os.path.abspath(data), folder
        for name in os.listdir(self.data):
            self.link(name)

    def link(self, name):
        """A folder of links, so that files can be put beside those of `data`."""
        source, target = os.path.join(self.data, name), os.path.join(self.folder, name)
        if not os.path.isdir(source):
            os.symlink(source, target)
            return
        for root, _, files in os.walk(source):
            below = os.path.join(self.folder, name, os.path.relpath(root, source))
            os.makedirs(below, exist_ok=True)
            for file in files:
                os.symlink(os.path.join(root, file), os.path.join(below, file))

    def at(self, *parts):
        return os.path.join(self.folder, *parts)

    def own(self, name):
        """The harness's task file, without its functions."""
        class Loader(yaml.SafeLoader):
            pass
        Loader.add_multi_constructor("!", lambda loader, suffix, node: None)
        with open(os.path.join(self.harness, name), encoding="utf-8") as file:
            return yaml.load(file, Loader)

    def tasks(self):
        for make in (self.gsm8k, self.mmlu, self.mmlu_pro, self.bbh, self.glue, self.gpqa, self.math500,
                     self.aime, self.mmlu_redux, self.code):
            yield from make()

    def gsm8k(self):
        splits = {name: json_lines(self.at("gsm8k", name + ".jsonl")) for name in ("train", "test")}
        yield Task("gsm8k", "gsm8k/gsm8k.yaml", splits, "exact_match", ("strict-match", "flexible-extract"), 5)

    def mmlu(self):
        def rows(split, subject):
            with opened(self.at("mmlu", split, f"{subject}_{split}.csv")) as file:
                return [{"question": row[0], "choices": row[1:5], "answer": "ABCD".index(row[5])}
                        for row in csv.reader(file)]
        for name in sorted(os.listdir(self.at("mmlu", "test"))):
            subject = re.sub("_test.csv(.gz)?", "", name)
            yield Task(f"mmlu_{subject}", f"mmlu/default/mmlu_{subject}.yaml",
                       {split: rows(split, subject) for split in ("dev", "test")}, "acc", shots=5)

    def mmlu_pro(self):
        test = json_lines(self.at("mmlu_pro/test.jsonl"))
        validation = json_file(self.at("mmlu_pro/mmlu_pro_dev.json"))
        for row in validation:  # the hub's rows have none of these
            row["options"] = [option for option in row["options"] if option != "N/A"]
        for category in sorted({row["category"] for row in test}):
            name = category.replace(" ", "_")
            yield Task(f"mmlu_pro_{name}", f"mmlu_pro/mmlu_pro_{name}.yaml",
                       {"test": [row for row in test if row["category"] == category],
                        "validation": [row for row in validation if row["category"] == category]},
                       "exact_match", ("custom-extract",), 5)

    def make_bbh(self, name):
        """Worked examples as the authors' file has them, and their questions as rows, out of the harness's file."""
        own = self.own(f"bbh/cot_fewshot/{name}.yaml")
        shots = own["fewshot_config"]["samples"]
        pieces = [own["doc_to_text"].replace("{{input}}", shot["input"]) + shot["target"] for shot in shots]
        write_text(self.at("bbh/cot-prompts", name + ".txt"),
                   "made\n-----\n" + own["description"] + "\n\n".join(pieces))
        rows = [{"input": shot["input"], "target": re.sub(r"(?s).*the answer is (.*).", r"\1", shot["target"])}
                for shot in shots]
        write_text(self.at("bbh/tasks", name + ".json"), json.dumps({"examples": rows}))

    def bbh(self):
        for name in sorted(os.listdir(os.path.join(self.harness, "bbh/cot_fewshot"))):
            name, ending = os.path.splitext(name)
            if ending != ".yaml" or name.startswith("_"):
                continue
            made = not any(os.path.exists(self.at("bbh/tasks", name + ".json" + end)) for end in ("", ".gz"))
            if made:
                self.make_bbh(name)
            yield Task(f"bbh_{name}", f"bbh/cot_fewshot/{name}.yaml",
                       {"test": json_file(self.at("bbh/tasks", name + ".json"))["examples"]}, "exact_match",
                       ("get-answer",), 3, "rows and examples of the harness's file" if made else "")

    def make_glue(self):
        """MNLI and QQP as the tables gluebenchmark.com has, of copies in JSON."""
        lines = ["index\tsentence1\tsentence2\tgold_label"]
        for i, row in enumerate(json_lines(self.at("glue/MNLI/dev_matched.jsonl"))):
            lines.append("\t".join([str(i), row["premise"], row["hypothesis"], row["label"]]))
        write_text(self.at("glue/MNLI/dev_matched.tsv"), "\n".join(lines) + "\n")
        lines = ["id\tqid1\tqid2\tquestion1\tquestion2\tis_duplicate"]
        for i, row in json_file(self.at("glue/subset_QQP/dev.json")).items():
            one, other = (row[key].replace("\t", " ") for key in ("text_a", "text_b"))
            lines.append("\t".join([i, i, i, one, other, row["label"]]))
        write_text(self.at("glue/QQP/dev.tsv"), "\n".join(lines) + "\n")

    def glue(self):
        self.make_glue()
        for ours, (theirs, folder, names, labels, metric) in GLUE.items():
            file = "dev_matched.tsv" if theirs == "mnli" else "dev.tsv"
            rows = [{RENAMED.get(key, key): value for key, value in row.items()}
                    for row in table_rows(self.at("glue", folder, file), names)]
            if theirs == "mnli":
                rows = [{**row, "premise": row["sentence1"], "hypothesis": row["sentence2"]} for row in rows]
            rows = [{**row, "label": labels.index(row["label"])} for row in rows]
            yield Task(ours, f"glue/{theirs}/default.yaml",
                       {"validation_matched" if theirs == "mnli" else "validation": rows}, metric,
                       made="a table of a copy" if theirs in ("mnli", "qqp") else "",
                       extra={"training_split": None})

    def gpqa(self):
        names = ["Question", "Correct Answer", "Incorrect Answer 1", "Incorrect Answer 2", "Incorrect Answer 3"]
        rows = [dict(zip(names, [f" What is {i} + {i}?  Think twice. ", f"{2 * i} ", f"{2 * i + 1}",
                                 f"  {2 * i}  plus one [title]", f"{3 * i + 5}"])) for i in range(1, 41)]
        os.makedirs(self.at("gpqa"), exist_ok=True)
        with open(self.at("gpqa/gpqa_diamond.csv"), "w", encoding="utf-8", newline="") as file:
            writer = csv.DictWriter(file, names)
            writer.writeheader()
            writer.writerows(rows)
        yield Task("gpqa", "gpqa/zeroshot/gpqa_diamond_zeroshot.yaml", {"train": rows}, "acc", made="forty sums")

    def math500(self):
        yield Task("math500", "minerva_math/minerva_math500.yaml",
                   {"test": json_lines(self.at("math500/test.jsonl"))}, "exact_match", shots=4, judge="SymPy")

    def aime(self):
        """2024's problems, and 2023's in the layout of 2025's data set."""
        rows = json_lines(self.at("numina/aimo-validation-aime.jsonl"))
        for year, split, there, columns in (("24", "train", "2024", ("ID", "Problem", "Answer")),
                                            ("25", "test", "2023", ("id", "problem", "answer"))):
            made = [dict(zip(columns, (f"{i}", row["question"], row["answer"])))
                    for i, row in enumerate(row for row in rows if f"/{there}_AIME" in row["url"])]
            write_json_lines(self.at(f"aime/aime{year}.jsonl"), made)
            yield Task(f"lm_eval_aime{year}", f"aime/aime{year}.yaml", {split: made}, "exact_match", judge="equal texts",
                       made=f"problems of {there}")

    def mmlu_redux(self):
        """MMLU's rows as MMLU-Redux 2.0 has them, every fifth said to be wrong; the harness reads a copy without these."""
        for task in self.mmlu():
            subject = task.ours.removeprefix("mmlu_")
            rows = [redux_row(row, "ok" if i % 5 else "wrong_groundtruth") for i, row in enumerate(task.splits["test"])]
            write_json_lines(self.at(f"mmlu_redux/{subject}.jsonl"), rows)
            yield Task(f"mmlu_redux_{subject}", f"mmlu-redux/generative/mmlu_{subject}.yaml",
                       {"test": [row for row in rows if row["error_type"] == "ok"]}, "exact_match", ("default",),
                       made="MMLU's rows", readings=[1])

    def code(self):
        humaneval = json_lines(self.at("humaneval/HumanEval.jsonl"))
        write_json_lines(self.at("humaneval_plus/test.jsonl"), humaneval)
        mbpp = [row for row in json_lines(self.at("mbpp/mbpp.jsonl")) if 11 <= row["task_id"] <= 510]
        yield Task("humaneval", "humaneval/humaneval.yaml", {"test": humaneval}, "pass@1", ("create_test",))
        yield Task("humaneval_plus", "humaneval/humaneval_plus.yaml", {"test": humaneval}, "pass@1", ("create_test",),
                   made="HumanEval's rows")
        yield Task("mbpp", "mbpp/mbpp.yaml", {"test": mbpp}, "pass_at_1", shots=3)


# ---------------------------------------------------------------- answers for both to judge

def boxed(text):
    """What the last box holds; None: there is no sound one."""
    at = text.rfind("\\boxed{")
    depth = 0
    for i in range(at + 6, len(text) if at >= 0 else 0):
        depth += {"{": 1, "}": -1}.get(text[i], 0)
        if depth == 0:
            return text[at + 7:i]
    return None


# Programs, right and wrong: with more behind a stop text, output, no function, an early end, a fence, an error, a question.
BODIES = ("SOLUTION", "SOLUTION\ndef check(candidate):\n    assert False\n", "SOLUTION\nprint(undefined)\n",
          "    return None\n", "    raise SystemExit(0)\n", "return 1\n", "    import os\n    os._exit(0)\n",
          "    return input()\n", "    pass\nSOLUTION")
PROGRAMS = ("SOLUTION", "SOLUTION\n[DONE]\nmore", "print('x' * 100000)\nSOLUTION\nprint(1)", "def nothing():\n    pass",
            "SOLUTION\nraise SystemExit(0)", "```python\nSOLUTION\n```", "SOLUTION\nassert False", "SOLUTION\ninput()", "")


def answered(harness, labelled, benchmarks, folder):
    """Tasks with answers: the labelled ones, each to a question made for it, and programs that are right and wrong."""
    def rows_of(name):
        return json_lines(os.path.join(labelled, name + ".jsonl"))

    def made(name, file, rows, *arguments, labels=(), **words):
        task = Task(*arguments, **words)
        task.labels = labels
        task.folder = os.path.join(folder, "answers", name)
        if file.endswith(".json"):
            write_text(os.path.join(task.folder, file), json.dumps({"examples": rows}))
        else:
            write_json_lines(os.path.join(task.folder, file), rows)
        return task
    numbers = [row for row in rows_of("numbers") if row["gold"]]  # a row without a right answer is no question here
    rows = [{"question": f"Question {i}?", "answer": f"It is so.\n#### {row['gold']}"} for i, row in enumerate(numbers)]
    yield made("gsm8k", "gsm8k/test.jsonl", rows, "gsm8k", "gsm8k/gsm8k.yaml", {"train": rows[:5], "test": rows},
               "exact_match", ("strict-match", "flexible-extract")), [row["answer"] for row in numbers]
    letters = [row for row in rows_of("letters") if row["gold"]]
    rows = [{"question_id": i, "question": f"Question {i}?", "options": [f"option {k}" for k in range(row["options"])],
             "answer": row["gold"], "answer_index": "ABCDEFGHIJ".index(row["gold"]), "cot_content": "", "category": "law",
             "src": "made"} for i, row in enumerate(letters)]
    yield made("mmlu_pro", "mmlu_pro/test.jsonl", rows, "mmlu_pro_law", "mmlu_pro/mmlu_pro_law.yaml",
               {"test": rows, "validation": rows[:5]}, "exact_match", ("custom-extract",)), [row["answer"] for row in letters]
    bbh = [row for row in rows_of("bbh") if row["gold"]]
    for name in sorted({row["task"] for row in bbh}):
        # Few answers are in the form that is read: each again, and the right one, in that form.
        answers = [{**row, "answer": text} for row in bbh if row["task"] == name for text in
                   (row["answer"], f"So the answer is {row['answer']}.", f"Yes. So the answer is {row['gold']}.")]
        rows = [{"input": f"Question {i}?", "target": row["gold"]} for i, row in enumerate(answers)]
        task = made("bbh", f"bbh/tasks/{name}.json", rows, f"bbh_{name}", f"bbh/cot_fewshot/{name}.yaml", {"test": rows},
                    "exact_match", ("get-answer",))
        write_text(os.path.join(task.folder, f"bbh/cot-prompts/{name}.txt"), "made\n-----\nTask.\n")
        yield task, [row["answer"] for row in answers]
    pairs = [(row["gold"], boxed(row["answer"]), row["right"]) for row in rows_of("math")]
    pairs = [pair for pair in pairs if pair[1] and "\n" not in pair[1] and "\\boxed" not in pair[0]][::2]
    rows = [{"problem": f"Problem {i}.", "solution": f"It is $\\boxed{{{gold}}}$.", "answer": gold, "unique_id": f"made/{i}"}
            for i, (gold, _, _) in enumerate(pairs)]
    yield made("math", "math500/test.jsonl", rows, "math500", "minerva_math/minerva_math500.yaml", {"test": rows},
               "exact_match", judge="SymPy", labels=[right for _, _, right in pairs]), \
        [f"So.\nFinal Answer: The final answer is ${found}$. I hope it is correct." for _, found, _ in pairs]
    whole = [row for row in rows_of("math") if row["gold"].isdigit() and int(row["gold"]) < 1000]
    labels = [row["right"] for row in whole]
    rows = [{"ID": f"{i}", "Problem": f"Problem {i}.", "Answer": int(row["gold"])} for i, row in enumerate(whole)]
    yield made("aime24", "aime/aime24.jsonl", rows, "lm_eval_aime24", "aime/aime24.yaml", {"train": rows}, "exact_match",
               judge="equal texts", labels=labels), [row["answer"] for row in whole]
    rows = [{"id": row["ID"], "problem": row["Problem"], "answer": f"{row['Answer']}"} for row in rows]
    yield made("aime25", "aime/aime25.jsonl", rows, "lm_eval_aime25", "aime/aime25.yaml", {"test": rows}, "exact_match",
               judge="equal texts", labels=labels), [row["answer"] for row in whole]
    four = [row for row in letters if row["options"] == 4]
    rows = [redux_row({"question": f"Question {i}?", "choices": [f"option {k}" for k in range(4)],
                       "answer": "ABCD".index(row["gold"])}, "ok") for i, row in enumerate(four)]
    yield made("mmlu_redux", "mmlu_redux/anatomy.jsonl", rows, "mmlu_redux_anatomy", "mmlu-redux/generative/mmlu_anatomy.yaml",
               {"test": rows}, "exact_match", ("default",), readings=[1]), [row["answer"] for row in four]
    humaneval = json_lines(benchmarks.at("humaneval/HumanEval.jsonl"))
    yield made("humaneval", "humaneval/HumanEval.jsonl", humaneval, "humaneval", "humaneval/humaneval.yaml",
               {"test": humaneval}, "pass@1", ("create_test",)), \
        [BODIES[i % len(BODIES)].replace("SOLUTION", row["canonical_solution"]) for i, row in enumerate(humaneval)]
    mbpp = [row for row in json_lines(benchmarks.at("mbpp/mbpp.jsonl")) if 11 <= row["task_id"] <= 510]
    yield made("mbpp", "mbpp/mbpp.jsonl", mbpp, "mbpp", "mbpp/mbpp.yaml", {"test": mbpp}, "pass_at_1"), \
        [PROGRAMS[i % len(PROGRAMS)].replace("SOLUTION", row["code"]) for i, row in enumerate(mbpp)]
