#!/usr/bin/env python3
"""Evaluation of metier against lm-evaluation-harness, on small models and the public benchmark files.

The harness's own task files are used as they are, but for where the rows come from: its prompts, its order of few-shot
examples, its choices, stop texts, filters and metrics. metier gets its task files of the same prompts (share/tasks).
For each task, prompts must be equal letter for letter, log-likelihoods of choices within 1e-4, generated texts equal,
scores equal sample for sample, and figures and standard errors equal to 1e-12. Generated texts that differ are looked
at: where the two likeliest tokens are closer than 1e-5 either is right, which is counted as a tie.

Models: random weights with an adapter and without, and weights trained on half of the samples, so that there are right
answers too; shaped as Mixtral and DeepSeek-V2, with the tokenizers of their makers.

Usage: lm_eval_parity.py --data FOLDER [--program build/release/bin/metier] [--samples 6] [--tokens 128]
                         [--deviation 0.1] [--bos tokenizer] [--only TEXT] [--verbose]
FOLDER holds the benchmarks as docs/evaluation.md lists them, and tokenizers/mixtral and tokenizers/deepseek-llm with a
tokenizer.json.gz. Needs lm-eval 0.4.13 with PyTorch, transformers >= 5.15 and peft; no network. Runs programs that
small models wrote: on our side in the sandbox, on the harness's in a process with a limit.
"""
import argparse
import csv
import gzip
import json
import logging
import os
import re
import shutil
import subprocess
import sys
import tempfile
import warnings

os.environ.update({"HF_HUB_OFFLINE": "1", "HF_DATASETS_OFFLINE": "1", "TOKENIZERS_PARALLELISM": "false",
                   "HF_ALLOW_CODE_EVAL": "1", "HF_DATASETS_DISABLE_PROGRESS_BARS": "1", "TQDM_DISABLE": "1"})
try:
    import evaluate
    import lm_eval
    import torch
    import transformers
    import yaml
    from lm_eval.models.huggingface import HFLM
    from lm_eval.tasks import TaskManager
    from lm_eval.utils import make_table
except ImportError as error:
    print(f"lm_eval_parity: needs a Python with lm-eval, torch, transformers and peft: {error}", file=sys.stderr)
    sys.exit(77)

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
HARNESS = os.path.join(os.path.dirname(lm_eval.__file__), "tasks")
SCORE_LIMIT, FIGURE_LIMIT, NEAR = 1e-4, 1e-12, 1e-5
SUBJECTS = ("abstract_algebra", "high_school_us_history")
KINDS = ("", " adapter", " trained")

COMMON = {"hidden_size": 48, "num_hidden_layers": 3, "num_attention_heads": 4, "max_position_embeddings": 4096,
          "hidden_act": "silu", "tie_word_embeddings": False, "rope_theta": 10000.0, "dtype": "float32"}
# vocab_size is the tokenizer's: with an adapter the harness cuts the model down to it.
SHAPES = {
    "mixtral": {"tokenizer": "mixtral", "bos": "<s>", "eos": "</s>", "config": {
        **COMMON, "architectures": ["MixtralForCausalLM"], "model_type": "mixtral", "num_key_value_heads": 2,
        "intermediate_size": 40, "num_local_experts": 6, "num_experts_per_tok": 2, "sliding_window": None,
        "head_dim": 12, "rms_norm_eps": 1e-5, "vocab_size": 32000, "bos_token_id": 1, "eos_token_id": 2}},
    "deepseek_v2": {"tokenizer": "deepseek-llm", "bos": "<｜begin▁of▁sentence｜>", "eos": "<｜end▁of▁sentence｜>",
                    "config": {
        **COMMON, "architectures": ["DeepseekV2ForCausalLM"], "model_type": "deepseek_v2", "num_key_value_heads": 4,
        "intermediate_size": 96, "moe_intermediate_size": 24, "kv_lora_rank": 24, "q_lora_rank": None,
        "qk_nope_head_dim": 16, "qk_rope_head_dim": 8, "v_head_dim": 16, "n_routed_experts": 8, "n_shared_experts": 2,
        "num_experts_per_tok": 3, "first_k_dense_replace": 1, "n_group": 1, "topk_group": 1, "topk_method": "greedy",
        "routed_scaling_factor": 1.0, "norm_topk_prob": False, "scoring_func": "softmax", "attention_bias": False,
        "rms_norm_eps": 1e-6, "vocab_size": 100015, "bos_token_id": 100000, "eos_token_id": 100001}},
}


