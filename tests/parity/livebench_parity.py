#!/usr/bin/env python3
"""LiveBench's puzzles, contests, column types and joined tables judged by metier and by LiveBench's own judges.

Answers are made up: right and wrong ones in the many ways models write them (bold, boxed, in <solution> marks, in
prose, with several of these, broken, in capitals, with thoughts before), put together at random from a seed. Every
score is compared.

Usage: livebench_parity.py CHECKOUT [--count 1000] [--seed 1] [--program build/release/bin/metier] [--cases FILE]
CHECKOUT is a checkout of LiveBench/LiveBench. --cases also writes some of the rows, answers and LiveBench's scores to
a file: tests/eval/cases/livebench_answers.jsonl is made so.
"""
import argparse
import contextlib
import importlib
import io
import json
import os
import random
import re
import subprocess
import sys
import tempfile

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
WORDS = "tea coffee police-officer journalist filmmaking 1 2 3 four yes no unknown horror cycling Year id country_code".split()


# ---------------------------------------------------------------- their judges

class Judges:
    def __init__(self, folder):
        sys.path.insert(0, folder)
        base = "livebench.process_results."
        load = lambda name: importlib.import_module(base + name + ".utils")  # noqa: E731
        self.cta = load("data_analysis.cta").cta_process_results
        self.spatial = load("reasoning.spatial").spatial_process_results
        self.zebra = load("reasoning.zebra_puzzle").get_zebra_puzzle_evaluator
        self.lies = load("reasoning.web_of_lies_v2").web_of_lies_process_results
        contests = load("math.math_competitions")
        self.amc, self.aime = contests.mathcontest_process_results, contests.aime_process_results
        self.olympiad = load("math.olympiad").proof_rearrangement_process_results
        self.join = load("data_analysis.tablejoin").joinmap_process_results

    def score(self, row, answer):
        """As play_a_match_gt of gen_ground_truth_judgment.py goes about it: an exception is 0."""
        truth, task = row["ground_truth"], row.get("subtask", row["task"])
        answer = re.sub("<think>.*?</think>", "", answer, flags=re.DOTALL)
        judges = {
            "cta": lambda: self.cta(truth, answer),
            "spatial": lambda: self.spatial(truth, answer),
            "zebra_puzzle": lambda: self.zebra(row["livebench_release_date"])(truth, answer),
            "web_of_lies_v2": lambda: self.lies(truth, answer),
            "amc_12a": lambda: self.amc(truth, answer, row["turns"][0]),
            "aime": lambda: self.aime(truth, answer),
            "tablejoin": lambda: self.join(row["turns"][0], truth, answer),
            "usamo": lambda: self.olympiad(truth, answer, edit_distance=True),
        }
        with contextlib.redirect_stdout(io.StringIO()):
            try:
                return float(judges[task]())
            except Exception:  # pylint: disable=broad-except
                return 0.0


# ---------------------------------------------------------------- answers

def spoil(rng, text):
    """A text with something changed."""
    changes = (str.upper, str.title, str.lower, lambda t: t + ".", lambda t: f" {t} ", lambda t: t.replace(" ", ""),
               lambda t: t.replace(", ", ","), lambda t: t.replace("-", " "), lambda t: t[:-1], lambda t: t + "s",
               lambda t: t.replace(",", " ,"), lambda t: "the " + t, lambda t: t.replace(", ", " and "),
               lambda t: f"“{t}”", lambda t: t.replace("e", "é"), lambda t: t + "!", lambda t: f"${t}$",
               lambda t: t.replace(", ", ",\n"), lambda t: "\u00a0" + t, lambda t: t + " position")
    return rng.choice(changes)(text)


def dressed(rng, text):
    """A text as models mark an answer."""
    ways = ("{}", "**{}**", "***{}***", "*{}*", "** {} **", "\\boxed{{{}}}", "$\\boxed{{{}}}$", "\\boxed {}", "\\boxed {}$ so",
            "\\fbox{{{}}}", "\\\\fbox{{{}}}", "\\boxed{{\\text{{{}}}}}", "\\boxed{{\\textbf{{{}}}}}", "\\textbf{{{}}}",
            "<solution>{}</solution>", "<solution>{}<solution>", "</solution>{}</solution>", "<solution>\n{}\n</solution>",
            "<solution>**{}**</solution>", "Answer: {}", "answer: **{}**", "**Answer:** {}", "Answer:\n{}", "The answer is {}.",
            "Answer: {}\nDone, 3 steps", "({})", "So ({}) it is", "`{}`", "\"{}\"", "{}\n", "\n\n{}\n\n", "\\boxed{{{}",
            "\\boxed{{{{{}}}}}", "**{}", "answer: $\\boxed{{{}}}$", "<think>{}</think>", "<think>{}", "Answer: <{}>",
            "\\[ \\boxed{{{}}} \\]", "{} {}", "Answer: x = {}", "[{}]", "- {}", "**{}**\n**{}**", "Final answer: {} .")
    return rng.choice(ways).replace("{}", text.replace("{", "{{").replace("}", "}}")).replace("{{", "{").replace("}}", "}")


