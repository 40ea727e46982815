#!/usr/bin/env python3
"""IFEval judged by metier and by lm-evaluation-harness, which carries the authors' program.

Questions of all 25 kinds with their values, and answers that follow them or nearly do, are made up at random from a
seed: texts of several paragraphs with titles, bullets, asterisks, quotes, fences, postscripts, capitals, contractions
and other scripts, wrapped as models wrap them. Every verdict metier gives, strict and loose, must be the harness's, and
the four figures must be those of the verdicts it gives; what it leaves open (language, sentences) is counted.

Usage: ifeval_parity.py [--count 3000] [--seed 1] [--program build/release/bin/metier]
Needs lm-eval 0.4.13 with langdetect, immutabledict and nltk, whose data (punkt_tab) lies where NLTK_DATA says.
"""
import argparse
import collections
import json
import os
import random
import subprocess
import sys
import tempfile

try:
    import nltk
    nltk.data.find("tokenizers/punkt_tab")
    import lm_eval.tasks.ifeval.instructions as checkers
    from lm_eval.tasks.ifeval import instructions_registry, utils
except (ImportError, LookupError) as error:
    print(f"ifeval_parity: needs lm-eval, langdetect, immutabledict and nltk with punkt_tab: {str(error).strip()}",
          file=sys.stderr)
    sys.exit(77)

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
KINDS = sorted(instructions_registry.INSTRUCTION_DICT)
WORDS = ("sun river stone tea Tea coffee party art kart it's don't cannot gonna NASA U.S. e.g. Mr. I'M IT'S. DON'T. naïve "
         "ÉTÉ straße größer Привет мир 東京 2024 3.14 1,000 A B. C++ well-known O'Neil 'tis rock'n'roll X. end. Why? "
         "Stop! yes, no; maybe: ok… \"quoted\" (bracket) [slot] [two words] *bold* **strong** ** ** * <<title>> << >> P.S. "
         "P. S. P.P.S more'n WANNA ﬁne ǅ Ⅳ ª ⓐ İstanbul ſharp K l’été “So” -- – #tag $5 @you &c 100% _under_ a_b "
         "SECTION Section 1 Section2 DAY").split(" ")
PHRASES = ("Any other questions?", "Is there anything else I can help with?", "That is all.", "“Done.”", "the end\"", "End.")
PROMPTS = ("Write a (short) story.\nUse words. ", "Summarise: A+B?", "ÉCRIS un poème!", "Say it")


def sentence(rng):
    words = [rng.choice(WORDS) for _ in range(rng.randint(1, 12))]
    text = " ".join(words)
    text = rng.choice((str, str, str, str.upper, str.lower, str.capitalize, str.title))(text)
    return text + rng.choice((".", ".", "!", "?", "", ",", ":", "...", ".)", "'S.", "N'T."))


def values_for(rng, kind):
    relation = rng.choice(("less than", "at least"))
    small = rng.randint(1, 6)
    return {
        "keywords:existence": {"keywords": rng.sample(["sun", "tea", "art", "c++", "u.s.", "мир", "été", "NASA"], rng.randint(1, 2))},
        "keywords:frequency": {"keyword": rng.choice(("tea", " sun ", "a.", "art", "ſ", "k")), "frequency": small,
                               "relation": relation},
        "keywords:forbidden_words": {"forbidden_words": rng.sample(["sun", "art", "tea", "été", "u.s", "don", "東京", "a_b"], 2)},
        "keywords:letter_frequency": {"letter": rng.choice("aeiksTz"), "let_frequency": rng.randint(1, 40),
                                      "let_relation": relation},
        "language:response_language": {"language": rng.choice(("en", "ru", "de", "ja"))},
        "length_constraints:number_sentences": {"num_sentences": rng.randint(1, 20), "relation": relation},
        "length_constraints:number_paragraphs": {"num_paragraphs": rng.randint(1, 4)},
        "length_constraints:number_words": {"num_words": rng.randint(1, 80), "relation": relation},
        "length_constraints:nth_paragraph_first_word": {
            "num_paragraphs": (n := rng.randint(1, 5)), "nth_paragraph": rng.randint(1, n),
            "first_word": rng.choice(("Sun", "été", "so", "it's", "tea", "straße", "привет"))},
        "detectable_content:number_placeholders": {"num_placeholders": small},
        "detectable_content:postscript": {"postscript_marker": rng.choice(("P.S.", "P.P.S", "Note", " P.S. ", "p.s"))},
        "detectable_format:number_bullet_lists": {"num_bullets": small},
        "detectable_format:number_highlighted_sections": {"num_highlights": small},
        "detectable_format:multiple_sections": {"section_spliter": rng.choice(("Section", "SECTION", "Day", "Q.")),
                                                "num_sections": small},
        "combination:repeat_prompt": {"prompt_to_repeat": rng.choice(PROMPTS)},
        "startend:end_checker": {"end_phrase": rng.choice(PHRASES)},
        "change_case:capital_word_frequency": {"capital_frequency": rng.randint(1, 25), "capital_relation": relation},
    }.get(kind, {})