def run(*command):
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    if result.returncode != 0:
        raise RuntimeError(f"{' '.join(command)}: {result.stderr.strip()}")
    return result.stdout


def read_lines(path):
    with open(path, encoding="utf-8") as file:
        return [json.loads(line) for line in file]


# ---------------------------------------------------------------- rows as the harness's task files name their fields

def opened(path):
    if not os.path.exists(path) and os.path.exists(path + ".gz"):
        return gzip.open(path + ".gz", "rt", encoding="utf-8", newline="")
    return open(path, encoding="utf-8", newline="")


def json_lines(path):
    with opened(path) as file:
        return [json.loads(line) for line in file]


def mmlu_rows(path):
    with opened(path) as file:
        return [{"question": row[0], "choices": row[1:5], "answer": "ABCD".index(row[5])} for row in csv.reader(file)]


def table_rows(path, names=None):
    """GLUE's tables: tabs, and no quoting."""
    with opened(path) as file:
        lines = [line.rstrip("\r\n").split("\t") for line in file]
    if names is None:
        names, lines = lines[0], lines[1:]
    return [dict(zip(names, line)) for line in lines]


def numbered(rows, labels):
    return [{**row, "label": labels.index(row["label"])} for row in rows]


def bbh_rows(path):
    with opened(path) as file:
        return json.load(file)["examples"]


class Task:
    """One task: the harness's file and what replaces its rows; ours, and its name there; which filter counts."""

    def __init__(self, name, ours, theirs, splits, chosen="none", shots=0, metric="acc", extra=None):
        self.name, self.ours, self.theirs, self.splits = name, ours, theirs, splits
        self.chosen, self.shots, self.metric, self.extra = chosen, shots, metric, extra or {}


def all_tasks(data):
    def at(*parts):
        return os.path.join(data, *parts)
    gsm8k = {"train": json_lines(at("gsm8k/train.jsonl"))[:8], "test": json_lines(at("gsm8k/test.jsonl"))}
    first = {"fewshot_config": {"sampler": "first_n"}}
    bbh = {"test": bbh_rows(at("bbh/tasks/boolean_expressions.json"))}
    humaneval = {"test": json_lines(at("humaneval/HumanEval.jsonl"))}
    yield Task("gsm8k", "lm_eval_gsm8k", "gsm8k/gsm8k.yaml", gsm8k, "strict-match", 0, "exact_match", first)
    yield Task("gsm8k 5 shots", "lm_eval_gsm8k_flexible", "gsm8k/gsm8k.yaml", gsm8k, "flexible-extract", 5,
               "exact_match", first)
    for subject in SUBJECTS:
        rows = {split: mmlu_rows(at("mmlu", split, f"{subject}_{split}.csv")) for split in ("dev", "test")}
        for shots in (0, 5):
            yield Task(f"mmlu {subject} {shots} shots", f"lm_eval_mmlu_{subject}",
                       f"mmlu/default/mmlu_{subject}.yaml", rows, shots=shots)
    yield Task("bbh boolean_expressions", "lm_eval_bbh_boolean_expressions", "bbh/zeroshot/boolean_expressions.yaml",
               bbh, "flexible-extract", 0, "exact_match")
    yield Task("glue sst2", "lm_eval_sst2", "glue/sst2/default.yaml",
               {"validation": numbered(table_rows(at("glue/SST-2/dev.tsv")), ["0", "1"])},
               extra={"training_split": None})
    yield Task("glue rte", "glue_rte", "glue/rte/default.yaml",
               {"validation": numbered(table_rows(at("glue/RTE/dev.tsv")), ["entailment", "not_entailment"])},
               extra={"training_split": None})
    cola = table_rows(at("glue/CoLA/dev.tsv"), ["source", "label", "star", "sentence"])
    yield Task("glue cola", "glue_cola", "glue/cola/default.yaml", {"validation": numbered(cola, ["0", "1"])},
               metric="mcc", extra={"training_split": None})
    yield Task("humaneval", "humaneval_continue", "humaneval/humaneval.yaml", humaneval, "create_test", 0, "pass@1")
    yield Task("humaneval solutions", "solutions", None, humaneval, extra={
        "output_type": "multiple_choice", "test_split": "test", "doc_to_text": "{{prompt}}", "doc_to_target": 0,
        "doc_to_choice": "{{[canonical_solution, canonical_solution.strip(), prompt.strip()]}}",
        "target_delimiter": "", "metric_list": [{"metric": "acc"}]})


