#!/usr/bin/env python3
"""metier serve against the programs that ask such servers.

1. openai-python: models, completions, chat, streams, log-probabilities; whole and streamed answers are the same.
2. lm-evaluation-harness, `local-completions`, with ids and with texts: log-likelihoods and greedy flags of continuations, and
   generated texts with stops, equal those of its own `hf` model on the same folder with transformers, within 1e-4.
3. metier eval --endpoint against the server: answers and figures equal metier eval in process, and so do the log-likelihoods
   that lm-evaluation-harness gets for the same choices.
4. /metrics, where prometheus_client is there, through its parser.
(tests/cli/serve_load.py asks with many clients at once.)

Usage: serve_parity.py [--program build/release/bin/metier]
Needs openai, lm-eval[api], torch and transformers; no network. Exit status 1: a comparison failed.
"""
import argparse
import json
import os
import random
import subprocess
import sys
import tempfile

os.environ.update({"HF_HUB_OFFLINE": "1", "TOKENIZERS_PARALLELISM": "false", "TQDM_DISABLE": "1", "OPENAI_API_KEY": "none"})
try:
    import openai
    import requests
    from lm_eval.api.instance import Instance
    from lm_eval.models.huggingface import HFLM
    from lm_eval.models.openai_completions import LocalCompletionsAPI
except ImportError as error:
    print(f"serve_parity: needs a Python with openai, lm-eval, torch and transformers: {error}", file=sys.stderr)
    sys.exit(77)

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
SHARE = os.path.join(ROOT, "share")
LIMIT = 1e-4
failed = 0


def check(held, what):
    global failed
    if not held:
        failed += 1
        print(f"FAIL {what}")


class Server:
    def __init__(self, program, *words):
        self.process = subprocess.Popen([program, "serve", *words, "--port", "0"], stdout=subprocess.PIPE,
                                        stderr=subprocess.DEVNULL, text=True)
        self.address = next(line.split()[-1] for line in self.process.stdout if line.startswith("listening on"))

    def megabytes(self):
        with open(f"/proc/{self.process.pid}/status") as file:
            return next(int(line.split()[1]) for line in file if line.startswith("VmRSS")) / 1024

    def stop(self):
        self.process.terminate()
        return self.process.wait()


def problems(count, seed):
    """Prompts such as the models have seen, and continuations."""
    draw = random.Random(seed)
    texts = []
    for _ in range(count):
        a, b = draw.randrange(100), draw.randrange(100)
        texts.append((f"{a} + {b} = ", draw.choice([str(a + b), f"{a + b} or {a}", "liquid", "no"])))
    return texts


def with_openai(server, names):
    client = openai.OpenAI(base_url=f"{server.address}/v1", api_key="none")
    check([model.id for model in client.models.list()] == names, "openai: models")
    count = 0
    for prompt, _ in problems(12, 1):
        for name in names:
            whole = client.completions.create(model=name, prompt=prompt, max_tokens=12, temperature=0, logprobs=2)
            pieces = list(client.completions.create(model=name, prompt=prompt, max_tokens=12, temperature=0, stream=True))
            check("".join(p.choices[0].text for p in pieces) == whole.choices[0].text, f"openai: stream of {prompt}")
            check(len(whole.choices[0].logprobs.token_logprobs) == whole.usage.completion_tokens, "openai: logprobs")
            messages = [{"role": "user", "content": prompt}]
            chat = client.chat.completions.create(model=name, messages=messages, max_tokens=12, temperature=0, logprobs=True,
                                                  top_logprobs=3, extra_body={"metier": {"routing": True}})
            said = chat.choices[0].message.content
            stream = client.chat.completions.create(model=name, messages=messages, max_tokens=12, temperature=0, stream=True)
            check("".join(p.choices[0].delta.content or "" for p in stream) == said, f"openai: streamed chat of {prompt}")
            check(len(chat.metier["routing"]["tokens"]) == chat.usage.total_tokens, "openai: routing")
            count += 4
    try:
        client.completions.create(model="nobody", prompt="x")
        check(False, "openai: a model that is not there")
    except openai.NotFoundError:
        pass
    print(f"openai-python: {count} answers")


def instances(kind, arguments):
    return [Instance(request_type=kind, doc={}, arguments=argument, idx=i) for i, argument in enumerate(arguments)]


def harness(server, folder, name, tokenized, length):
    return LocalCompletionsAPI(model=name, base_url=f"{server.address}/v1/completions", tokenizer=folder,
                               tokenizer_backend="huggingface", tokenized_requests=tokenized, num_concurrent=1, max_length=length,
                               add_bos_token=True)


