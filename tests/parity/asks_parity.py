#!/usr/bin/env python3
"""ARC, HellaSwag, WinoGrande and TruthfulQA of metier against lm-evaluation-harness, on rows made in the data sets' layouts.

The harness's own task files are used as they are, but for where rows come from; the rows are made up at random from a
seed, with what the data sets have: labels A to D and 1 to 4, three to five choices, [title] and other brackets, double
spaces, empty and capital second halves, other scripts, several right answers. Prompts must be equal letter for letter,
log-likelihoods within 1e-4, verdicts equal sample for sample, figures and standard errors equal to 1e-12. The model is
share/models/small-deepseek-v2; --model names another.

Usage: asks_parity.py [--samples 60] [--seed 1] [--model FOLDER] [--program build/release/bin/metier] [--only TEXT]
Needs lm-eval 0.4.13 with PyTorch, transformers >= 5.15 and peft; no network.
"""
import argparse
import json
import logging
import os
import random
import subprocess
import sys
import tempfile
import warnings

os.environ.update({"HF_HUB_OFFLINE": "1", "HF_DATASETS_OFFLINE": "1", "TOKENIZERS_PARALLELISM": "false",
                   "HF_DATASETS_DISABLE_PROGRESS_BARS": "1", "TQDM_DISABLE": "1"})
try:
    import lm_eval
    import torch
    import transformers
    import yaml
    from lm_eval.models.huggingface import HFLM
    from lm_eval.tasks import TaskManager
except ImportError as error:
    print(f"asks_parity: needs a Python with lm-eval, torch, transformers and peft: {error}", file=sys.stderr)
    sys.exit(77)

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
HARNESS = os.path.join(os.path.dirname(lm_eval.__file__), "tasks")
SCORE_LIMIT, FIGURE_LIMIT, TIE = 1e-4, 1e-12, 2e-4
WORDS = ("the river stone a lamp under which boat sings slowly of green paper Anna's [title] [step] [ ] [header one] it, "
         "and  then  élan Straße 東京 3.5 kg “so” (bracket) don't ÉTÉ McCoy U.S. [open never").split(" ")


def text(rng, least, most):
    return " ".join(rng.choice(WORDS) for _ in range(rng.randint(least, most))).strip() or "a"


def plain(rng, least, most):
    return " ".join(rng.choice([word for word in WORDS if "[" not in word and word]) for _ in range(rng.randint(least, most)))


def distinct(rng, count, make):
    made = []
    while len(made) < count:
        one = make()
        if one not in made:
            made.append(one)
    return made


def arc_row(rng, number):
    count = rng.choice((3, 4, 4, 4, 5))
    labels = list(rng.choice(("ABCDE", "12345"))[:count])
    return {"id": f"row-{number}", "question": plain(rng, 3, 20) + "?", "choices": {
        "text": distinct(rng, count, lambda: plain(rng, 1, 6)), "label": labels}, "answerKey": rng.choice(labels)}


def hellaswag_row(rng, number):
    second = rng.choice(("", "he", "the man McCoy", "ÉTÉ Day", "[title] So  it", "a"))
    endings = distinct(rng, 4, lambda: rng.choice(("", " ")) + text(rng, 2, 10) + rng.choice((".", " [title]", "", "  ")))
    return {"ind": number, "activity_label": plain(rng, 1, 3), "ctx_a": text(rng, 3, 15), "ctx_b": second,
            "endings": endings, "label": str(rng.randint(0, 3))}


def winogrande_row(rng, number):
    del number
    first, second = distinct(rng, 2, lambda: plain(rng, 1, 2).replace("_", ""))
    return {"sentence": f"{plain(rng, 2, 8)} _ {plain(rng, 2, 8)}.", "option1": first, "option2": second,
            "answer": rng.choice("12")}


def truthfulqa_row(rng, number):
    del number
    right, wrong = rng.randint(1, 6), rng.randint(1, 7)
    texts = distinct(rng, right + wrong, lambda: plain(rng, 1, 12))
    return {"question": plain(rng, 3, 12) + "?",
            "mc1_targets": {"choices": texts[:1] + texts[right:], "labels": [1] + [0] * wrong},
            "mc2_targets": {"choices": texts, "labels": [1] * right + [0] * wrong}}