SOLUTIONS = r"""title: the reference solutions' log-likelihoods
domain: code
data: humaneval/HumanEval.jsonl
id: task_id
prompt: "{prompt}"
choice_fields: [canonical_solution, stripped, again]
answer: A
kind: choose
continuation: "{choice}"
metrics: [acc]
"""


def write_json_lines(path, rows):
    with open(path, "w", encoding="utf-8") as file:
        file.writelines(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)


def write_harness_task(task, number, folder, samples):
    """The harness's file, included, with the rows of ours."""
    name = f"parity_{number}"
    files = {}
    for split, rows in task.splits.items():
        files[split] = os.path.join(folder, f"{name}_{split}.jsonl")
        write_json_lines(files[split], rows[:samples] if split in ("test", "validation") else rows)
    settings = {"task": name, "dataset_path": "json", "dataset_name": None, "dataset_kwargs": {"data_files": files},
                **task.extra}
    if task.theirs is not None:
        settings["include"] = os.path.join(HARNESS, task.theirs)
    with open(os.path.join(folder, name + ".yaml"), "w", encoding="utf-8") as file:
        yaml.safe_dump(settings, file)
    return name


def write_our_tasks(folder, data, tokens):
    """Our task files with shorter answers, and the rows of the one that is made up here."""
    for name in os.listdir(os.path.join(ROOT, "share/tasks")):
        with open(os.path.join(ROOT, "share/tasks", name), encoding="utf-8") as file:
            text = file.read()
        with open(os.path.join(folder, name), "w", encoding="utf-8") as file:
            file.write(re.sub(r"^max_tokens: \d+$", f"max_tokens: {tokens}", text, flags=re.MULTILINE))
    rows = json_lines(os.path.join(data, "humaneval/HumanEval.jsonl"))
    path = os.path.join(folder, "solutions.jsonl")
    write_json_lines(path, [{**row, "stripped": row["canonical_solution"].strip(), "again": row["prompt"].strip()}
                            for row in rows])
    with open(os.path.join(folder, "solutions.yaml"), "w", encoding="utf-8") as file:
        file.write(SOLUTIONS.replace("humaneval/HumanEval.jsonl", path))


class CodeEval:
    """What evaluate.load("code_eval") would fetch: programs with their tests, a process each."""

    def compute(self, references, predictions, k):
        shares = []
        for test, candidates in zip(references, predictions):
            passed = [self.passes(candidate + "\n" + test) for candidate in candidates]
            shares.append(sum(passed) / len(passed))
        return {f"pass@{n}": sum(shares) / len(shares) for n in k}, {}

    @staticmethod
    def passes(program):
        with tempfile.TemporaryDirectory() as folder:
            try:
                result = subprocess.run([sys.executable, "-I", "-c", program], cwd=folder, capture_output=True,
                                        stdin=subprocess.DEVNULL, timeout=10, check=False)
            except subprocess.TimeoutExpired:
                return False
        return result.returncode == 0


# ---------------------------------------------------------------- models

