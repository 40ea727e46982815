#!/usr/bin/env python3
"""metier eval with an endpoint against metier eval with the same model here.

A small OpenAI-like server around transformers answers on this machine: completions with echo and logprobs, completions
and chats. Log-likelihoods of choices must be within 1e-4 of those metier computes itself, and by the same tokens; greedy
answers must be equal. The server speaks in the ways real ones do:

    offsets    tokens as pieces of the text, offsets of these: OpenAI's way
    decoded    tokens decoded one by one, a token that begins texts among them, offsets by adding up lengths: vLLM's way
    pieces     tokens as the vocabulary spells them, true offsets

Somebody else's server, `transformers serve` (package transformers[serving]), answers as well: greedy answers must be
equal, and what it does not have, log-probabilities of a prompt, must be refused. Without it that part is skipped.

Models: share/models, and random ones with the golden tokenizers, whose tokens are longer than a letter, or shorter. What
the vocabulary of share/models lacks is left out there: decoded, such a token says nothing about the text.

Usage: endpoint_parity.py [--program build/release/bin/metier] [--only TEXT] [--verbose]
Needs PyTorch and transformers >= 5.15. Both sides compute in single precision.
"""
import argparse
import http.server
import json
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import threading
import time

os.environ.update({"HF_HUB_OFFLINE": "1", "TQDM_DISABLE": "1"})
try:
    import torch
    import transformers
except ImportError as error:
    print(f"endpoint_parity: needs a Python with torch and transformers: {error}", file=sys.stderr)
    sys.exit(77)

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
LIMIT = 1e-4
WAYS = ("offsets", "decoded", "pieces")

CHOICES = """title: choices
domain: language
data: choices.jsonl
prompt: "{question}"
choice_list: choices
answer: "{answer}"
kind: choose
continuation: "{choice}"
extract: [letter]
metrics: [acc]
"""
WRITTEN = """title: answers
domain: language
data: written.jsonl
prompt: "{question}"
answer: "{answer}"
extract: [whole]
metrics: [exact_match]
max_tokens: 24
stop: ["0", "ee"]
"""
ROWS = [
    ("Is it so?", [" yes", " no", " perhaps not"]), ("12+30=", ["42", "43", "7", "1000"]),
    ("The dog barks. ", ["It does.", "no"]), ("Answer:", [" A", " B", " C", " D"]),
    ("def f(x):\n    return", [" x + 1", " x", "\n"]), ("Grüße aus Köln:", [" schön", " höflich", " né"]),
    ("(a) ", ["b  c", "  two"]), ("one two three", [" four", "-four", ", four"]),
]
QUESTIONS = ["12+30=", "The dog", "Is it so? Answer:", "7*6=", "one two three", "List: 1, 2,"]


class Server:
    """Completions and chats by one model, one at a time."""

    def __init__(self, directory, way):
        self.way = way
        self.lock = threading.Lock()
        self.tokenizer = transformers.AutoTokenizer.from_pretrained(directory)
        self.model = transformers.AutoModelForCausalLM.from_pretrained(directory, dtype=torch.float32).eval()
        self.requests = []

    def tokens(self, prompt, encoded):
        ids, begins = encoded["input_ids"], [begin for begin, _ in encoded["offset_mapping"]]
        ends = begins[1:] + [len(prompt)]
        if self.way == "decoded":
            texts = [self.tokenizer.decode([token]) for token in ids]
            return texts, [sum(map(len, texts[:i])) for i in range(len(texts) + 1)]
        if self.way == "pieces":
            return self.tokenizer.convert_ids_to_tokens(ids), begins + [len(prompt)]
        return [prompt[begin:end] for begin, end in zip(begins, ends)], begins + [len(prompt)]

    def echo(self, prompt):
        encoded = self.tokenizer(prompt, return_offsets_mapping=True)
        ids = torch.tensor([encoded["input_ids"]])
        logs = torch.log_softmax(self.model(ids).logits[0].double(), -1)
        texts, offsets = self.tokens(prompt, encoded)
        values, top = [None], [None]
        for i, token in enumerate(ids[0][1:].tolist()):
            best = logs[i].argmax().item()
            values.append(logs[i, token].item())
            top.append({"best": logs[i, best].item()})
        values.append(logs[-1].max().item())
        text = self.tokenizer.decode([logs[-1].argmax().item()])
        return {"choices": [{"index": 0, "text": prompt + text, "finish_reason": "length", "logprobs": {
            "tokens": texts + [text], "token_logprobs": values, "text_offset": offsets,
            "top_logprobs": top + [{text: values[-1]}]}}],
            "usage": {"prompt_tokens": len(texts), "completion_tokens": 1}}

    def write(self, prompt, request, chat=False):
        """A chat is written out as our template `plain` does: the token that begins texts, and what was said."""
        ids = self.tokenizer(prompt, add_special_tokens=not chat)["input_ids"]
        ids = torch.tensor([[self.model.config.bos_token_id] + ids if chat else ids])
        out = self.model.generate(ids, do_sample=False, max_new_tokens=request["max_tokens"],
                                  attention_mask=torch.ones_like(ids), pad_token_id=0)
        written = out[0, ids.shape[1]:].tolist()
        if self.model.config.eos_token_id in written:  # which the random models' tokenizers do not know as such
            written = written[:written.index(self.model.config.eos_token_id)]
        text = self.tokenizer.decode(written, skip_special_tokens=True)
        for stop in request.get("stop", []):
            text = text.split(stop)[0]
        return text

    def answer(self, path, request):
        with self.lock, torch.no_grad():
            self.requests.append(path)
            if request.get("echo"):
                return self.echo(request["prompt"])
            if path.endswith("/chat/completions"):
                said = self.write(request["messages"][0]["content"], request, True)
                return {"choices": [{"message": {"role": "assistant", "content": said}, "finish_reason": "stop"}]}
            return {"choices": [{"text": self.write(request["prompt"], request), "finish_reason": "stop"}]}