def answer_for(rng, candidates):
    """Some sentences, among them candidates in some dress."""
    prose = ("Let me think.", "First, second, third.", "So 1, 2, 3 are out.", "It is **important** to see this.", "Hence:",
             "We have $x = 3$.", "**yes**, but **no**", "There are 5 of them", "", "\n", "```\nx\n```", "**Step 1:**", "OK,")
    parts = []
    for _ in range(rng.randrange(1, 5)):
        text = rng.choice(candidates)
        if rng.random() < 0.4:
            text = spoil(rng, text)
        parts.append(dressed(rng, text) if rng.random() < 0.85 else text)
        if rng.random() < 0.5:
            parts.insert(rng.randrange(len(parts) + 1), rng.choice(prose))
    text = rng.choice(("\n", " ", "\n\n", ". ")).join(parts)
    for _ in range(rng.choice((0, 0, 0, 1, 2, 5))):  # noise
        at = rng.randrange(len(text) + 1)
        if rng.random() < 0.5:
            text = text[:at] + text[at + 1:]
        else:
            text = text[:at] + rng.choice("*${}\\,.()<>/_:\n\t 0²éİß−\u2003") + text[at:]
    return text


def row_of(task, truth, **more):
    return {"task": task, "ground_truth": truth, "livebench_release_date": "2024-11-25", "turns": ["?"], **more}


def make_cta(rng):
    truth = rng.choice(("Year", "country code", "id", ":@computed_region_d3ds", "Número", "Maize yield"))
    return row_of("cta", truth), [truth, "a " + truth, rng.choice(WORDS), truth + " column", "The class is " + truth]


def make_spatial(rng):
    truth = rng.choice(("3", "10", "tetrahedra", "triangle", "square", "tetrahedron", "12", "A", "Square"))
    words = dict(zip(("3", "10", "12"), ("three", "ten", "twelve")))
    return row_of("spatial", truth), [truth, words.get(truth, "two " + truth), "equilateral " + truth, str(rng.randrange(15)),
                                      "circle square triangle", "regular " + truth + " shape", truth.lower()]


def make_zebra(rng):
    count = rng.randrange(1, 5)
    words = [rng.choice(WORDS) for _ in range(count)]
    truth = rng.choice((", ", ",")).join(words)
    if rng.random() < 0.3:  # a puzzle of the first release
        truth = rng.choice(("four", "two", "horror movies", "tea"))
        said = [truth, "4", "2", "horror", "coffee", truth.upper()]
        return row_of("zebra_puzzle", truth, livebench_release_date="2024-07-26"), said
    other = ", ".join(rng.choice(WORDS) for _ in range(count))
    some = ", ".join(word if rng.random() < 0.6 else rng.choice(WORDS) for word in words)
    return row_of("zebra_puzzle", truth), [truth, other, some, some + ", " + other, words[0], ", ".join(words[1:]), words[-1]]


def make_lies(rng):
    three = lambda: ", ".join(rng.choice(("yes", "no", "unknown")) for _ in range(3))  # noqa: E731
    truth = three()
    apart = " ".join(f"**{word}**" for word in truth.split(", "))
    return row_of("web_of_lies_v2", truth), [truth, three(), apart, truth + ", " + three(), truth.replace(", ", " "), "yes",
                                             "1. " + truth, truth.upper()]


def make_math_comp(rng):
    if rng.random() < 0.4:
        truth = rng.choice(("042", "7", "113", "999"))
        filler = "x" * rng.randrange(60)
        return row_of("math_comp", truth, subtask="aime"), [truth, truth + filler, "042", truth * 3, filler, truth.lstrip("0")]
    truth = rng.choice("ABCDE")
    values = ["5", "\\frac{1}{2}", "$6", "~12", "\\text{none}"]
    gap = rng.choice((" ", "", "  "))
    question = "Which? $" + rng.choice(("\\qquad", "\\qquad ", "$ $", "\n")).join(
        f"\\textbf{{({letter}){gap}}}{value}" for letter, value in zip("ABCDE", values)) + rng.choice(("$", "", "\\qquad"))
    other = rng.choice("ABCDEF")
    return (row_of("math_comp", truth, subtask="amc_12a", turns=[question]),
            [truth, other, truth * 5, other * 5, truth * 4, values["ABCDE".index(truth)], rng.choice(values), truth.lower(),
             f"({truth})", f"({other}) is wrong, ({truth}) right", f"\\text{{({truth})}}", truth * 3])