def make_model(program, data, folder, shape, deviation):
    spec = SHAPES[shape]
    config = os.path.join(folder, "config.json")
    model = os.path.join(folder, f"{shape}-{deviation}")
    with open(config, "w", encoding="utf-8") as file:
        json.dump({**spec["config"], "initializer_range": deviation}, file)
    run(program, "init", "--config", config, "--seed", "7", "--dtype", "f32", "--out", model)
    source = os.path.join(data, "tokenizers", spec["tokenizer"], "tokenizer.json.gz")
    with gzip.open(source, "rb") as packed, open(os.path.join(model, "tokenizer.json"), "wb") as plain:
        shutil.copyfileobj(packed, plain)
    with open(os.path.join(model, "tokenizer_config.json"), "w", encoding="utf-8") as file:
        json.dump({"tokenizer_class": "PreTrainedTokenizerFast", "bos_token": spec["bos"], "eos_token": spec["eos"],
                   "model_max_length": 4096, "clean_up_tokenization_spaces": False}, file)
    with open(os.path.join(model, "generation_config.json"), "w", encoding="utf-8") as file:
        json.dump({key: spec["config"][key] for key in ("bos_token_id", "eos_token_id")}, file)
    return model


def make_adapter(program, model, folder):
    adapter = os.path.join(folder, "adapter")
    shutil.rmtree(adapter, ignore_errors=True)
    run(program, "forward", model, "--ids", "1,2", "--grads", "--train", "lora", "--targets",
        "attention,router,routed_experts,lm_head", "--rank", "4", "--alpha", "8", "--lora-b-std", "0.2", "--seed", "4",
        "--adapter-layout", "fused", "--save-adapter", adapter)
    return adapter


def train(program, model, folder, tasks, samples):
    """Learns every other sample of the tasks by heart."""
    rows = []
    for task in tasks:
        test = task.splits.get("test", task.splits.get("validation"))[:samples:2]
        for row in test:
            if task.name == "gsm8k":
                rows.append({"prompt": f"Question: {row['question']}\nAnswer:", "completion": " " + row["answer"]})
            elif task.name == "bbh boolean_expressions":
                rows.append({"prompt": "Evaluate the result of a random Boolean expression.\n\n"
                                       f"Q: {row['input']}\nA:", "completion": " " + row["target"]})
            elif task.name == "humaneval":
                rows.append({"prompt": row["prompt"], "completion": row["canonical_solution"]})
    path, out = os.path.join(folder, "train.jsonl"), os.path.join(folder, "run")
    shutil.rmtree(out, ignore_errors=True)
    write_json_lines(path, rows)
    with open(os.path.join(folder, "train.yaml"), "w", encoding="utf-8") as file:
        yaml.safe_dump({"model": model, "out": out, "train": "full", "method": "none",
                        "data": {"path": path, "max_length": 512}, "batch": {"examples": len(rows), "tokens": 8192},
                        "steps": 200, "optimizer": {"lr": 4e-3, "warmup": 5}, "checkpoint": {"every": 0},
                        "log": {"measure_every": 0}}, file)
    run(program, "train", os.path.join(folder, "train.yaml"), "--quiet")
    return os.path.join(out, "model")


# ---------------------------------------------------------------- both sides

class Reference:
    def __init__(self, model, adapter, bos):
        beginning = {} if bos == "tokenizer" else {"add_bos_token": bos == "yes"}
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            self.lm = HFLM(pretrained=model, peft=adapter, dtype="float32", device="cpu", batch_size=1,
                           softmax_dtype="float64", attn_implementation="eager", experts_implementation="eager",
                           **beginning)
        for warning in caught:
            if "missing" in str(warning.message) or "nexpected" in str(warning.message):
                raise RuntimeError(f"PEFT warns: {str(warning.message)[:300]}")

    def evaluate(self, manager, name, task, tokens):
        choose = task.metric in ("acc", "mcc")
        out = lm_eval.simple_evaluate(
            model=self.lm, tasks=[name], num_fewshot=task.shots, task_manager=manager, log_samples=True,
            bootstrap_iters=2, confirm_run_unsafe_code=True,
            gen_kwargs=None if choose else {"max_gen_toks": tokens})
        samples = [sample for sample in out["samples"][name] if sample["filter"] == task.chosen]
        return sorted(samples, key=lambda sample: sample["doc_id"]), out["results"][name]

    def undecided(self, prompt, one, other):
        """True when the model finds two tokens equally likely where two texts part."""
        encode = self.lm.tokenizer.encode
        a, b = encode(prompt + one), encode(prompt + other)
        at = next((i for i, (x, y) in enumerate(zip(a, b)) if x != y), None)
        if at is None:
            return False
        with torch.no_grad():
            best = self.lm.model(torch.tensor([a[:at]])).logits[0, -1].sort().values
        return float(best[-1] - best[-2]) < NEAR