def serve(server):
    class Handler(http.server.BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def log_message(self, *arguments):
            pass

        def do_POST(self):
            request = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            data = json.dumps(server.answer(self.path, request)).encode()
            self.send_response(200)
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

    listening = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=listening.serve_forever, daemon=True).start()
    return listening


def random_model(place, name):
    """A Mixtral of random weights with one of the golden tokenizers."""
    directory = os.path.join(place, name)
    os.mkdir(directory)
    golden = os.path.join(ROOT, "tests", "formats", "golden", "tokenizers", name + ".json")
    shutil.copy(golden, os.path.join(directory, "tokenizer.json"))
    with open(golden, encoding="utf-8") as file:
        held = json.load(file)
    size = 1 + max(list(held["model"]["vocab"].values()) + [token["id"] for token in held["added_tokens"]])
    torch.manual_seed(1)
    config = transformers.MixtralConfig(
        vocab_size=size, hidden_size=48, intermediate_size=40, num_hidden_layers=2, num_attention_heads=4,
        num_key_value_heads=2, num_local_experts=6, num_experts_per_tok=2, max_position_embeddings=512,
        bos_token_id=1, eos_token_id=2, initializer_range=0.2)
    transformers.MixtralForCausalLM(config).save_pretrained(directory)
    return directory


def read_lines(path):
    with open(path, encoding="utf-8") as file:
        return [json.loads(line) for line in file]


def evaluate(options, place, out, tasks, *more):
    command = [options.program, "eval", *tasks, "--data", place, "--out", out, "--quiet", *more]
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    if result.returncode != 0:
        raise RuntimeError(f"{' '.join(command)}: {result.stderr.strip()}")


def compare(options, place, name, directory):
    """Failures, and the largest difference of a log-likelihood."""
    failures, worst, compared = [], 0.0, 0
    local = os.path.join(place, name + "-local")
    choices, written = os.path.join(place, "choices.yaml"), os.path.join(place, "written.yaml")
    here = ("--model", directory, "--device", "cpu", "--no-routing")
    evaluate(options, place, local, (choices, written), "--template", "none", *here)
    evaluate(options, place, local + "-chat", (written,), "--template", "plain", *here)
    for way in WAYS:
        server = Server(directory, way)
        listening = serve(server)
        out = os.path.join(place, f"{name}-{way}")
        there = ("--endpoint", f"http://127.0.0.1:{listening.server_address[1]}/v1", "--model", "m", "--slots", "4")
        evaluate(options, place, out, (choices, written), "--template", "none", *there)
        evaluate(options, place, out + "-chat", (written,), *there)
        listening.shutdown()
        for ours, theirs in zip(read_lines(local + "/samples_choices.jsonl"), read_lines(out + "/samples_choices.jsonl")):
            pairs = list(zip(ours["log_likelihoods"], theirs["log_likelihoods"]))
            difference = max(abs(one - other) for one, other in pairs)
            worst, compared = max(worst, difference), compared + len(pairs)
            if difference > LIMIT or ours["greedy"] != theirs["greedy"]:
                failures.append(f"{name}, {way}, {ours['prompt']!r}: {pairs}, {ours['greedy']}, {theirs['greedy']}")
        for suffix in ("", "-chat"):
            for ours, theirs in zip(read_lines(local + suffix + "/samples_written.jsonl"),
                                    read_lines(out + suffix + "/samples_written.jsonl")):
                compared += 1
                if ours["resps"] != theirs["resps"]:
                    failures.append(f"{name}, {way}{suffix}, {ours['prompt']!r}: {ours['resps']}, {theirs['resps']}")
        if not any(path.endswith("/chat/completions") for path in server.requests):
            failures.append(f"{name}, {way}: no chat was asked")
    return failures, worst, compared


