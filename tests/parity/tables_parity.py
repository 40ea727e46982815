#!/usr/bin/env python3
"""LiveBench's tables judged by metier and by pandas.

Reformatted tables: the questions' own right tables, each also as other programs and models write it (another order of
columns, quoted, fenced, with labels of rows, with values changed, lost and exchanged, ...), and the cases of
tests/eval/cases/tables.jsonl. Mappings: the cases of mappings.jsonl, with Python's literal_eval. The reference here
reads both tables with pandas and compares them value by value; with --livebench DIR, a checkout of
LiveBench/LiveBench, its own judge is the reference instead.

Usage: tables_parity.py [--data FOLDER] [--livebench DIR] [--program build/release/bin/metier] [--verbose]
FOLDER holds livebench/data_analysis/tablereformat/question.jsonl; without it only the cases are compared. Needs pandas
and lxml.
"""
import argparse
import ast
import contextlib
import importlib
import io
import json
import os
import re
import subprocess
import sys
import tempfile
import warnings

try:
    import lxml  # noqa: F401 (pandas.read_html)
    import numpy
    import pandas
except ImportError as error:
    print(f"tables_parity: needs a Python with pandas and lxml: {error}", file=sys.stderr)
    sys.exit(77)

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
QUESTION = "Please convert the Input Table from CSV format to {} format. Please respond only with the table."


def read_lines(path):
    with open(path, encoding="utf-8") as file:
        return [json.loads(line) for line in file]


# ---------------------------------------------------------------- the reference

def read_table(form, text):
    """The table pandas finds in a text; raises where it finds none."""
    if form == "csv":
        return pandas.read_csv(io.StringIO(text))
    if form == "tsv":
        return pandas.read_csv(io.StringIO(text), sep="\t")
    if form == "jsonl":
        return pandas.read_json(io.StringIO(text), lines=True)
    if form == "html":
        return pandas.concat(pandas.read_html(io.StringIO(text)))
    if form == "markdown":
        lines = text.strip().split("\n")
        bars = "\n".join(lines[:1] + lines[2:])
        return pandas.read_table(io.StringIO(bars), sep="|", skipinitialspace=True).iloc[:, 1:-1]
    for options in ({"orient": "index"}, {"orient": "records"}, {"orient": "records", "lines": True}):
        try:
            return pandas.read_json(io.StringIO(text), **options)
        except Exception:  # pylint: disable=broad-except
            continue
    raise ValueError("no table of JSON")


def is_number(value):
    return isinstance(value, (float, int, numpy.number, numpy.bool_))


def same_value(one, other):
    if is_number(one) and is_number(other):
        one, other = float(one), float(other)
        return (one != one and other != other) or abs(one - other) < 1e-6
    one, other = (value.strip() if isinstance(value, str) else value for value in (one, other))
    return bool(one == other)


def same_tables(one, other):
    """Raises where names are no texts, or one name is two columns."""
    tables = []
    for table in (one, other):
        table = table.copy()
        table.columns = [name.strip() for name in table.columns]
        tables.append(table.drop(columns=["index"], errors="ignore"))
    one, other = tables
    if len(one) != len(other) or sorted(one.columns) != sorted(other.columns):
        return False
    return all(same_value(one[name].iloc[row], other[name].iloc[row]) for row in range(len(one)) for name in one.columns)


def attempt(read, right):
    """Whether a table is read and is the right one; the second: whether it was read."""
    try:
        table = read()
    except Exception:  # pylint: disable=broad-except
        return False, False
    try:
        return same_tables(right, table), True
    except Exception:  # pylint: disable=broad-except
        return False, True


def unwrap(answer):
    """The part of an answer that should be the table."""
    marked = re.findall(r"<solution>(.*?)</solution>", answer, re.DOTALL)
    if marked:
        return unwrap(marked[-1].strip())
    for name in ("json", "html"):
        fenced = re.findall(rf"```{name}\n(.*?)```", answer, re.DOTALL)
        if fenced:
            return fenced[-1].strip()
    return re.sub(r"^```.*\n", "", answer).replace("&amp;", "&").replace("```", "").strip()


def below_header(text, names, separator):
    lines = text.strip().split("\n")
    wanted = {separator.join(names).strip(), separator.join(name.strip() for name in names).strip()}
    first = next(i for i, line in enumerate(lines) if line.strip() in wanted)
    for last in range(len(lines), first, -1):
        with contextlib.suppress(Exception):
            return pandas.read_csv(io.StringIO("\n".join(lines[first:last])), sep=separator)
    raise ValueError("no table below the names")


def row_lines(text, names):
    rows = []
    for line in text.strip().split("\n"):
        if line[:1] == "{" and line[-1:] == "}" and len(line) > 1 and all(name in line for name in names):
            with contextlib.suppress(ValueError):
                rows.append(json.loads(line))
    if not rows:
        raise ValueError("no rows")
    return pandas.DataFrame(rows)  # None, equal to nothing, where a column holds nothing else


