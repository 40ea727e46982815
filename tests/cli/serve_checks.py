#!/usr/bin/env python3
"""What metier serve answers: against metier itself, against itself alone, and to clients that misbehave.
Usage: serve_checks.py METIER SHARE PLACE [REQUESTS]    PLACE has adapters/math; REQUESTS: of those made by chance (300)
Exit status 1: a check failed."""
import json
import math
import os
import random
import re
import shutil
import socket
import struct
import subprocess
import sys
import threading

from served import Server, events

metier, share, place = sys.argv[1:4]
model = f"{share}/models/tiny-deepseek-v2"
failed = 0


def check(held, what):
    global failed
    if not held:
        failed += 1
        print(f"serve_checks.py: {what}")


def asked(**body):
    """A completion, greedy unless told otherwise."""
    status, answer = server.post("/v1/completions", {"temperature": 0, "max_tokens": 12, **body})
    check(status == 200, f"completions {body}: {status} {answer}")
    return answer


def run(*words):
    return subprocess.run([metier, *words], check=True, capture_output=True, text=True).stdout


def streamed(text):
    pieces = events(text)
    check(pieces is not None, f"a stream does not end with [DONE]: {text[-80:]}")
    return pieces or []


def generated():
    """Texts are those of metier generate."""
    prompts = ["1 + 2 =", "mercury at 20 C:", "Q: 7 * 8", "x"]
    with open(f"{place}/prompts.jsonl", "w") as file:
        for prompt in prompts:
            file.write(json.dumps({"prompt": prompt}) + "\n")
    out = run("generate", model, "--in", f"{place}/prompts.jsonl", "--template", "none", "--temperature", "0", "--max-new",
              "12")
    texts = [json.loads(line)["text"] for line in out.split("\n") if line]
    answer = asked(prompt=prompts)
    check([choice["text"] for choice in answer["choices"]] == texts, "texts are not those of metier generate")
    adapted = run("generate", model, "--adapter", f"{place}/adapters/math", "--in", f"{place}/prompts.jsonl", "--template",
                  "none", "--temperature", "0", "--max-new", "12")
    texts = [json.loads(line)["text"] for line in adapted.split("\n") if line]
    answer = asked(prompt=prompts, model="math")
    check([choice["text"] for choice in answer["choices"]] == texts, "an adapter's texts are not those of metier generate")


def likelihoods():
    """Probabilities of a prompt are those of metier forward, and top_logprobs say the likeliest."""
    status, tokens = server.post("/tokenize", {"prompt": "add 12 and 7: 19"})
    ids = tokens["tokens"]
    check(status == 200 and tokens["count"] == len(ids), "tokenize")
    status, back = server.post("/detokenize", {"tokens": ids})
    check(back["prompt"].endswith("add 12 and 7: 19"), f"detokenize {back}")
    run("forward", model, "--ids", ",".join(map(str, ids)), "--out", f"{place}/forward.safetensors")
    values = tensors(f"{place}/forward.safetensors")
    answer = asked(prompt=ids, echo=True, logprobs=3, max_tokens=0)["choices"][0]
    logs = answer["logprobs"]
    rows = values["logits"]
    for i, identity in enumerate(ids[1:]):
        row = rows[i]
        top = max(row)
        total = top + math.log(sum(math.exp(v - top) for v in row))
        check(abs(logs["token_logprobs"][i + 1] - (row[identity] - total)) < 1e-4, f"log-probability {i}")
        check(abs(max(logs["top_logprobs"][i + 1].values()) - (top - total)) < 1e-4, f"likeliest {i}")
    check(logs["token_logprobs"][0] is None and logs["text_offset"][0] == 0, "the first token of an echo")
    check(answer["text"].endswith("add 12 and 7: 19"), "an echo lacks its text")
    routing(ids, values)


def names():
    """Halves of characters look alike; an object names each once."""
    other = Server(metier, f"{share}/models/small-deepseek-v2")
    _, answer = other.post("/v1/completions", {"prompt": "éèéè", "max_tokens": 0, "echo": True, "logprobs": 20})
    tops = answer["choices"][0]["logprobs"]["top_logprobs"][1:]
    check(any(len(top) < 20 for top in tops), "no two tokens look alike")
    other.stop()