def ask_metier(program, arguments, folder, task, model, adapter, slots):
    out = os.path.join(folder, "out")
    shutil.rmtree(out, ignore_errors=True)
    command = [program, "eval", os.path.join(folder, task.ours + ".yaml"), "--data", arguments.data, "--model", model,
               "--out", out, "--limit", str(arguments.samples), "--shots", str(task.shots), "--slots", str(slots),
               "--quiet"]
    if arguments.bos != "tokenizer":
        command += ["--bos", arguments.bos]
    if task.ours.startswith("lm_eval_mmlu_"):
        command[2] = task.ours
    if task.name == "humaneval solutions":
        command[command.index("--shots"):command.index("--shots") + 2] = []
    run(*command, *(["--adapter", adapter] if adapter else []))
    with open(os.path.join(out, "results.json"), encoding="utf-8") as file:
        results = json.load(file)
    samples = read_lines(os.path.join(out, f"samples_{task.ours}.jsonl"))
    return sorted(samples, key=lambda sample: sample["doc_id"]), results


# ---------------------------------------------------------------- comparing

class Report:
    def __init__(self, verbose):
        self.verbose, self.failures, self.ties, self.worst = verbose, [], 0, 0.0
        self.prompts, self.choices, self.texts = 0, 0, 0

    def fail(self, case, what):
        self.failures.append(f"{case}: {what}")
        print(f"FAILED {case}: {what}", flush=True)


def parting(one, other):
    at = next((i for i, (x, y) in enumerate(zip(one, other)) if x != y), min(len(one), len(other)))
    return f"{one[max(0, at - 30):at + 30]!r} is not {other[max(0, at - 30):at + 30]!r}"


def compare_sample(report, case, reference, task, ours, theirs):
    """The difference in log-likelihoods; whether the scores can be compared."""
    prompt = theirs["arguments"][0][0]
    if ours["prompt"] != prompt:
        report.fail(case, f"sample {ours['doc_id']}: the prompt {parting(ours['prompt'], prompt)}")
        return 0.0, False
    report.prompts += 1
    if task.metric in ("acc", "mcc"):
        want = [float(pair[0]) for pair in theirs["filtered_resps"]]
        greedy = [str(pair[1]) == "True" for pair in theirs["filtered_resps"]]
        error = max(abs(a - b) for a, b in zip(ours["log_likelihoods"], want))
        report.choices += len(want)
        if len(want) != len(ours["log_likelihoods"]) or not error <= SCORE_LIMIT:
            report.fail(case, f"sample {ours['doc_id']}: {ours['log_likelihoods']} are not {want}")
        if greedy != [bool(flag) for flag in ours["greedy"]]:
            report.fail(case, f"sample {ours['doc_id']}: greedy {ours['greedy']} is not {greedy}")
        return error, True
    said, want = ours["resps"][0], theirs["resps"][0][0]
    said = said[0] if isinstance(said, list) else said
    report.texts += 1
    if said == want:
        return 0.0, True
    if reference.undecided(prompt, said, want):
        report.ties += 1
        return 0.0, False
    report.fail(case, f"sample {ours['doc_id']}: the text {parting(said, want)}")
    return 0.0, False