def reference_table(form, truth, answer):
    right = read_table(form, truth)
    names = list(right.columns)
    text = unwrap(answer)
    text = re.sub(r"^\s*(Here|Input)\b.*?\b(format|table)\s*[:)]\s*", "", text, flags=re.IGNORECASE).strip()
    equal, was_read = attempt(lambda: read_table(form, text), right)
    if not equal and (form == "csv" or (form == "tsv" and not was_read)):
        equal, _ = attempt(lambda: below_header(text, names, "," if form == "csv" else "\t"), right)
    if not equal and form == "jsonl":
        equal, _ = attempt(lambda: row_lines(text, names), right)
    return float(equal)


def literal(text):
    try:
        return ast.literal_eval(text)
    except (SyntaxError, ValueError):
        return None


def reference_mapping(truth, answer):
    truth = ast.literal_eval(truth)
    for marked in re.findall("<solution>(.*?)</solution>", answer, re.DOTALL)[-1:]:
        answer = marked.strip()
    flat = answer.replace("\n", "")
    parts = [re.findall(f"```{name}(.*?)```", flat) for name in ("python", "json", "")]
    boxed = re.search(r"\\boxed\{(.*)\}", flat)
    if boxed:
        parts.append([re.sub(r"\\text{['\"](.*?)['\"]}", r"'\1'", boxed.group(1)).replace("\\", "")])
    found = next((part[-1] for part in parts if part), answer).replace("null", "None")
    said = literal(answer)
    said = literal(found) if said is None else said
    said = {name: value for name, value in said.items() if value is not None} if isinstance(said, dict) else {}
    if not said:
        return 0.0
    hits = sum(1 for name, value in said.items() if truth.get(name) and truth[name] == value)
    extra = len(said) - hits
    lost = sum(1 for name, value in said.items() if truth.get(name) and truth[name] != value)
    lost += sum(1 for name in truth if not said.get(name))
    return float(round(2 * hits / (2 * hits + extra + lost), 2))


class Judge:
    """The reference: that above, or LiveBench's own."""

    def __init__(self, folder):
        self.own = folder is None
        if self.own:
            return
        sys.path.insert(0, folder)
        base = "livebench.process_results.data_analysis."
        self.tables = importlib.import_module(base + "tablereformat.utils")
        self.joins = importlib.import_module(base + "tablejoin.utils")

    def table(self, form, truth, answer):
        with warnings.catch_warnings(), contextlib.redirect_stdout(io.StringIO()):
            warnings.simplefilter("ignore")
            if self.own:
                return reference_table(form, truth, answer)
            version = "v2" if form == "markdown" else "v1"  # the first way to read Markdown leaves a column out
            question = QUESTION.format(form.upper())
            if version == "v2":
                question = "Source Format: CSV\nTarget Format: Markdown\n"
            return float(self.tables.table_process_results(question, truth, answer, version))

    def mapping(self, truth, answer):
        with contextlib.redirect_stdout(io.StringIO()):
            if self.own:
                return reference_mapping(truth, answer)
            return float(self.joins.joinmap_process_results("", truth, answer))


# ---------------------------------------------------------------- a table written in other ways

def changed_frames(table):
    """Tables like the right one, and what was done to them."""
    yield "as it is", table
    yield "columns reversed", table[list(table.columns[::-1])]
    yield "rows reversed", table.iloc[::-1]
    yield "without the last row", table.iloc[:-1]
    yield "the last row twice", pandas.concat([table, table.iloc[-1:]])
    yield "without the last column", table[list(table.columns[:-1])]
    yield "all texts", table.astype(str)
    yield "rows numbered in a column", table.reset_index(drop=True).reset_index()
    name = table.columns[0]
    yield "a name with spaces", table.rename(columns={name: f" {name} "})
    yield "a name with a letter more", table.rename(columns={name: f"{name}s"})
    for column in (table.columns[0], table.columns[-1]):
        for what, value in (("lost", None), ("zero", 0), ("a word", "word"), ("a little more", "more")):
            other = table.astype(object).copy()
            if value == "more":
                if not pandas.api.types.is_numeric_dtype(table[column]):
                    continue
                value = float(table[column].iloc[0]) + 1e-5
            other.iloc[0, list(other.columns).index(column)] = value
            yield f"the first value of '{column}' is {what}", other


def written(form, table):
    """The table as pandas and others write it."""
    index = form == "json"
    table = table.reset_index(drop=True)
    writers = {
        "json": [lambda: table.to_json(orient="index"), lambda: table.to_json(orient="records"),
                 lambda: table.to_json(orient="columns"), lambda: table.to_json(orient="records", indent=2)],
        "jsonl": [lambda: table.to_json(orient="records", lines=True), lambda: table.to_json(orient="records")],
        "csv": [lambda: table.to_csv(index=False), lambda: table.to_csv(), lambda: table.to_csv(index=False, quoting=1),
                lambda: table.to_csv(index=False, na_rep="NaN")],
        "tsv": [lambda: table.to_csv(index=False, sep="\t"), lambda: table.to_csv(sep="\t"),
                lambda: table.to_csv(index=False, sep="\t", na_rep="NaN")],
        "html": [lambda: table.to_html(index=False), lambda: table.to_html(), lambda: table.to_html(index=index),
                 lambda: table.to_html(index=False, na_rep="")],
    }
    for number, writer in enumerate(writers[form]):
        with contextlib.suppress(ValueError):
            yield number, writer()