def follow(rng, kind, values, text):
    """Something done to the text that the instruction may want."""
    number = next((v for v in values.values() if isinstance(v, int)), 3) + rng.choice((-1, 0, 0, 0, 1))
    lines = [sentence(rng) for _ in range(max(number, 0))]
    if kind.startswith("keywords:"):
        listed = values.get("keywords") or values.get("forbidden_words") or [values.get("keyword", "a")]
        return text + " " + " ".join(rng.choice((w, w.upper(), w + "s", "x" + w)) for w in listed for _ in range(rng.randint(0, 4)))
    if kind == "detectable_format:number_bullet_lists":
        return text + "\n" + "\n".join(rng.choice(("* ", "- ", "  * ", "\t- ", "*", "** ", "\n\n* ", "*\n")) + l for l in lines)
    if kind == "detectable_format:number_highlighted_sections":
        return text + " ".join(rng.choice(("*{}*", "**{}**", "* *", "***{}***", "*a\n{}*")).format(l) for l in lines)
    if kind == "detectable_format:multiple_sections":
        return text + "\n".join(f"{values['section_spliter']}{rng.choice((' ', '', '  '))}{i + 1}{rng.choice((chr(10), ':', ' '))}{l}"
                                for i, l in enumerate(lines))
    if kind == "length_constraints:number_paragraphs":
        return rng.choice(("\n***\n", "***", " *** ", "\n\n***\n\n")).join(lines or [text])
    if kind == "length_constraints:nth_paragraph_first_word":
        word = rng.choice((str, str.upper, lambda w: "'" + w, lambda w: '"' + w + '"', lambda w: w + ",", lambda w: w + "s"))(
            values["first_word"])
        return rng.choice(("\n\n", "\n\n", "\n\n\n", "\n\n\n\n")).join(f"{word} {l}" for l in lines)
    if kind == "detectable_content:postscript":
        return text + "\n" + rng.choice(("P.S. So", "p. s. so", "P.P.S so", "p.p. s", "Note: x", "PS so"))
    if kind == "detectable_format:title":
        return rng.choice(("<<{}>>\n", "<<>>{}", "<< {}", "<<<{}>>>", "<<\n{}>>")).format(sentence(rng)) + text
    if kind == "detectable_format:json_format":
        body = rng.choice(('{"a": [1, 2.5, null]}', "[1, 2,]", '"text"', "{'a': 1}", "NaN", '{"a": 1} x', "-0", "01", ""))
        return rng.choice(("@", "```json\n@\n```", "```\n@```", "```JSON@```", "So:\n@")).replace("@", body)
    if kind == "detectable_format:constrained_response":
        return rng.choice(("My answer is yes.", "my answer is no.", "My answer is maybe", "So: My answer is no. " + text))
    if kind == "combination:two_responses":
        return rng.choice(("{0}******{1}", "******{0}******{1}", "{0}******{0}", "{0}*******{1}", "{0}******\n******{1}",
                           "{0}\n*** ***{1}")).format(text.replace("*", ""), sentence(rng).replace("*", ""))
    if kind == "combination:repeat_prompt":
        return rng.choice((str, str.upper, str.lower, lambda p: "Sure. " + p))(values["prompt_to_repeat"]) + text
    if kind == "startend:end_checker":
        return text + rng.choice((str, str.upper, lambda p: p + '"', lambda p: p + " ", lambda p: p + ' "', lambda p: p[:-1]))(
            values["end_phrase"])
    if kind == "startend:quotation":
        return rng.choice(('"{}"', '"{}" \n', '{}"', "“{}”")).replace("{}", text)
    if kind == "punctuation:no_comma":
        return text.replace(",", "")
    if kind == "change_case:english_capital":
        return text.upper()
    if kind == "change_case:english_lowercase":
        return text.lower()
    if kind == "change_case:capital_word_frequency":
        return text + " " + " ".join(rng.choice(("NASA", "IT'S.", "CAN'T.", "DON'T", "CANNOT", "A,,B", "(USA)", "X-RAY", "I", "U.S.",
                                                 "\"GO\"", "''SO''", "WHAT?'S", "'TIS", "GOTTA", "ǄUR", "ⅣX", "A:B")) for _ in range(max(number, 0)))
    return text