def routing(ids, values):
    """Experts and weights are those of metier forward."""
    answer = asked(prompt=ids, max_tokens=4, metier={"routing": True})
    told = answer["metier"]["routing"]
    check(told["prompt_tokens"] == len(ids) and told["slots"] == 4 and told["experts"] == 16, f"routing {told['slots']}")
    check([t["id"] for t in told["tokens"][:len(ids)]] == ids, "routing names other tokens")
    for i in range(len(ids)):
        for number, layer in enumerate(told["layers"]):
            check(told["tokens"][i]["experts"][number] == values[f"experts.{layer}"][i], f"experts of token {i}")
            weights = values[f"weights.{layer}"][i]
            for got, wanted in zip(told["tokens"][i]["weights"][number], weights):
                check(abs(got - wanted / sum(weights)) < 2e-4, f"weights of token {i}")
    written = answer["usage"]["completion_tokens"]
    check(len(told["tokens"]) == len(ids) + written, "routing lacks tokens of the answer")
    status, metrics = server.ask("GET", "/metrics")
    loads = sum(int(line.split()[1]) for line in metrics.decode().split("\n")
                if line.startswith('metier_expert_slots_total{model="tiny-deepseek-v2",layer="1"'))
    check(status == 200 and loads >= 4 * len(ids) and loads % 4 == 0, f"loads {loads}")


def tensors(path):
    """Tensors of a safetensors file, as lists of rows."""
    with open(path, "rb") as file:
        data = file.read()
    size = struct.unpack("<Q", data[:8])[0]
    found = {}
    for name, entry in json.loads(data[8:8 + size]).items():
        if name == "__metadata__":
            continue
        first, last = entry["data_offsets"]
        kind = {"F32": "f", "I32": "i"}[entry["dtype"]]
        flat = struct.unpack(f"<{(last - first) // 4}{kind}", data[8 + size + first:8 + size + last])
        rows, columns = entry["shape"]
        found[name] = [list(flat[r * columns:(r + 1) * columns]) for r in range(rows)]
    return found


def recorded():
    """metier report shows recorded answers, and refuses what is none."""
    _, answer = server.post("/v1/completions", {"prompt": "1 + 1 =", "temperature": 0, "metier": {"routing": True}})
    path, page = f"{place}/answers.jsonl", f"{place}/answers.html"
    bad = [({}, "has no routing"), ({"metier": {"routing": 1}}, "routing is a whole number, expected an object"), ({"metier": {"routing": {}}}, "tokens"),
           ({"metier": {"routing": {**answer["metier"]["routing"], "layers": [1]}}}, "expected one for each of 1 layers"),
           ({"metier": {"routing": {**answer["metier"]["routing"], "experts": 2}}}, "expected")]
    for body, words in [*bad, (answer, None)]:
        with open(path, "w") as file:
            file.write(json.dumps(body) + "\n")
        done = subprocess.run([metier, "report", "--routing", path, "--out", page], capture_output=True, text=True)
        check((done.returncode == 0) == (words is None) and (words or "written") in done.stderr + done.stdout,
              f"report --routing: {done.returncode} {done.stderr}")
        check(os.path.exists(page) == (words is None), "a page of what is none")


