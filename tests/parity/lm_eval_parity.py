#!/usr/bin/env python3
"""Evaluation of metier against lm-evaluation-harness, benchmark by benchmark, on rows of the public files.

The harness's own task files are used as they are, but for where the rows come from (lm_eval_tasks.py): its prompts, its
drawing of examples, its choices and their order, stop texts, filters and metrics. metier gets its task files of the
same benchmarks (share/tasks). Three comparisons:

1. Prompts of every benchmark and subtask, letter for letter, of the first --prompts rows.
2. Verdicts: labelled answers (tests/eval/labelled) and programs are given to both sides as if a model had written them;
   every filter's verdict, figure and standard error must be equal. MATH is judged by SymPy there, AIME by equal texts,
   both by our own mathematics here: agreement is counted, and who is right by the answers' labels.
3. With models: log-likelihoods of choices within 1e-4, generated texts equal, scores by every filter equal sample for
   sample, figures and standard errors equal to 1e-12. Generated texts that differ are looked at: where the two likeliest
   tokens are closer than 1e-5 either is right, which is counted as a tie.

Models: random weights with an adapter and without, and weights trained on half of the samples, so that there are right
answers too; shaped as Mixtral and DeepSeek-V2, with the tokenizers of their makers.

Usage: lm_eval_parity.py --data FOLDER [--program build/release/bin/metier] [--prompts 20] [--samples 4] [--tokens 32]
                         [--deviation 0.1] [--bos tokenizer] [--only TEXT] [--without MODELS|VERDICTS] [--verbose]
FOLDER holds the benchmarks as docs/evaluation.md lists them, and tokenizers/mixtral and tokenizers/deepseek-llm with a
tokenizer.json.gz. Needs lm-eval[math] 0.4.13 with PyTorch, transformers >= 5.15 and peft; no network. Runs programs that
small models wrote: on our side in the sandbox, on the harness's in a process with a limit.
"""
import argparse
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
    from lm_eval.api.model import LM
    from lm_eval.models.huggingface import HFLM
    from lm_eval.tasks import TaskManager
    from lm_eval.utils import make_table
except ImportError as error:
    print(f"lm_eval_parity: needs a Python with lm-eval, torch, transformers and peft: {error}", file=sys.stderr)
    sys.exit(77)

from lm_eval_tasks import Benchmarks, Task, answered, json_lines, write_json_lines, write_text

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
HARNESS = os.path.join(os.path.dirname(lm_eval.__file__), "tasks")
SCORE_LIMIT, FIGURE_LIMIT, NEAR = 1e-4, 1e-12, 1e-5
# Asked of models, too; the others only differ in their rows.
ASKED = ("gsm8k", "mmlu_abstract_algebra", "mmlu_high_school_us_history", "mmlu_pro_math", "bbh_boolean_expressions",
         "bbh_date_understanding", "gpqa", "math500", "humaneval", "mbpp", "solutions")
KINDS = ("", " adapter", " trained")
# What trained models have learnt to write.
LEARNT = {"bbh_boolean_expressions": "So the answer is {target}.\n\n", "humaneval": "{canonical_solution}",
          "mbpp": "{code}\n[DONE]", "math500": " Final Answer: The final answer is ${answer}$. I hope it is correct."}

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


SOLUTIONS = r"""title: the reference solutions' log-likelihoods
domain: code
data: humaneval/HumanEval.jsonl
id: task_id
form: none
prompt: "{prompt}"
choice_fields: [canonical_solution, stripped, again]
answer: A
kind: choose
continuation: "{choice}"
metrics: [acc]
"""


def solutions(benchmarks):
    """Log-likelihoods of long texts, which no benchmark asks for."""
    rows = json_lines(benchmarks.at("humaneval/HumanEval.jsonl"))
    return Task("solutions", None, {"test": rows}, "acc", extra={
        "output_type": "multiple_choice", "test_split": "test", "doc_to_text": "{{prompt}}", "doc_to_target": 0,
        "doc_to_choice": "{{[canonical_solution, canonical_solution.strip(), prompt.strip()]}}",
        "target_delimiter": "", "metric_list": [{"metric": "acc"}]})