def wrapped(form, text):
    yield "", text
    yield "fenced", f"```{form}\n{text}\n```"
    yield "a sentence in front", f"Here is the table in {form.upper()} format:\n\n{text}"
    yield "words around", f"Of course!\n\n{text}\n\nLet me know."
    yield "in solution marks", f"<solution>\n{text}\n</solution>"


def made_cases(data):
    path = os.path.join(data, "livebench/data_analysis/tablereformat/question.jsonl")
    for row in read_lines(path):
        form = re.search(r"format to (\w+) format", row["turns"][0]).group(1).lower()
        truth = row["ground_truth"]
        for how, text in wrapped(form, truth):
            yield form, truth, text, f"{row['question_id'][:8]} itself {how}"
        for what, frame in changed_frames(read_table(form, truth)):
            for number, text in written(form, frame):
                yield form, truth, text, f"{row['question_id'][:8]} {what}, writer {number}"


# ---------------------------------------------------------------- ours

def ask_metier(program, folder, task, rows, answers):
    """Scores of answers, one row each."""
    for name, lines in (("rows", rows), ("answers", answers)):
        with open(os.path.join(folder, name + ".jsonl"), "w", encoding="utf-8") as file:
            file.writelines(json.dumps(line, ensure_ascii=False) + "\n" for line in lines)
    with open(os.path.join(ROOT, "share/tasks", task + ".yaml"), encoding="utf-8") as file:
        text = re.sub(r"^data: .*$", "data: rows.jsonl", file.read(), flags=re.MULTILINE)
    path = os.path.join(folder, task + ".yaml")
    with open(path, "w", encoding="utf-8") as file:
        file.write(text)
    out = os.path.join(folder, "out-" + task)
    subprocess.run([program, "eval", path, "--data", folder, "--answers", os.path.join(folder, "answers.jsonl"), "--out",
                    out, "--quiet"], check=True, stdout=subprocess.DEVNULL)
    scores = {line["id"]: line["score"] for line in read_lines(os.path.join(out, f"samples_{task}.jsonl"))}
    return [scores[row["question_id"]] for row in rows]


def compare(kind, cases, ours, theirs, verbose):
    wrong = [i for i, case in enumerate(cases) if abs(ours[i] - theirs[i]) > 1e-9]
    for i in wrong if verbose else wrong[:20]:
        print(f"{kind}: {cases[i][-1]}: {ours[i]} is not {theirs[i]}\n    {cases[i][-2][:300]!r}")
    right = sum(1 for score in theirs if score == 1.0)
    print(f"{kind}: {len(cases)} answers, {right} of them right, {len(wrong)} judged otherwise")
    return len(wrong)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data")
    parser.add_argument("--livebench")
    parser.add_argument("--program", default=os.path.join(ROOT, "build/release/bin/metier"))
    parser.add_argument("--verbose", action="store_true")
    arguments = parser.parse_args()
    judge = Judge(arguments.livebench)
    cases = os.path.join(ROOT, "tests/eval/cases")
    tables = [(case["format"], case["truth"], case["answer"], case["why"])
              for case in read_lines(os.path.join(cases, "tables.jsonl"))]
    by_hand = len(tables)
    if arguments.data:
        tables += made_cases(arguments.data)
    mappings = [(case["truth"], case["answer"], case["why"]) for case in read_lines(os.path.join(cases, "mappings.jsonl"))]
    with tempfile.TemporaryDirectory() as folder:
        rows = [{"question_id": str(i), "turns": [QUESTION.format(case[0])], "ground_truth": case[1]}
                for i, case in enumerate(tables)]
        answers = [{"id": str(i), "answer": case[2]} for i, case in enumerate(tables)]
        ours = ask_metier(arguments.program, folder, "livebench_tablereformat", rows, answers)
        theirs = [judge.table(form, truth, answer) for form, truth, answer, _ in tables]
        wrong = compare("tables by hand", tables[:by_hand], ours[:by_hand], theirs[:by_hand], arguments.verbose)
        wrong += compare("tables made", tables[by_hand:], ours[by_hand:], theirs[by_hand:], arguments.verbose)
        rows = [{"question_id": str(i), "turns": ["Join."], "ground_truth": case[0]} for i, case in enumerate(mappings)]
        answers = [{"id": str(i), "answer": case[1]} for i, case in enumerate(mappings)]
        ours = ask_metier(arguments.program, folder, "livebench_tablejoin", rows, answers)
        theirs = [judge.mapping(truth, answer) for truth, answer, _ in mappings]
        wrong += compare("mappings", mappings, ours, theirs, arguments.verbose)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
