#!/usr/bin/env python3
"""LiveCodeBench's answers judged by metier and by LiveCodeBench's own program.

First the labelled answers of tests/eval/cases/livecodebench.jsonl (`theirs` is their verdict where it is meant to be
another one; null: they cannot say). Then outputs and results made up at random: right ones with white space, zeros,
other types and the like changed. Every verdict is compared.

Usage: livecodebench_parity.py CHECKOUT [--count 400] [--seed 1] [--program build/release/bin/metier]
CHECKOUT is a checkout of LiveCodeBench/LiveCodeBench. Needs numpy and a sandbox.
"""
import argparse
import io
import json
import multiprocessing
import os
import random
import subprocess
import sys
import tempfile

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))


# ---------------------------------------------------------------- their judge

def their_process(folder, case, pipe):
    sys.path.insert(0, os.path.join(folder, "lcb_runner", "evaluation"))
    sys.stdout = io.StringIO()
    sys.set_int_max_str_digits(50000)
    import testing_util
    tests = {"inputs": [one[0] for one in case["cases"]], "outputs": [one[1] for one in case["cases"]],
             "fn_name": case.get("function")}
    try:
        results = testing_util.run_test({"input_output": json.dumps(tests)}, test=case["program"])[0]
    except BaseException:  # pylint: disable=broad-except
        results = [-5]
    pipe.send(len(results) == len(case["cases"]) and all(result is True or result == 1 for result in results))


def their_verdict(folder, case):
    ours, theirs = multiprocessing.Pipe()
    process = multiprocessing.Process(target=their_process, args=(folder, case, theirs))
    process.start()
    theirs.close()
    try:
        return ours.recv()
    except EOFError:  # the program ended their judge
        return False
    finally:
        process.join()


# ---------------------------------------------------------------- answers

def changed_text(rng, text):
    changes = (lambda t: t + "\n", lambda t: "\n" + t, lambda t: t.replace("\n", " \n"), lambda t: t.replace(" ", "  "),
               lambda t: t.replace("\n", "\r\n"), lambda t: t.replace("\n", "\n\n"), lambda t: t.replace("1", "1.0"),
               lambda t: t.replace("5", "5e0"), lambda t: t.upper(), lambda t: t.replace(".", ""), lambda t: t + " ",
               lambda t: "0" + t, lambda t: "+" + t, lambda t: t.replace("2", "3", 1), lambda t: t.replace(" ", "\n", 1),
               lambda t: t[:-1], lambda t: t.replace("0", "", 1), lambda t: "\t" + t, lambda t: t.replace("-", "\u2212"))
    for _ in range(rng.choice((0, 1, 1, 2))):
        text = rng.choice(changes)(text)
    return text


def make_text(rng):
    words = [lambda: str(rng.randrange(-20, 2000)), lambda: "%.3f" % rng.uniform(-5, 5), lambda: rng.choice(("Yes", "No", "a1")),
             lambda: "%g" % (10.0 ** rng.randrange(-9, 20))]
    kind = rng.choice(words)
    right = "\n".join(" ".join(kind() for _ in range(rng.randrange(1, 4))) for _ in range(rng.randrange(0, 4)))
    return {"program": "print(%r, end='')" % changed_text(rng, right), "cases": [["", right]]}


def make_value(rng, depth=0):
    if depth < 2 and rng.random() < 0.4:
        return [make_value(rng, depth + 1) for _ in range(rng.randrange(3))]
    return rng.choice((None, True, False, 0, 1, 2, 1.5, -3, "", "a", 10 ** 20))


def changed_value(rng, text):
    changes = (lambda t: t.replace("[", "(", 1).replace("]", ",)", 1) if t.startswith("[") and t.count("[") == 1 else t,
               lambda t: t.replace("True", "1"), lambda t: t.replace("0", "False"), lambda t: t.replace("1", "1.0"),
               lambda t: "[%s]" % t, lambda t: t.replace("None", "0"), lambda t: "str(%s)" % t, lambda t: "(%s,)" % t,
               lambda t: t.replace("'a'", "'b'"))
    return rng.choice(changes)(text) if rng.random() < 0.7 else text


def make_result(rng):
    right = make_value(rng)
    program = "class Solution:\n    def f(self, x):\n        return %s" % changed_value(rng, repr(right))
    return {"program": program, "function": "f", "cases": [["0", json.dumps(right)]]}


# ---------------------------------------------------------------- our judge

def our_verdicts(program, cases):
    """Verdicts of one run over all cases, as rows of the data set."""
    with tempfile.TemporaryDirectory() as folder:
        os.mkdir(os.path.join(folder, "livecodebench"))
        with open(os.path.join(folder, "livecodebench", "test.jsonl"), "w", encoding="utf-8") as file:
            for number, case in enumerate(cases):
                tests = [{"input": one, "output": other, "testtype": "functional" if "function" in case else "stdin"}
                         for one, other in case["cases"]]
                row = {"question_content": "?", "question_id": str(number), "starter_code": "",
                       "contest_date": "2024-01-01T00:00:00", "public_test_cases": json.dumps(tests),
                       "private_test_cases": "[]",
                       "metadata": json.dumps({"func_name": case["function"]} if "function" in case else {})}
                file.write(json.dumps(row) + "\n")
        with open(os.path.join(folder, "answers.jsonl"), "w", encoding="utf-8") as file:
            for number, case in enumerate(cases):
                answer = "```python\n%s\n```" % case["program"]
                file.write(json.dumps({"task": "livecodebench", "id": str(number), "answer": answer}) + "\n")
        out = os.path.join(folder, "out")
        subprocess.run([program, "eval", "livecodebench", "--data", folder, "--answers",
                        os.path.join(folder, "answers.jsonl"), "--out", out, "--quiet"], check=True, stdout=subprocess.DEVNULL)
        with open(os.path.join(out, "samples_livecodebench.jsonl"), encoding="utf-8") as file:
            samples = [json.loads(line) for line in file]
    return {int(sample["id"]): (sample["score"] == 1, sample.get("why")) for sample in samples}


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("checkout")
    parser.add_argument("--count", type=int, default=400)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--program", default=os.path.join(ROOT, "build/release/bin/metier"))
    arguments = parser.parse_args()
    rng = random.Random(arguments.seed)
    with open(os.path.join(ROOT, "tests/eval/cases/livecodebench.jsonl"), encoding="utf-8") as file:
        cases = [json.loads(line) for line in file]
    labelled = len(cases)
    cases += [rng.choice((make_text, make_result))(rng) for _ in range(arguments.count)]
    ours = our_verdicts(arguments.program, cases)
    wrong = passed = 0
    for number, case in enumerate(cases):
        theirs = their_verdict(arguments.checkout, case)
        wanted = case.get("theirs", ours[number][0])
        passed += theirs
        same = wanted is None or theirs == wanted
        label = number >= labelled or ours[number][0] == case["passes"]
        if not (same and label):
            wrong += 1
            print(f"{case.get('name', '')}: {case['program']!r} {case['cases']}: {ours[number]} here, {theirs} there")
    print(f"{len(cases)} answers, {passed} of them right by LiveCodeBench, {wrong} judged otherwise than expected")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