# Ours, the harness's file, its split, what the rows are, shots, metrics (ours, the harness's).
TASKS = (
    ("arc_easy", "arc/arc_easy.yaml", "test", "arc/ARC-Easy/test", arc_row, (0, 3), (("acc", "acc"), ("acc_norm", "acc_norm"))),
    ("arc_challenge", "arc/arc_challenge.yaml", "test", "arc/ARC-Challenge/test", arc_row, (0, 25),
     (("acc", "acc"), ("acc_norm", "acc_norm"))),
    ("hellaswag", "hellaswag/hellaswag.yaml", "validation", "hellaswag/validation", hellaswag_row, (0, 10),
     (("acc", "acc"), ("acc_norm", "acc_norm"))),
    ("winogrande", "winogrande/default.yaml", "validation", "winogrande/validation", winogrande_row, (0, 5),
     (("acc", "acc"),)),
    ("truthfulqa_mc1", "truthfulqa/truthfulqa_mc1.yaml", "validation", "truthfulqa/validation", truthfulqa_row, (0,),
     (("acc", "acc"),)),
    ("truthfulqa_mc2", "truthfulqa/truthfulqa_mc2.yaml", "validation", "truthfulqa/validation", truthfulqa_row, (0,),
     (("score", "acc"),)),
)


def write_lines(path, rows):
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "w", encoding="utf-8") as file:
        file.writelines(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)


def write_task(folder, number, task, rows, examples):
    """The rows for both sides; the harness's file, included, with them."""
    name = f"asks_{number}"
    ours, theirs, split, place, _, _, _ = task
    test, train = os.path.join(folder, place + ".jsonl"), os.path.join(folder, os.path.dirname(place), "train.jsonl")
    write_lines(test, rows)
    write_lines(train, examples)
    settings = {"task": name, "include": os.path.join(HARNESS, theirs), "dataset_path": "json", "dataset_name": None,
                "dataset_kwargs": {"data_files": {split: test}}}
    for other in ("training_split", "validation_split", "test_split"):
        settings[other] = split if other.startswith(split) else None
    if not ours.startswith("truthfulqa"):
        settings["dataset_kwargs"]["data_files"]["train"] = train
        settings.update({"training_split": "train", "fewshot_split": "train", "fewshot_config": {"sampler": "first_n"}})
    with open(os.path.join(folder, name + ".yaml"), "w", encoding="utf-8") as file:
        yaml.safe_dump(settings, file)
    return name


def ask_metier(arguments, folder, ours, shots):
    out = os.path.join(folder, f"out-{ours}-{shots}")
    command = [arguments.program, "eval", ours, "--data", folder, "--model", arguments.model, "--out", out, "--quiet",
               "--no-routing"] + (["--shots", str(shots)] if shots else [])
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    if result.returncode != 0:
        raise RuntimeError(f"{' '.join(command)}: {result.stderr.strip()}")
    with open(os.path.join(out, f"samples_{ours}.jsonl"), encoding="utf-8") as file:
        samples = sorted(map(json.loads, file), key=lambda sample: sample["doc_id"])
    with open(os.path.join(out, "results.json"), encoding="utf-8") as file:
        return samples, json.load(file)["results"][ours]


class Report:
    def __init__(self):
        self.failures, self.prompts, self.scores, self.ties, self.worst = [], 0, 0, 0, 0.0

    def fail(self, case, what):
        self.failures.append(case)
        print(f"FAILED {case}: {what}", flush=True)


def close_race(scores, texts=None):
    """Whether rounding may decide which is the largest."""
    parts = sorted((score / max(len(text), 1) for score, text in zip(scores, texts)) if texts else scores)
    return parts[-1] - parts[-2] < TIE / (1 if texts is None else 10)