def with_harness(server, folder, name):
    reference = HFLM(pretrained=folder, device="cpu", dtype="float32", batch_size=1, add_bos_token=True)
    asked = problems(24, 2) + [("a text of several words, ", "and how it goes on"), ("mercury at 20 C:", "liquid")]
    until = [(prompt, {"until": ["\n", "8"], "max_gen_toks": 16, "do_sample": False}) for prompt, _ in asked]
    wanted = reference.loglikelihood(instances("loglikelihood", asked))
    texts = reference.generate_until(instances("generate_until", until))
    worst = 0.0
    for tokenized in (True, False):
        ours = harness(server, folder, name, tokenized, 200)
        if tokenized:
            got = ours.loglikelihood(instances("loglikelihood", asked))
            for (prompt, more), (log, greedy), (log2, greedy2) in zip(asked, wanted, got):
                worst = max(worst, abs(log - log2))
                check(abs(log - log2) < LIMIT and greedy == greedy2, f"harness: {prompt!r} {more!r}: {log2} {greedy2}, hf {log} {greedy}")
        written = ours.generate_until(instances("generate_until", until))
        check(written == texts, f"harness: texts, {'ids' if tokenized else 'texts'}: {[p for p in zip(written, texts) if p[0] != p[1]][:3]}")
    print(f"lm-evaluation-harness: {len(asked)} log-likelihoods, worst difference {worst:.1e}; {2 * len(until)} texts")


def rows_of(folder):
    for name in sorted(os.listdir(folder)):
        if name.startswith("samples_"):
            with open(os.path.join(folder, name)) as file:
                yield from map(json.loads, file)


def with_eval(server, program, folder, name):
    """Log-likelihoods of choices, and texts, in process and through the server."""
    worst, rows, asked, others = 0.0, 0, 0, 0.0
    with tempfile.TemporaryDirectory() as place:
        for task in ("hellaswag", "arc_easy", "winogrande", "gsm8k_chat"):
            common = [program, "eval", task, "--data", f"{SHARE}/samples", "--quiet"]
            common += ["--max-new", "24"] if task.endswith("chat") else []
            ends = (["--model", folder], ["--endpoint", f"{server.address}/v1", "--model", name])
            for end, out in zip(ends, ("here", "there")):
                done = subprocess.run([*common, *end, "--out", f"{place}/{task}/{out}"], capture_output=True, text=True)
                check(done.returncode == 0, f"metier eval {task} {out}: {done.stderr[-300:]}")
            here, there = (list(rows_of(f"{place}/{task}/{out}")) for out in ("here", "there"))
            check(len(here) == len(there) > 0, f"metier eval {task}: {len(here)} and {len(there)} samples")
            for a, b in zip(here, there):
                check(a["resps"] == b["resps"] and a["score"] == b["score"], f"metier eval {task}: {a['resps']} {b['resps']}")
                for x, y in zip(a.get("log_likelihoods", []), b.get("log_likelihoods", [])):
                    worst = max(worst, abs(x - y))
                rows += 1
            if task in ("hellaswag", "arc_easy"):  # one context for all choices
                pairs = [(row["prompt"], choice) for row in here for choice in row["choices"]]
                told = [log for row in here for log in row["log_likelihoods"]]
                got = harness(server, folder, name, True, 250).loglikelihood(instances("loglikelihood", pairs))
                others = max([others, *(abs(log - own) for (log, _), own in zip(got, told))])
                asked += len(pairs)
    check(worst < LIMIT, f"metier eval: log-likelihoods differ by {worst}")
    check(others < LIMIT and asked > 0, f"metier eval and the harness: log-likelihoods differ by {others}")
    print(f"metier eval --endpoint: {rows} samples, worst difference of log-likelihoods {worst:.1e}; "
          f"the harness' of {asked} choices and metier eval's: {others:.1e}")


def with_prometheus(server):
    try:
        from prometheus_client.parser import text_string_to_metric_families
    except ImportError:
        print("metrics: no prometheus_client, not parsed")
        return
    families = list(text_string_to_metric_families(requests.get(f"{server.address}/metrics", timeout=60).text))
    samples = [(s.name, tuple(sorted(s.labels.items()))) for family in families for s in family.samples]
    check(len(samples) == len(set(samples)) > 50, f"metrics: {len(samples)} samples")
    check(all(family.type in ("counter", "gauge") and family.documentation for family in families), "metrics: types")
    print(f"metrics: {len(families)} families, {len(samples)} samples")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--program", default="build/release/bin/metier")
    args = parser.parse_args()
    folder = f"{SHARE}/models/tiny-deepseek-v2"
    names = ["tiny-deepseek-v2", "mix"]
    server = Server(args.program, folder, f"mix={SHARE}/models/tiny-mixtral", "--slots", "16")
    try:
        with_openai(server, names)
        with_harness(server, folder, names[0])
        with_eval(server, args.program, folder, names[0])
        with_prometheus(server)
    finally:
        status = server.stop()
    check(status == 0, f"the server ended with {status}")
    print(f"serve: {failed} failed")
    sys.exit(1 if failed else 0)


main()