def write_harness_task(task, number, folder, samples):
    """The harness's file, included, with the rows of ours."""
    name = f"parity_{number}"
    files = {}
    for split, rows in task.splits.items():
        files[split] = os.path.join(folder, f"{name}_{split}.jsonl")
        write_json_lines(files[split], rows[:samples] if split == task.test else rows)
    settings = {"task": name, "dataset_path": "json", "dataset_name": None, "dataset_kwargs": {"data_files": files},
                **task.extra}
    if task.theirs is not None:
        settings["include"] = os.path.join(HARNESS, task.theirs)
    write_text(os.path.join(folder, name + ".yaml"), yaml.safe_dump(settings))
    return name


def write_solutions(benchmarks, folder):
    """Our task of the solutions' log-likelihoods, and its rows."""
    rows = json_lines(benchmarks.at("humaneval/HumanEval.jsonl"))
    write_json_lines(benchmarks.at("solutions.jsonl"),
                     [{**row, "stripped": row["canonical_solution"].strip(), "again": row["prompt"].strip()} for row in rows])
    write_text(os.path.join(folder, "solutions.yaml"), SOLUTIONS.replace("humaneval/HumanEval.jsonl", "solutions.jsonl"))


class CodeEval:
    """What evaluate.load("code_eval") would fetch: programs with their tests, a process each, which must come to the end."""

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
                result = subprocess.run([sys.executable, "-I", "-c", program + "\nprint('all passed')"], cwd=folder,
                                        capture_output=True, stdin=subprocess.DEVNULL, timeout=10, check=False)
            except subprocess.TimeoutExpired:
                return False
        return result.stdout.endswith(b"all passed\n")


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