def serve_by_transformers(directory, place):
    """The process and its port; None where the command is not there."""
    command = os.path.join(os.path.dirname(sys.executable), "transformers")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    if not os.path.exists(command):
        return None, port
    with open(os.path.join(place, "server.log"), "w", encoding="utf-8") as log:
        process = subprocess.Popen([command, "serve", directory, "--device", "cpu", "--dtype", "float32", "--host",
                                    "127.0.0.1", "--port", str(port)], stdout=log, stderr=log)
    for _ in range(120):
        with socket.socket() as trial:
            if process.poll() is not None or trial.connect_ex(("127.0.0.1", port)) == 0:
                break
        time.sleep(1)
    return (process if process.poll() is None else None), port


def compare_served(options, place, name, directory):
    """Failures against transformers' own server, and how many answers were compared."""
    local, out = os.path.join(place, name + "-local"), os.path.join(place, name + "-served")
    choices, written = os.path.join(place, "choices.yaml"), os.path.join(place, "written.yaml")
    process, port = serve_by_transformers(directory, place)
    if process is None:
        print(f"{name}: transformers serve is not there: skipped")
        return [], 0
    there = ("--template", "none", "--endpoint", f"http://127.0.0.1:{port}/v1", "--model", directory)
    failures, compared = [], 0
    try:
        evaluate(options, place, out, (written,), *there)
        try:
            evaluate(options, place, out + "-choices", (choices,), *there)
            failures.append(f"{name}, served: log-likelihoods were not refused")
        except RuntimeError as error:
            if "gives no log-probabilities of a prompt" not in str(error):
                failures.append(str(error))
    finally:
        process.terminate()
        process.wait()
    for ours, theirs in zip(read_lines(local + "/samples_written.jsonl"), read_lines(out + "/samples_written.jsonl"),
                            strict=True):
        compared += 1
        if ours["resps"] != theirs["resps"]:
            failures.append(f"{name}, served, {ours['prompt']!r}: {ours['resps']}, {theirs['resps']}")
    print(f"{name}: {compared} answers of transformers serve compared, {len(failures)} failed")
    return failures, compared


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--program", default=os.path.join(ROOT, "build/release/bin/metier"))
    parser.add_argument("--only", default="")
    parser.add_argument("--verbose", action="store_true")
    options = parser.parse_args()
    torch.set_num_threads(1)
    failures, total = [], 0
    with tempfile.TemporaryDirectory() as place:
        for name, text in (("choices.yaml", CHOICES), ("written.yaml", WRITTEN)):
            with open(os.path.join(place, name), "w", encoding="utf-8") as file:
                file.write(text)
        with open(os.path.join(place, "written.jsonl"), "w", encoding="utf-8") as file:
            for question in QUESTIONS:
                file.write(json.dumps({"question": question, "answer": "42"}) + "\n")
        names = ("deepseek", "llama3", "qwen3", "phi")
        models = [("tiny-deepseek-v2", None), ("tiny-mixtral", None)] + [(name, place) for name in names]
        for name, made in models:
            if options.only not in name:
                continue
            directory = os.path.join(ROOT, "share", "models", name) if made is None else random_model(made, name)
            with open(os.path.join(place, "choices.jsonl"), "w", encoding="utf-8") as file:
                for question, choices in ROWS:
                    if made is not None or question.isascii():
                        file.write(json.dumps({"question": question, "choices": choices, "answer": "A"}) + "\n")
            found, worst, compared = compare(options, place, name, directory)
            print(f"{name}: {compared} compared, largest difference {worst:.1e}, {len(found)} failed")
            failures, total = failures + found, total + compared
            if made is None:  # the random ones' tokenizers do not say where a text ends
                found, compared = compare_served(options, place, name, directory)
                failures, total = failures + found, total + compared
    for failure in failures if options.verbose else failures[:10]:
        print(failure)
    print(f"endpoint_parity: {total} compared, {len(failures)} failed")
    return 1 if failures or total == 0 else 0


if __name__ == "__main__":
    sys.exit(main())