def compare_sample(report, case, mine, other, metrics):
    """True when all verdicts are equal; a difference in log-likelihoods may turn those of a tie."""
    prompts = [pair[0] for pair in other["arguments"]]
    said = mine.get("prompts", [mine["prompt"]] * len(prompts))
    report.prompts += len(prompts)
    if said != prompts:
        report.fail(case, f"sample {mine['doc_id']}: the prompt {said} is not {prompts}")
        return False
    continuations = [pair[1] for pair in other["arguments"]]
    if mine["choices"] != continuations:
        report.fail(case, f"sample {mine['doc_id']}: the choices {mine['choices']} are not {continuations}")
        return False
    want = [float(pair[0]) for pair in other["filtered_resps"]]
    error = max(abs(a - b) for a, b in zip(mine["log_likelihoods"], want))
    report.worst, report.scores = max(report.worst, error), report.scores + len(want)
    if not error <= SCORE_LIMIT:
        report.fail(case, f"sample {mine['doc_id']}: {mine['log_likelihoods']} are not {want}")
    equal = True
    for ours, theirs in metrics:
        value = mine["normalized"] if ours == "acc_norm" else mine["score"]
        if abs(value - float(other[theirs])) <= (1e-4 if ours == "score" else 0):
            continue
        texts = [choice[1:] for choice in continuations] if ours == "acc_norm" else None
        if close_race(want, texts):
            report.ties += 1
        else:
            report.fail(case, f"sample {mine['doc_id']}: {ours} {value} is not {other[theirs]}")
        equal = False
    return equal


def compare(report, case, ours, theirs, mine, figures, metrics):
    if len(ours) != len(theirs):
        report.fail(case, f"{len(ours)} samples are not {len(theirs)}")
        return
    equal = all([compare_sample(report, case, one, other, metrics) for one, other in zip(ours, theirs)])
    shown = []
    for name, other in metrics:
        value, spread = mine[f"{name},none"], mine[f"{name}_stderr,none"]
        want, error = figures[f"{other},none"], figures[f"{other}_stderr,none"]
        limit = 1e-5 if name == "score" else FIGURE_LIMIT
        if equal and not (abs(value - want) <= limit and abs(spread - error) <= limit):
            report.fail(case, f"{name} {value} ± {spread} is not {want} ± {error}")
        shown.append(f"{name} {value:.4f} ± {spread:.4f}")
    print(f"{case:24} {len(ours)} samples, {', '.join(shown)}", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--samples", type=int, default=60)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--model", default=os.path.join(ROOT, "share/models/small-deepseek-v2"))
    parser.add_argument("--program", default=os.path.join(ROOT, "build/release/bin/metier"))
    parser.add_argument("--only", default="")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    logging.disable(logging.WARNING)
    transformers.logging.set_verbosity_error()
    rng = random.Random(arguments.seed)
    report = Report()
    model = HFLM(pretrained=arguments.model, dtype="float32", device="cpu", batch_size=1, softmax_dtype="float64",
                 attn_implementation="eager", experts_implementation="eager")
    with tempfile.TemporaryDirectory() as folder:
        os.environ["HF_DATASETS_CACHE"] = os.path.join(folder, "cache")
        for number, task in enumerate(TASKS):
            ours, _, _, _, row, shots, metrics = task
            rows, examples = ([row(rng, i) for i in range(count)] for count in (arguments.samples, 30))
            name = write_task(folder, number, task, rows, examples)
            if arguments.only not in ours:
                continue
            manager = TaskManager(include_path=folder, include_defaults=False)
            for count in shots:
                out = lm_eval.simple_evaluate(model=model, tasks=[name], num_fewshot=count, task_manager=manager,
                                              log_samples=True, bootstrap_iters=2)
                theirs = sorted(out["samples"][name], key=lambda sample: sample["doc_id"])
                try:
                    samples, figures = ask_metier(arguments, folder, ours, count)
                    compare(report, f"{ours}, {count} shots", samples, theirs, figures, out["results"][name], metrics)
                except RuntimeError as error:
                    report.fail(ours, str(error))
    print(f"{report.prompts} prompts and {report.scores} log-likelihoods compared, largest difference {report.worst:.1e}; "
          f"{report.ties} verdicts at a tie; {len(report.failures)} failures")
    return 1 if report.failures else 0


if __name__ == "__main__":
    sys.exit(main())