def train(program, model, folder, data, tasks, samples):
    """Learns every other sample of the tasks by heart."""
    rows = []
    for task in tasks:
        test = task.splits[task.test][:samples]
        if task.ours not in LEARNT:
            continue
        asked = run(program, "eval", task.ours, "--data", data, "--limit", str(samples), "--questions", "-")
        for question, row in list(zip(asked.splitlines(), test))[::2]:
            rows.append({"prompt": json.loads(question)["prompt"], "completion": LEARNT[task.ours].format_map(row)})
    path, out = os.path.join(folder, "train.jsonl"), os.path.join(folder, "run")
    shutil.rmtree(out, ignore_errors=True)
    write_json_lines(path, rows)
    with open(os.path.join(folder, "train.yaml"), "w", encoding="utf-8") as file:
        yaml.safe_dump({"model": model, "out": out, "train": "full", "method": "none",
                        "data": {"path": path, "max_length": 2048}, "batch": {"examples": len(rows), "tokens": 8192},
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
        return evaluate_theirs(self.lm, manager, name, task, None if task.chooses else {"max_gen_toks": tokens})

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


def evaluate_theirs(lm, manager, name, task, options=None):
    """Samples by filter, and the figures."""
    out = lm_eval.simple_evaluate(model=lm, tasks=[name], num_fewshot=task.shots, task_manager=manager, log_samples=True,
                                  bootstrap_iters=2, confirm_run_unsafe_code=True, gen_kwargs=options)
    samples = {}
    for sample in sorted(out["samples"][name], key=lambda sample: sample["doc_id"]):
        samples.setdefault(sample["filter"], []).append(sample)
    return samples, out["results"][name]


def read_results(out, task):
    with open(os.path.join(out, "results.json"), encoding="utf-8") as file:
        results = json.load(file)
    samples = json_lines(os.path.join(out, f"samples_{task.ours}.jsonl"))
    return sorted(samples, key=lambda sample: sample["doc_id"]), results


def ask_metier(arguments, data, folder, task, model, adapter, slots):
    out = os.path.join(folder, "out")
    shutil.rmtree(out, ignore_errors=True)
    made = os.path.join(folder, task.ours + ".yaml")
    command = [arguments.program, "eval", made if os.path.exists(made) else task.ours, "--data", data, "--model", model,
               "--out", out, "--limit", str(arguments.samples), "--slots", str(slots), "--quiet"]
    if arguments.bos != "tokenizer":
        command += ["--bos", arguments.bos]
    if not task.chooses:
        command += ["--max-new", str(arguments.tokens)]
    run(*command, *(["--adapter", adapter] if adapter else []))
    return read_results(out, task)


# ---------------------------------------------------------------- comparing

class Report:
    def __init__(self, verbose):
        self.verbose, self.failures, self.ties, self.worst = verbose, [], 0, 0.0
        self.prompts, self.choices, self.texts, self.verdicts = 0, 0, 0, 0

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
    if task.chooses:
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


def right_by(task, sample):
    """The harness's score of a sample."""
    if task.metric == "mcc":
        return float(sample["mcc"][0] == sample["mcc"][1])
    return float(sample[task.metric])


def score_by(sample, number):
    """Ours, by the filter of that number."""
    return sample["score"] if number == 0 else sample["filters"][number - 1]["score"]


def compare_scores(report, case, task, ours, theirs, comparable):
    """Scores by every filter, sample for sample."""
    for number, chosen in zip(task.readings, task.filters):
        for mine, other, fits in zip(ours, theirs[chosen], comparable):
            if not fits:
                continue
            report.verdicts += 1
            if score_by(mine, number) != right_by(task, other):
                report.fail(case, f"sample {mine['doc_id']} by {chosen}: score {score_by(mine, number)} is not "
                                  f"{right_by(task, other)}: {str(mine['resps'])[:300]}")
        if task.metric == "acc" and "acc_norm" in theirs[chosen][0]:
            for mine, other in zip(ours, theirs[chosen]):
                if mine["normalized"] != other["acc_norm"]:
                    report.fail(case, f"sample {mine['doc_id']}: acc_norm {mine['normalized']} is not {other['acc_norm']}")


def compare_figures(report, case, task, results, figures):
    mine = results["results"][task.ours]
    names = [key.split(",")[1] for key in mine if key.startswith(f"{task.label},")]
    for number, chosen in zip(task.readings, task.filters):
        name = names[number]
        value, error = mine[f"{task.label},{name}"], mine[f"{task.label}_stderr,{name}"]
        want, spread = figures[f"{task.metric},{chosen}"], figures[f"{task.metric}_stderr,{chosen}"]
        spread = spread if isinstance(spread, float) else error  # "N/A"
        close = abs(value - want) <= FIGURE_LIMIT and (task.metric == "mcc" or abs(error - spread) <= FIGURE_LIMIT)
        if not close:
            report.fail(case, f"{task.metric} by {chosen}: {value} ± {error} is not {want} ± {spread}")
    if f"|{task.ours}" not in make_table(results).replace(" ", ""):
        report.fail(case, "the harness's make_table does not show our results.json")
    return mine[f"{task.label},{name}"]


def compare(report, case, reference, task, ours, theirs, results, figures):
    first = theirs[task.filters[0]]
    if len(ours) != len(first):
        report.fail(case, f"{len(ours)} samples are not {len(first)}")
        return
    pairs = [compare_sample(report, case, reference, task, mine, other) for mine, other in zip(ours, first)]
    worst, fits = max(error for error, _ in pairs), [same for _, same in pairs]
    report.worst = max(report.worst, worst)
    compare_scores(report, case, task, ours, theirs, fits)
    value = compare_figures(report, case, task, results, figures) if all(fits) else float("nan")
    what = f"log-likelihoods {worst:.1e} apart" if task.chooses else f"{sum(fits)} texts equal"
    print(f"{case:58} {len(ours):3} samples, {what}, {task.metric} {value:.4f}", flush=True)


# ---------------------------------------------------------------- without a model

class Speaker(LM):
    """A model that has written certain answers, up to the first of the stop texts."""

    def __init__(self, answers):
        super().__init__()
        self.answers = answers

    def generate_until(self, requests, disable_tqdm=False):
        texts = []
        for request in requests:
            text = self.answers[request.doc_id] if self.answers else ""
            for stop in request.args[1].get("until", []):
                text = text.split(stop)[0]
            texts.append(text)
        return texts

    def loglikelihood(self, requests, disable_tqdm=False):
        return [(-1.0, False) for _ in requests]

    def loglikelihood_rolling(self, requests, disable_tqdm=False):
        raise NotImplementedError


def check_prompts(report, arguments, data, task, manager, name):
    samples, _ = evaluate_theirs(Speaker(None), manager, name, task)
    theirs = [sample["arguments"][0][0] for sample in next(iter(samples.values()))]
    asked = run(arguments.program, "eval", task.ours, "--data", data, "--limit", str(arguments.prompts), "--questions", "-")
    ours = [json.loads(line)["prompt"] for line in asked.splitlines()]
    equal = sum(one == other for one, other in zip(ours, theirs))
    report.prompts += equal
    print(f"{task.ours:58} {equal:3} of {len(theirs)} prompts equal{', ' + task.made if task.made else ''}", flush=True)
    if ours != theirs:
        one, other = next(((a, b) for a, b in zip(ours, theirs) if a != b), (str(len(ours)), str(len(theirs))))
        report.fail(task.ours, f"the prompt {parting(one, other)}")


def count_agreement(verbose, task, ours, theirs):
    """By each of our filters: as many verdicts as there; where they differ, who is right by the answer's label."""
    for number in range(1 + len(ours[0].get("filters") or [])):
        verdicts = [(score_by(mine, number), right_by(task, other)) for mine, other in zip(ours, theirs)]
        for (here, there), mine, label in zip(verdicts, ours, task.labels):
            if here != there and verbose:
                print(f"    {mine['target']!r} and {str(mine['resps'])[-200:]}: {here}, there {there}, label {label}")
        alone = [(here, label) for (here, there), label in zip(verdicts, task.labels) if here != there]
        print(f"{task.ours + ', reading ' + str(number + 1) + ', ' + str(len(ours)) + ' answers':58} "
              f"{len(ours) - len(alone)} verdicts as by {task.judge}; as labelled here {sum(a == b for a, b in alone)}, "
              f"there {sum(a != b for a, b in alone)}", flush=True)


def check_verdicts(report, arguments, folder, task, answers):
    """Both judge the same answers."""
    place = tempfile.mkdtemp(dir=folder)
    name = write_harness_task(task, "answers", place, len(answers))
    theirs, figures = evaluate_theirs(Speaker(answers), TaskManager(include_path=place, include_defaults=False), name, task)
    path, out = os.path.join(place, "answers.jsonl"), os.path.join(place, "out")
    ids = [json.loads(line)["id"] for line in run(arguments.program, "eval", task.ours, "--data", task.folder, "--shots",
                                                   str(task.shots), "--questions", "-").splitlines()]
    write_json_lines(path, [{"task": task.ours, "id": name, "answer": text} for name, text in zip(ids, answers)])
    run(arguments.program, "eval", task.ours, "--data", task.folder, "--shots", str(task.shots), "--answers", path,
        "--out", out, "--quiet")
    ours, results = read_results(out, task)
    if task.judge:
        count_agreement(arguments.verbose, task, ours, theirs["none"])
        return
    compare_scores(report, task.ours, task, ours, theirs, [True] * len(ours))
    compare_figures(report, task.ours, task, results, figures)
    shares = [f"{chosen} {sum(right_by(task, sample) for sample in theirs[chosen]) / len(ours):.3f}" for chosen in task.filters]
    print(f"{task.ours + ', ' + str(len(answers)) + ' answers':58} verdicts compared: {', '.join(shares)}", flush=True)


def check_model(report, arguments, data, folder, case, model, adapter, tasks, names, manager):
    reference = Reference(model, adapter, arguments.bos)
    for number, task in enumerate(tasks):
        if arguments.only not in f"{case} {task.ours}":
            continue
        label = f"{case}, {task.ours}"
        try:
            theirs, figures = reference.evaluate(manager, names[number], task, arguments.tokens)
            ours, results = ask_metier(arguments, data, folder, task, model, adapter, 1 + number % 5)
            if arguments.verbose:
                print(make_table(results))
            compare(report, label, reference, task, ours, theirs, results, figures)
        except RuntimeError as error:
            report.fail(label, str(error))


def check_models(report, arguments, benchmarks, folder, tasks):
    names = [write_harness_task(task, i, folder, arguments.samples) for i, task in enumerate(tasks)]
    manager = TaskManager(include_path=folder, include_defaults=False)
    data = benchmarks.folder
    for shape in SHAPES:
        wanted = {kind for kind in KINDS for task in tasks if arguments.only in f"{shape}{kind} {task.ours}"}
        if wanted & {"", " adapter"}:
            model = make_model(arguments.program, arguments.data, folder, shape, arguments.deviation)
        if "" in wanted:
            check_model(report, arguments, data, folder, shape, model, None, tasks, names, manager)
        if " adapter" in wanted:
            adapter = make_adapter(arguments.program, model, folder)
            check_model(report, arguments, data, folder, f"{shape} adapter", model, adapter, tasks, names, manager)
        if " trained" in wanted:
            fresh = make_model(arguments.program, arguments.data, folder, shape, 0.02)
            trained = train(arguments.program, fresh, folder, data, tasks, arguments.samples)
            check_model(report, arguments, data, folder, f"{shape} trained", trained, None, tasks, names, manager)


def check_all(report, arguments, folder):
    data = os.path.join(folder, "data")
    os.mkdir(data)
    benchmarks = Benchmarks(HARNESS, arguments.data, data)
    tasks = list(benchmarks.tasks())
    theirs = os.path.join(folder, "prompts")
    names = [write_harness_task(task, i, theirs, arguments.prompts) for i, task in enumerate(tasks)]
    manager = TaskManager(include_path=theirs, include_defaults=False)
    for task, name in zip(tasks, names):
        if arguments.only in task.ours:
            check_prompts(report, arguments, data, task, manager, name)
    if "VERDICTS" not in arguments.without:
        for task, answers in answered(HARNESS, os.path.join(ROOT, "tests/eval/labelled"), benchmarks, folder):
            if arguments.only in task.ours:
                check_verdicts(report, arguments, folder, task, answers)
    if "MODELS" not in arguments.without:
        write_solutions(benchmarks, folder)
        asked = [task for task in tasks if task.ours in ASKED or task.ours.startswith("glue")] + [solutions(benchmarks)]
        check_models(report, arguments, benchmarks, folder, asked)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", required=True)
    parser.add_argument("--program", default=os.path.join(ROOT, "build/release/bin/metier"))
    parser.add_argument("--prompts", type=int, default=20)
    parser.add_argument("--samples", type=int, default=4)
    parser.add_argument("--tokens", type=int, default=32)
    parser.add_argument("--deviation", type=float, default=0.1)
    parser.add_argument("--bos", default="tokenizer", choices=("tokenizer", "yes", "no"))
    parser.add_argument("--only", default="")
    parser.add_argument("--without", default=[], action="append", choices=("MODELS", "VERDICTS"))
    parser.add_argument("--verbose", action="store_true")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    logging.disable(logging.WARNING)
    transformers.logging.set_verbosity_error()
    evaluate.load = lambda name: CodeEval()
    report = Report(arguments.verbose)
    with tempfile.TemporaryDirectory() as folder:
        os.environ["HF_DATASETS_CACHE"] = os.path.join(folder, "cache")
        check_all(report, arguments, folder)
    print(f"{report.prompts} prompts, {report.verdicts} verdicts and {report.texts} texts compared, {report.ties} parted at a "
          f"tie; {report.choices} log-likelihoods, largest difference {report.worst:.1e}; {len(report.failures)} failures")
    return 1 if report.failures else 0


if __name__ == "__main__":
    sys.exit(main())