def make_olympiad(rng):
    count = rng.randrange(1, 8)
    right = rng.sample(range(1, 30), count)
    truth = ",".join(map(str, right))
    mixed = rng.sample(right, count)
    lost = right[:-1]
    forms = [right, mixed, lost, right + [31], [rng.randrange(1, 30) for _ in range(count)]]
    texts = [", ".join(map(str, form)) for form in forms] + [",".join(map(str, right)), " ".join(map(str, right))]
    texts += [", ".join(f"expression {n}" for n in right), ", ".join(f"<expression {n}>" for n in right),
              ", ".join(f"{i + 1}: {n}" for i, n in enumerate(right)), ", ".join(f"${n}$" for n in right), "NO ANSWER",
              ", ".join(map(str, right)) + ", and 3_0", "+" + texts[0], str(10**30) + ", " + texts[0], texts[0] + ","]
    return row_of("olympiad", truth, subtask="usamo"), texts


def make_join(rng):
    names = rng.sample(("id", "Name", "year of birth", "it's", "ärea", "x_1", "Total"), rng.randrange(1, 5))
    right = {name: name.upper() for name in names}
    said = dict(right)
    for name in names:
        if rng.random() < 0.3:
            said[name] = rng.choice(("other", None, 3, "", True))
        elif rng.random() < 0.2:
            del said[name]
    if rng.random() < 0.2:
        said["more"] = "MORE"
    texts = [str(right), str(said), json.dumps(said), json.dumps(said, indent=2), str(names)]
    fence = rng.choice(("", "python", "json"))
    return row_of("tablejoin", str(right)), texts + [f"```{fence}\n{text}\n```" for text in texts]


MAKERS = {"cta": make_cta, "spatial": make_spatial, "zebra_puzzle": make_zebra, "web_of_lies_v2": make_lies,
          "math_comp": make_math_comp, "olympiad": make_olympiad, "tablejoin": make_join}


# ---------------------------------------------------------------- ours

def write_lines(path, lines):
    with open(path, "w", encoding="utf-8") as file:
        file.writelines(json.dumps(line, ensure_ascii=False) + "\n" for line in lines)


def ask_metier(program, folder, task, rows, answers):
    """Scores of answers, one row each."""
    write_lines(os.path.join(folder, "rows.jsonl"), [{"question_id": str(i), **row} for i, row in enumerate(rows)])
    write_lines(os.path.join(folder, "answers.jsonl"), [{"id": str(i), "answer": text} for i, text in enumerate(answers)])
    with open(os.path.join(ROOT, "share/tasks", task + ".yaml"), encoding="utf-8") as file:
        text = re.sub(r"^data: .*$", "data: rows.jsonl", file.read(), flags=re.MULTILINE)
    path = os.path.join(folder, task + ".yaml")
    with open(path, "w", encoding="utf-8") as file:
        file.write(text)
    out = os.path.join(folder, "out-" + task)
    subprocess.run([program, "eval", path, "--data", folder, "--answers", os.path.join(folder, "answers.jsonl"), "--out",
                    out, "--quiet"], check=True, stdout=subprocess.DEVNULL)
    with open(os.path.join(out, f"samples_{task}.jsonl"), encoding="utf-8") as file:
        scores = {line["id"]: line["score"] for line in map(json.loads, file)}
    return [scores[str(i)] for i in range(len(rows))]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("checkout")
    parser.add_argument("--count", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--program", default=os.path.join(ROOT, "build/release/bin/metier"))
    parser.add_argument("--cases")
    arguments = parser.parse_args()
    judges = Judges(arguments.checkout)
    otherwise, cases = 0, []
    with tempfile.TemporaryDirectory() as folder:
        for task, make in MAKERS.items():
            rng = random.Random(f"{arguments.seed} {task}")
            rows, answers = [], []
            for _ in range(arguments.count):
                row, candidates = make(rng)
                rows.append(row)
                answers.append(answer_for(rng, candidates))
            theirs = [judges.score(row, answer) for row, answer in zip(rows, answers)]
            ours = ask_metier(arguments.program, folder, "livebench_" + task, rows, answers)
            wrong = [i for i in range(len(rows)) if abs(ours[i] - theirs[i]) > 1e-12]
            for i in wrong[:10]:
                print(f"{task}: {ours[i]} is not {theirs[i]}: {rows[i]['ground_truth']!r}\n    {answers[i]!r}")
            right = sum(1 for score in theirs if score == 1.0)
            print(f"{task}: {len(rows)} answers, {right} of them right, {len(wrong)} judged otherwise")
            otherwise += len(wrong)
            if task == "tablejoin":  # has cases of its own
                continue
            cases += [{**row, "text": text, "score": score} for row, text, score in list(zip(rows, answers, theirs))[:40]]
    if arguments.cases:
        write_lines(arguments.cases, cases)
    return 1 if otherwise else 0


if __name__ == "__main__":
    sys.exit(main())