def compare(report, case, reference, task, ours, theirs, results, figures):
    if len(ours) != len(theirs):
        report.fail(case, f"{len(ours)} samples are not {len(theirs)}")
        return
    worst, equal = 0.0, 0
    for mine, other in zip(ours, theirs):
        error, same = compare_sample(report, case, reference, task, mine, other)
        worst, equal = max(worst, error), equal + same
        if not same:
            continue
        right = other["pass@1"] if task.metric == "pass@1" else other.get(task.metric, 0)
        if task.metric == "mcc":
            right = right[0] == right[1]
        if mine["score"] != float(right):
            report.fail(case, f"sample {mine['doc_id']}: score {mine['score']} is not {right}")
    report.worst = max(report.worst, worst)
    mine = results["results"][task.ours]
    value, error = mine[f"{task.metric},none"], mine[f"{task.metric}_stderr,none"]
    want, spread = figures[f"{task.metric},{task.chosen}"], figures[f"{task.metric}_stderr,{task.chosen}"]
    close = abs(value - want) <= FIGURE_LIMIT and (task.metric == "mcc" or abs(error - spread) <= FIGURE_LIMIT)
    if equal == len(ours) and not close:
        report.fail(case, f"{task.metric} {value} ± {error} is not {want} ± {spread}")
    table = make_table(results)
    if f"|{task.ours}" not in table.replace(" ", ""):
        report.fail(case, "the harness's make_table does not show our results.json")
    what = f"log-likelihoods {worst:.1e} apart" if task.metric in ("acc", "mcc") else f"{equal} texts equal"
    print(f"{case:58} {len(ours):3} samples, {what}, {task.metric} {value:.4f} ± {error:.4f}", flush=True)


def check_model(report, arguments, folder, case, model, adapter, tasks, names, manager):
    reference = Reference(model, adapter, arguments.bos)
    for number, task in enumerate(tasks):
        if arguments.only not in f"{case} {task.name}":
            continue
        label = f"{case}, {task.name}"
        try:
            theirs, figures = reference.evaluate(manager, names[number], task, arguments.tokens)
            ours, results = ask_metier(arguments.program, arguments, folder, task, model, adapter, 1 + number % 5)
            if arguments.verbose:
                print(make_table(results))
            compare(report, label, reference, task, ours, theirs, results, figures)
        except RuntimeError as error:
            report.fail(label, str(error))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", required=True)
    parser.add_argument("--program", default=os.path.join(ROOT, "build/release/bin/metier"))
    parser.add_argument("--samples", type=int, default=6)
    parser.add_argument("--tokens", type=int, default=128)
    parser.add_argument("--deviation", type=float, default=0.1)
    parser.add_argument("--bos", default="tokenizer", choices=("tokenizer", "yes", "no"))
    parser.add_argument("--only", default="")
    parser.add_argument("--verbose", action="store_true")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    logging.disable(logging.WARNING)
    transformers.logging.set_verbosity_error()
    evaluate.load = lambda name: CodeEval()
    report = Report(arguments.verbose)
    tasks = list(all_tasks(arguments.data))
    with tempfile.TemporaryDirectory() as folder:
        os.environ["HF_DATASETS_CACHE"] = os.path.join(folder, "cache")
        names = [write_harness_task(task, i, folder, arguments.samples) for i, task in enumerate(tasks)]
        write_our_tasks(folder, arguments.data, arguments.tokens)
        manager = TaskManager(include_path=folder, include_defaults=False)
        for shape in SHAPES:
            wanted = {kind for kind in KINDS for task in tasks if arguments.only in f"{shape}{kind} {task.name}"}
            if wanted & {"", " adapter"}:
                model = make_model(arguments.program, arguments.data, folder, shape, arguments.deviation)
            if "" in wanted:
                check_model(report, arguments, folder, shape, model, None, tasks, names, manager)
            if " adapter" in wanted:
                adapter = make_adapter(arguments.program, model, folder)
                check_model(report, arguments, folder, f"{shape} adapter", model, adapter, tasks, names, manager)
            if " trained" in wanted:
                fresh = make_model(arguments.program, arguments.data, folder, shape, 0.02)
                trained = train(arguments.program, fresh, folder, tasks, arguments.samples)
                check_model(report, arguments, folder, f"{shape} trained", trained, None, tasks, names, manager)
    print(f"{report.prompts} prompts and {report.texts} texts compared, {report.ties} parted at a tie; "
          f"{report.choices} log-likelihoods, largest difference {report.worst:.1e}; {len(report.failures)} failures")
    return 1 if report.failures else 0


if __name__ == "__main__":
    sys.exit(main())