def forms():
    """Streams say the same as whole answers; draws repeat with their seed; stops and limits end answers."""
    whole = asked(prompt="2 + 2 = ", max_tokens=8, logprobs=1)
    status, text = server.ask("POST", "/v1/completions", {"prompt": "2 + 2 = ", "max_tokens": 8, "temperature": 0,
                                                         "logprobs": 1, "stream": True,
                                                         "stream_options": {"include_usage": True}})
    pieces = streamed(text)
    check("".join(p["choices"][0]["text"] for p in pieces if p["choices"]) == whole["choices"][0]["text"], "a stream's text")
    logs = [log for p in pieces if p["choices"] for log in p["choices"][0]["logprobs"]["token_logprobs"]]
    check(logs == whole["choices"][0]["logprobs"]["token_logprobs"], "a stream's probabilities")
    check(pieces[-1]["usage"] == whole["usage"], "a stream's usage")
    drawn = {"prompt": "12 + 30 = ", "n": 4, "temperature": 20.0, "seed": 7, "max_tokens": 10}
    first, second = asked(**drawn), asked(**drawn)
    check(first["choices"] == second["choices"], "the same seed, another answer")
    check(len({choice["text"] for choice in first["choices"]}) > 1, "four draws are one")
    check(asked(**{**drawn, "seed": 8})["choices"] != first["choices"], "another seed, the same answers")
    text = asked(prompt="2 + 2 = ", max_tokens=40)["choices"][0]["text"]
    if len(text) > 2:
        cut = asked(prompt="2 + 2 = ", max_tokens=40, stop=[text[1:3]])["choices"][0]
        check(cut["text"] == text[:1] and cut["finish_reason"] == "stop", f"a stop text: {cut}")
    one = asked(prompt="2 + 2 = ", max_tokens=1)["choices"][0]
    check(one["finish_reason"] in ("length", "stop"), "finish_reason")
    messages = [{"role": "system", "content": "short"}, {"role": "user", "content": [{"type": "text", "text": "3 + 4"}]}]
    status, chat = server.post("/v1/chat/completions", {"messages": messages, "temperature": 0, "logprobs": True,
                                                       "top_logprobs": 2, "max_completion_tokens": 6})
    check(status == 200 and chat["choices"][0]["message"]["role"] == "assistant", f"chat {chat}")
    for entry in chat["choices"][0]["logprobs"]["content"]:
        check(len(entry["top_logprobs"]) == 2 and entry["top_logprobs"][0]["logprob"] == entry["logprob"], "top_logprobs")
    status, text = server.ask("POST", "/v1/chat/completions", {"messages": messages, "temperature": 0, "stream": True,
                                                              "max_completion_tokens": 6})
    said = "".join(p["choices"][0]["delta"].get("content", "") for p in streamed(text) if p["choices"])
    check(said == chat["choices"][0]["message"]["content"], "a streamed chat")