def answer_to(rng, kinds, values):
    joint = rng.choice((" ", "\n", "\n\n", "\n\n", "\r\n"))
    text = joint.join(sentence(rng) for _ in range(rng.randint(0, 8)))
    for kind, own in zip(kinds, values):
        if rng.random() < 0.8:
            text = follow(rng, kind, own, text)
    wrap = rng.random()
    if wrap < 0.1:
        text = rng.choice(("Sure, here you go:\n", "\n\n", "Title\n")) + text
    elif wrap < 0.2:
        text += rng.choice(("\nI hope this helps!", "\n", "\n\n", " \t"))
    elif wrap < 0.25:
        text = "Sure:\n" + text + "\nDone, ok?"
    return text if rng.random() < 0.98 else rng.choice(("", " \n", "\n", "*", "\n\n\n"))


def make(rng, count):
    rows, answers = [], []
    for i in range(count):
        kinds = [KINDS[i % len(KINDS)]] + rng.sample(KINDS, rng.choice((0, 0, 1, 2)))
        values = [values_for(rng, kind) for kind in kinds]
        padded = [{**{"num_words": None, "keyword": None}, **own} if rng.random() < 0.3 else own for own in values]
        rows.append({"key": 1000 + i, "prompt": f"Question {i}", "instruction_id_list": kinds, "kwargs": padded})
        answers.append(answer_to(rng, kinds, values))
    return rows, answers


def ask_metier(arguments, folder, rows, answers):
    os.mkdir(os.path.join(folder, "ifeval"))
    with open(os.path.join(folder, "ifeval/ifeval_input_data.jsonl"), "w", encoding="utf-8") as file:
        file.writelines(json.dumps(row) + "\n" for row in rows)
    with open(os.path.join(folder, "answers.jsonl"), "w", encoding="utf-8") as file:
        file.writelines(json.dumps({"id": str(row["key"]), "answer": text}) + "\n" for row, text in zip(rows, answers))
    out = os.path.join(folder, "out")
    command = [arguments.program, "eval", "ifeval", "--data", folder, "--answers", os.path.join(folder, "answers.jsonl"),
               "--out", out, "--quiet"]
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    if result.returncode != 0:
        sys.exit(f"{' '.join(command)}: {result.stderr.strip()}")
    with open(os.path.join(out, "samples_ifeval.jsonl"), encoding="utf-8") as file:
        samples = {sample["id"]: sample for sample in map(json.loads, file)}
    with open(os.path.join(out, "results.json"), encoding="utf-8") as file:
        return samples, json.load(file)["results"]["ifeval"]


def prompt_level(marks):
    return False if False in marks else None if None in marks else True


def mean(values):
    values = [value for value in values if value is not None]
    return sum(values) / len(values) if values else float("nan")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=3000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--program", default=os.path.join(ROOT, "build/release/bin/metier"))
    arguments = parser.parse_args()
    checkers.logger.disabled = True  # of texts without a language
    rng = random.Random(arguments.seed)
    rows, answers = make(rng, arguments.count)
    with tempfile.TemporaryDirectory() as folder:
        samples, figures = ask_metier(arguments, folder, rows, answers)
    judged, opened, right, wrong = collections.Counter(), collections.Counter(), collections.Counter(), 0
    marks = {"strict": [], "loose": []}
    for row, answer in zip(rows, answers):
        theirs = utils.process_results(row, [answer])
        sample = samples[str(row["key"])]
        for way, lists in marks.items():
            want, said = theirs[f"inst_level_{way}_acc"], sample[way]
            lists.append(said)
            for kind, own, one, other in zip(row["instruction_id_list"], row["kwargs"], said, want):
                if one is None:
                    opened[kind] += 1
                    continue
                judged[kind] += 1
                right[kind] += other
                if one != other:
                    wrong += 1
                    print(f"FAILED {kind} {own} {way}: {one} is not {other} for {answer!r}")
    for way, lists in marks.items():
        want = {f"prompt_level_{way}_acc": mean([prompt_level(one) for one in lists]),
                f"inst_level_{way}_acc": mean([mark for one in lists for mark in one])}
        for name, value in want.items():
            if abs(figures[f"{name},none"] - value) > 1e-12:
                wrong += 1
                print(f"FAILED {name}: {figures[f'{name},none']} is not {value}")
    for kind in KINDS:
        print(f"{kind:44} {judged[kind]:6} judged, {right[kind]:6} followed, {opened[kind]:6} open")
    print(f"{len(rows)} answers, {sum(judged.values())} verdicts on instructions compared, {sum(opened.values())} left open; "
          f"{wrong} failures")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