def company():
    """Each of many answers is the one it is alone, whatever is computed beside it."""
    asks = [{"prompt": f"{i} + {i * i} = ", "max_tokens": 1 + i % 9, "logprobs": 1, "temperature": i % 2 * 0.8, "seed": i,
             "model": "math" if i % 3 == 0 else "tiny-deepseek-v2"} for i in range(48)]
    alone = [asked(**ask)["choices"] for ask in asks]
    together = [None] * len(asks)

    def work(i):
        together[i] = asked(**asks[i])["choices"]

    threads = [threading.Thread(target=work, args=(i,)) for i in range(len(asks))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    check(together == alone, "answers depend on their company")


def refusals():
    cases = [
        (400, {"prompt": "x", "frequency_penalty": 1}, "frequency_penalty asks for something"),
        (400, {"prompt": "x", "beam": 1}, "beam is a key"),
        (400, {"prompt": "x", "temperature": "hot"}, 'temperature is the string "hot", expected a number'),
        (400, {"prompt": []}, "no tokens"),
        (400, {"prompt": [1, 10 ** 6]}, "vocabulary"),
        (400, {"prompt": "word " * 300}, "room for"),
        (400, {"prompt": "x", "max_tokens": 0}, "max_tokens is 0"),
        (400, {"prompt": "x", "n": 1000}, "n is 1000"),
        (400, {"prompt": ["x"] * 200, "n": 2}, "400 answers"),
        (400, {"prompt": "x", "stop": [""]}, "an empty text"),
        (400, {"prompt": "x", "stop": "y" * 1025}, "longer than 1024 bytes"),
        (400, {"prompt": "x" * 40000}, "40000 bytes, and there is room for 256 tokens"),
        (400, {"prompt": ["x", "word " * 300]}, "room for"),
        (400, {"prompt": "x", "seed": 2 ** 70}, "too big integer"),
        (400, {"prompt": "x", "stream": True, "echo": True}, "not streamed"),
        (400, {"max_tokens": 1}, 'no "prompt"'),
        (400, [1], "expected an object"),
        (404, {"prompt": "x", "model": "nobody"}, "no model 'nobody'"),
    ]
    for code, body, words in cases:
        status, answer = server.post("/v1/completions", body)
        check(status == code and words in answer["error"]["message"], f"{body}: {status} {answer}")
    status, answer = server.post("/tokenize", {"prompt": "x" * 40000})
    check(status == 400 and "40000 bytes" in answer["error"]["message"], f"tokenize: {status} {str(answer)[:200]}")
    for body in (b"", b"{", b"\xff\xfe", b"{\"prompt\": \"\\u0000\"}", b"[" * 5000, b'{"prompt": "a", "prompt": "b"}'):
        status, text = server.ask("POST", "/v1/completions", body)
        check(status == 400 and b"error" in text, f"{body[:20]}: {status}")
    status, answer = server.post("/v1/chat/completions", {"messages": [{"content": "x"}]})
    check(status == 400 and "role" in answer["error"]["message"], f"a message without a role: {answer}")
    status, _ = server.ask("GET", "/nothing")
    check(status == 404, f"an unknown path: {status}")
    status, _ = server.ask("GET", "/v1/completions")
    check(status == 405, f"another method: {status}")
    status, _ = server.ask("PUT", "/v1/completions", b"x")
    check(status == 405, f"an unknown method: {status}")
    own = f"127.0.0.1:{server.port}"
    for path, body in (("/v1/models", None), ("/", None), ("/health", None), ("/metrics", None), ("/nothing", None),
                       ("/v1/completions", {"prompt": "x"}), ("/v1/load_lora_adapter", {})):
        for headers in ({"Host": "example.com"}, {"Host": f"example.com:{server.port}"}, {"Host": ""}, {"Host": "127.0.0.1.example.com"},
                        {"Origin": "http://example.com"}, {"Origin": "null"}, {"Origin": f"http://localhost:{server.port}"},
                        {"Origin": f"http://{own}.example.com"}, {"Origin": "http://127.0.0.1:1"}):
            status, text = server.ask("POST" if body is not None else "GET", path, body, headers)
            check(status == 403 and b"choices" not in text, f"{path} {headers}: {status} {text}")
    for headers in ({"Origin": f"http://{own}"}, {"Host": f"localhost:{server.port}"}, {"Host": "[::1]"}):
        status, _ = server.ask("GET", "/v1/models", headers=headers)
        check(status == 200, f"{headers}: {status}")
    connection = server.connect()  # a page of another origin asks first whether it may
    connection.request("OPTIONS", "/v1/completions", headers={"Origin": "http://example.com", "Access-Control-Request-Method": "POST"})
    answer = connection.getresponse()
    check(answer.status == 403 and not any(name.lower().startswith("access-control") for name, _ in answer.getheaders()), "a preflight")
    connection.close()


def many_traces():
    """More answers with their experts at once than are recorded at a time: each waits for its turn."""
    body = {"prompt": "3 * 3 =", "temperature": 2, "seed": 4, "metier": {"routing": True}}
    wanted = asked(**body)
    got = []
    threads = [threading.Thread(target=lambda: got.append(asked(**body))) for _ in range(40)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    check([g["metier"] for g in got] == [wanted["metier"]] * 40, "experts of answers at once")
    check({json.dumps(g["choices"]) for g in got} == {json.dumps(asked(**{**body, "metier": {}})["choices"])}, "experts change draws")


def metrics():
    """What Prometheus reads: every sample has a type, said before it, and none comes twice."""
    _, text = server.ask("GET", "/metrics")
    types, seen = {}, set()
    for line in text.decode().rstrip("\n").split("\n"):
        kind = re.fullmatch(r"# (HELP|TYPE) ([a-z_]+) (.+)", line)
        sample = re.fullmatch(r'([a-z_]+)(\{[a-z]+="[^"\\\n]*"(?:,[a-z]+="[^"\\\n]*")*\})? (-?[0-9.e+-]+)', line)
        check(kind or sample, f"metrics: {line!r}")
        if kind and kind[1] == "TYPE":
            check(kind[2] not in types and kind[3] in ("counter", "gauge"), f"metrics: {line!r}")
            types[kind[2]] = kind[3]
        if sample:
            check(sample[1] in types and sample.group(1, 2) not in seen, f"metrics: {line!r}")
            check((types[sample[1]] == "counter") == sample[1].endswith("_total") and float(sample[3]) >= 0, f"metrics: {line!r}")
            seen.add(sample.group(1, 2))
    names = {name for name, _ in seen}
    check({"metier_expert_slots_total", "metier_max_violation", "metier_effective_experts"} <= names, f"metrics: {names}")


def tools():
    """Tools, calls and what tools said reach the template, arguments as objects; what the model writes comes back as it is."""
    with open(f"{place}/tools.jinja", "w") as file:
        file.write("{% for t in tools or [] %}[{{ t.function.name }}]{% endfor %}{% for m in messages %}{{ m.role }}:{{ m.content or '' }}"
                   "{% for c in m.tool_calls or [] %}{{ c.function.name }} {{ c.function.arguments.a + 1 }}{% endfor %};{% endfor %}")
    other = Server(metier, model, "--template", f"{place}/tools.jinja")
    call = {"id": "c1", "type": "function", "function": {"name": "sum", "arguments": "{\"a\": 41}"}}
    status, answer = other.post("/v1/chat/completions", {
        "messages": [{"role": "user", "content": "q"}, {"role": "assistant", "content": None, "tool_calls": [call]},
                     {"role": "tool", "tool_call_id": "c1", "content": "r"}], "max_tokens": 3, "temperature": 0,
        "tools": [{"type": "function", "function": {"name": "sum", "parameters": {"type": "object"}}}], "metier": {"routing": True}})
    check(status == 200, f"tools: {answer}")
    told = answer["metier"]["routing"]
    prompt = "".join(token["text"] for token in told["tokens"][:told["prompt_tokens"]])
    check(prompt.endswith("[sum]user:q;assistant:sum 42;tool:r;"), f"tools: {prompt!r}")
    check(answer["choices"][0]["message"]["content"] is not None, f"tools: {answer}")
    other.stop()


def folders():
    """Pruned folders, folders of codes, and models that are quantised as they are opened: texts are those of metier generate."""
    run("prune", model, "--keep", "50%", "--data", f"{place}/math.jsonl", "--out", f"{place}/half")
    run("init", "--config", f"{share}/models/tiny-mixtral/config.json", "--seed", "1", "--std", "0.2", "--quantize", "nf4", "--out",
        f"{place}/codes")
    for name in os.listdir(f"{share}/models/tiny-mixtral"):
        if name.startswith("tokenizer"):
            shutil.copy(f"{share}/models/tiny-mixtral/{name}", f"{place}/codes")
    for words, names in (([f"{place}/half", f"{place}/codes"], ("half", "codes")), ([model, "--quantize", "fp8"], (None,))):
        other = Server(metier, *words)
        for name, folder in zip(names, words):
            out = run("generate", folder, *words[len(names):], "--in", f"{place}/prompts.jsonl", "--template", "none", "--temperature", "0",
                      "--max-new", "12")
            texts = [json.loads(line)["text"] for line in out.split("\n") if line]
            with open(f"{place}/prompts.jsonl") as file:
                prompts = [json.loads(line)["prompt"] for line in file]
            status, answer = other.post("/v1/completions", {"prompt": prompts, "model": name, "max_tokens": 12, "temperature": 0})
            check(status == 200 and [c["text"] for c in answer["choices"]] == texts, f"{folder}: {answer} {texts}")
        other.stop()


def adapters():
    status, answer = server.post("/v1/load_lora_adapter", {"lora_name": "again", "lora_path": "math"})
    check(status == 200, f"load {answer}")
    check(asked(prompt="5 + 5 =", model="again")["choices"] == asked(prompt="5 + 5 =", model="math")["choices"],
          "a loaded adapter answers otherwise")
    status, listed = server.ask("GET", "/v1/models")
    names = [m["id"] for m in json.loads(listed)["data"]]
    check(names == ["tiny-deepseek-v2", "math", "again"], f"models {names}")
    for path in ("../adapters/math", "/etc", ".", ""):
        status, answer = server.post("/v1/load_lora_adapter", {"lora_name": "bad", "lora_path": path})
        check(status == 400, f"load {path}: {status}")
    status, _ = server.post("/v1/load_lora_adapter", {"lora_name": "again", "lora_path": "math"})
    check(status == 400, "a name twice")
    long = threading.Thread(target=lambda: asked(prompt="5 + 5 =", model="again", n=256, max_tokens=100, temperature=1))
    long.start()
    while b'metier_requests_running{model="again"} 1' not in server.ask("GET", "/metrics")[1] and long.is_alive():
        pass
    status, _ = server.post("/v1/unload_lora_adapter", {"lora_name": "again"})
    check(status == 200, "unload")
    status, answer = server.post("/v1/load_lora_adapter", {"lora_name": "again", "lora_path": "math"})
    check(status == 200, f"load beside one of the same name that is leaving: {answer}")
    metrics()
    long.join()
    status, _ = server.post("/v1/unload_lora_adapter", {"lora_name": "again"})
    check(status == 200, "unload")
    for i in range(70):
        status, answer = server.post("/v1/load_lora_adapter", {"lora_name": f"a{i}", "lora_path": "math"})
        if status != 200:
            break
    check(i == 62 and "64 models and adapters already" in answer["error"]["message"], f"{i} more adapters: {answer}")
    for k in range(i):
        status, _ = server.post("/v1/unload_lora_adapter", {"lora_name": f"a{k}"})
        check(status == 200, "unload")
    status, _ = server.post("/v1/unload_lora_adapter", {"lora_name": "tiny-deepseek-v2"})
    check(status == 404, "a model was unloaded as an adapter")
    status, _ = server.post("/v1/completions", {"prompt": "x", "model": "again"})
    check(status == 404, "an unloaded adapter answers")


def raw(data, read=True):
    """Bytes on a connection; what comes back."""
    connection = socket.create_connection(("127.0.0.1", server.port), timeout=600)
    connection.sendall(data)
    text = b""
    while read:
        piece = connection.recv(65536)
        text += piece
        if not piece or b"}" in piece:
            break
    return connection, text


def hostile():
    """Clients that stop, break off, send too much or nonsense; then the server still answers."""
    held = [raw(b"POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Length: 50\r\n\r\n{", read=False)[0]
            for _ in range(20)]  # half a request each
    held += [raw(b"POST /v1/compl", read=False)[0] for _ in range(20)]
    _, text = raw(b"POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Length: 99999999999\r\n\r\n")
    check(b" 413 " in text.split(b"\r\n")[0], f"a huge body: {text[:60]}")
    for nonsense in (b"\0\1\2\3\r\n\r\n", b"GET\r\n\r\n", b"GET / HTTP/9.9\r\n\r\n", b"x" * 100000):
        connection = socket.create_connection(("127.0.0.1", server.port), timeout=600)
        try:
            connection.sendall(nonsense)
        except OSError:
            pass  # closed on us: just as well
        connection.close()
    body = json.dumps({"prompt": "1", "max_tokens": 200, "stream": True, "n": 4, "temperature": 1}).encode()
    head = b"POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n" % len(body)
    for _ in range(10):  # streams that nobody reads, and that break off
        connection, _ = raw(head + body, read=False)
        connection.close()
    slow, _ = raw(head + body, read=False)
    check(asked(prompt="still there?")["choices"][0]["index"] == 0, "the server does not answer beside a slow reader")
    for connection in [*held, slow]:
        connection.close()
    status, text = server.ask("GET", "/health")
    check(status == 200, f"health {status} {text}")


def changed(draw, body):
    """A request with something wrong in it: other values, keys and nesting, or other bytes."""
    values = [None, True, -1, 0, 1, 1e300, 2 ** 70, "", "x" * 5000, "\ud83d\ude00", "\u0000", [], {}, [[1, 2], [3]], ["a", 1],
              {"role": "user"}, [{"role": "user", "content": "x"}], [{"role": "tool", "content": None}], [-1], [10 ** 9]]
    body = json.loads(json.dumps(body))
    for _ in range(draw.randrange(1, 4)):
        key = draw.choice([*body, "stop", "n", "logprobs", "top_logprobs", "metier", "messages", "prompt", "tools", "stream", "echo"])
        body[key] = draw.choice(values)
    data = json.dumps(body).encode()
    if draw.random() < 0.4:
        data = bytearray(data)
        for _ in range(draw.randrange(1, 6)):
            at = draw.randrange(len(data))
            data[at:at + draw.randrange(3)] = bytes(draw.randrange(256) for _ in range(draw.randrange(3)))
    return bytes(data)


def nonsense(count):
    """Requests that a good one became by chance: each gets an answer that is JSON, and the server goes on."""
    draw = random.Random(11)
    good = [("/v1/completions", {"prompt": "1 + 1 =", "max_tokens": 2}),
            ("/v1/completions", {"prompt": [5, 6], "max_tokens": 2, "echo": True, "logprobs": 2}),
            ("/v1/chat/completions", {"messages": [{"role": "user", "content": "1"}], "max_tokens": 2}),
            ("/tokenize", {"prompt": "a"}), ("/detokenize", {"tokens": [1, 2]}),
            ("/v1/load_lora_adapter", {"lora_name": "z", "lora_path": "none"}), ("/v1/unload_lora_adapter", {"lora_name": "z"})]
    for _ in range(count):
        path, body = draw.choice(good)
        data = changed(draw, body)
        status, text = server.ask("POST", path, data)
        streamed = text.startswith(b"data: ")
        try:
            json.loads(text.split(b"\n")[0][6:] if streamed else text)
        except ValueError:
            check(False, f"{path} {data[:200]}: {status} {text[:200]}")
        check(status in (200, 400, 404, 503), f"{path} {data[:200]}: {status} {text[:200]}")


def keys():
    locked = Server(metier, model, env={"METIER_API_KEY": "sk-secret"})
    body = {"prompt": "x", "max_tokens": 1}
    for headers in ({}, {"Authorization": "Bearer sk-secre"}, {"Authorization": "sk-secret"},
                    {"Authorization": "Bearer sk-secretx"}, {"Authorization": "Bearer "}):
        status, text = locked.ask("POST", "/v1/completions", body, headers)
        check(status == 401 and b"sk-secret" not in text, f"{headers}: {status}")
    status, _ = locked.ask("POST", "/v1/completions", body, {"Authorization": "Bearer sk-secret"})
    check(status == 200, f"the right key: {status}")
    status, _ = locked.ask("GET", "/health")
    check(status == 200, f"health without a key: {status}")
    status, _ = locked.ask("GET", "/metrics")
    check(status == 401, f"metrics without a key: {status}")
    check(locked.stop() == 0, "the end of a server")


def ending():
    """SIGTERM: what is under way is answered whole."""
    answers = []

    def work():
        answers.append(asked(prompt="count: ", max_tokens=120, temperature=1, seed=3))

    wanted = asked(prompt="count: ", max_tokens=120, temperature=1, seed=3)["choices"]
    thread = threading.Thread(target=work)
    thread.start()
    while True:  # until it has been taken, or is already answered
        status, text = server.ask("GET", "/metrics")
        if b'metier_requests_running{model="tiny-deepseek-v2"} 1' in text or answers:
            break
    status = server.stop()
    thread.join()
    check(status == 0, f"exit status {status}")
    check(answers and answers[0]["choices"] == wanted, "an answer was lost at the end")


server = Server(metier, model, "--adapter", f"math={place}/adapters/math", "--adapters", f"{place}/adapters")
generated()
likelihoods()
names()
recorded()
forms()
company()
many_traces()
metrics()
tools()
folders()
refusals()
adapters()
hostile()
nonsense(int(sys.argv[4]) if len(sys.argv) > 4 else 300)
ending()
keys()
sys.exit(1 if failed else 0)
