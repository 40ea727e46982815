#!/usr/bin/env python3
"""An endpoint with moods, for judge.sh, endpoint.sh and recipe.sh: the first part of the path says how it answers. Standard
library only.

It judges answers, answers the questions of share/samples, and gives log-probabilities of prompts: a token is a word
with the space before it, and its log-probability minus half its length.

Nothing depends on how long things take: the mood "held" answers as many requests as FOLDER/go says, none without it.

Usage: endpoint_server.py FOLDER. Writes its port to FOLDER/port, a line per request to FOLDER/requests and what was
asked to FOLDER/bodies.
"""
import http.server
import json
import os
import re
import select
import socket
import sys
import threading
import time

folder = sys.argv[1]
lock = threading.Lock()
seen = {}
running = 0
met = threading.Event()  # two requests of the mood "together" were there at the same time
released = 0  # requests of the mood "held" that were answered


def verdict(prompt):
    """Right where the reference stands in the answer."""
    answer = prompt.split("the answer to grade\n", 1)[1].rsplit("\n===", 1)[0]
    reference = prompt.split("which is right\n", 1)[1].split("\n===", 1)[0]
    return "CORRECT" if reference.strip() in answer.replace(",", "") else "INCORRECT"


ANSWERS = {"Mira": "18", "tank": "30", "Jon": "200"}


def written(prompt):
    """The right answer, behind a stop text another one."""
    number = next((number for word, number in ANSWERS.items() if word in prompt), "")
    return f"So it is\n#### {number}STOP#### 7"


def scores(mood, prompt):
    """The reply to a completion that wants its prompt back."""
    tokens = re.findall(r" ?\w+|\W", prompt)
    logs = [None] + [-len(token) / 2 for token in tokens[1:]]
    offsets = [sum(map(len, tokens[:i])) for i in range(len(tokens))]
    if mood == "bos":  # in front, and in the offsets; as vLLM does
        tokens, logs, offsets = ["<s>"] + tokens, [None, -1.0] + logs[1:], [0] + [3 + offset for offset in offsets]
    if mood == "stripped":  # each token decoded by itself; the offsets are of these
        tokens = [token.strip(" ") for token in tokens]
        offsets = [sum(map(len, tokens[:i])) for i in range(len(tokens))]
    if mood == "raw":
        tokens = [token.replace(" ", "\u0120") for token in tokens]
    if mood == "wild":
        tokens, offsets = ["?"] * len(tokens), [0] * len(tokens)
    counts = {"prompt_tokens": len(tokens), "completion_tokens": 1}
    tokens, logs, offsets = tokens + ["!"], logs + [-0.25], offsets + [offsets[-1] + len(tokens[-1])]
    if mood == "nan":
        logs[-2] = float("nan")
    if mood == "holes":
        logs[-2] = None
    if mood == "certain":
        logs[-2] = 3.5
    top = [None if log is None else {token: log} for token, log in zip(tokens, logs)]
    if mood == "uneven":
        logs = logs[1:]
    reply = {"choices": [{"index": 0, "text": prompt + "!", "logprobs": {
        "tokens": tokens, "token_logprobs": logs, "top_logprobs": top, "text_offset": offsets}}]}
    if mood != "raw":
        reply["usage"] = counts
    if mood == "llama":  # of the answer alone, and laid out in another way
        reply["choices"][0].update(text="!", logprobs={"content": [{"token": "!", "logprob": -0.25}]})
    if mood == "answer_only":
        reply["choices"][0].update(text="!", logprobs={"tokens": ["!"], "token_logprobs": [-0.25], "text_offset": [0]})
    return reply


class Endpoint(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *arguments):
        pass

    def leave(self):
        """The request counts as running no more: before the answer goes out, as another may come on it."""
        global running
        with lock:
            running -= 1 if self.here else 0
        self.here = False

    def send(self, status, body, headers=(), length=None):
        self.leave()
        data = body.encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(data) if length is None else length))
        for name, value in headers:
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(data)

    def say(self, text):
        chat = self.path.endswith("/chat/completions")
        said = {"message": {"role": "assistant", "content": text}} if chat else {"text": text}
        self.send(200, json.dumps({"choices": [said]}))

    def drip(self):
        """A body without an end."""
        self.send_response(200)
        self.end_headers()
        while True:
            self.wfile.write(b" ")
            time.sleep(0.01)

    def hold(self):
        """Waits until FOLDER/go allows one answer more; false: whoever asked has gone."""
        global released
        while True:
            # First: what is allowed is not for those who have gone.
            if select.select([self.connection], [], [], 0.02)[0] and not self.connection.recv(1, socket.MSG_PEEK):
                return False
            with lock:
                try:
                    with open(os.path.join(folder, "go")) as file:
                        allowed = int(file.read() or 0)
                except FileNotFoundError:
                    allowed = 0
                if released < allowed:
                    released += 1
                    return True

    def do_POST(self):
        global running
        self.here = True
        body = self.rfile.read(int(self.headers.get("Content-Length", 0))).decode()
        mood = self.path.split("/")[1]
        key = self.headers.get("Authorization", "")
        with lock:
            running += 1
            tries = seen[body, mood] = seen.get((body, mood), 0) + 1
            with open(os.path.join(folder, "bodies"), "a") as log:
                log.write(f"{self.path} {body}\n")
            with open(os.path.join(folder, "requests"), "a") as log:
                log.write(f"{self.path} {running} {'with' if key else 'without'} key\n")
        try:
            self.answer(mood, body, key, tries)
        except (BrokenPipeError, ConnectionResetError):
            pass
        self.leave()

    def pour(self, piece):
        """A header without an end, of one line or of many."""
        self.close_connection = True
        self.wfile.write(b"HTTP/1.1 200 OK\r\nX: ")
        for _ in range(1000):  # 16 MB: whoever takes all of it has no bound
            self.wfile.write(piece * (16384 // len(piece)))

    def answer(self, mood, body, key, tries):
        request = json.loads(body)
        prompt = request["prompt"] if "prompt" in request else request["messages"][0]["content"]
        said = good = written(prompt)
        if "the answer to grade" in prompt:
            assert request.get("temperature", 0) == 0 and len(request["messages"]) == 1
            said = verdict(prompt)
            good = f"It says so.\n{said}\n"
        if request.get("echo") and mood not in ("garbage", "refuse", "dead", "huge"):
            assert not self.path.endswith("/chat/completions") and request["logprobs"] >= 1
            self.send(200, json.dumps(scores(mood, prompt)))
        elif mood == "good":
            self.say(good)
        elif mood == "together":  # nobody is answered before two have asked
            with lock:
                if running > 1:
                    met.set()
            met.wait()
            self.say(good)
        elif mood == "second":  # wrong at first, whatever the seed
            with lock:
                seen[prompt] = seen.get(prompt, 0) + 1
            self.say(good if seen[prompt] > 1 else "#### 7654321")
        elif mood == "held":
            if self.hold():
                self.say(good)
            else:
                self.close_connection = True
        elif mood == "busy":
            self.say(good) if tries > 2 else self.send(429, "", [("Retry-After", "1" if tries == 1 else "0")])
        elif mood == "broken":
            self.say(good) if tries > 1 else self.send(500, "not JSON <b>")
        elif mood == "dead":
            self.send(503, json.dumps({"error": {"message": f"no room for {key}"}}))
        elif mood == "garbage":
            self.send(200, f"{key} {{]")
        elif mood == "shapeless":
            self.send(200, json.dumps({"choices": [{"message": {"content": None}}]}))
        elif mood == "deep":
            self.send(200, "[" * 100000)
        elif mood == "truncated":
            self.send(200, '{"choices": [{"mess', length=4000)
            self.close_connection = True
        elif mood == "huge":
            self.send(200, '"' + "x" * (16 << 20) + '"')
        elif mood == "endless":
            self.drip()
        elif mood in ("header", "headers"):
            self.pour(b"x" if mood == "header" else b"X: y\r\n")
        elif mood == "picky":
            self.send(400, json.dumps({"error": "too long"})) if "tank" in prompt else self.say(good)
        elif mood == "thinking":
            self.send(200, json.dumps({"choices": [{"message": {"content": None}, "finish_reason": "length"}]}))
        elif mood == "redirect":
            self.send(307, "", [("Location", "/good/v1/chat/completions")])
        elif mood == "echo":
            self.say(f"Your header was {key}, thrice {key}{key}.\n{said}")
        elif mood == "escaped":
            text = "".join(f"\\u{ord(letter):04x}" for letter in key)
            self.send(200, '{"choices": [{"message": {"content": "' + text + "\\n" + json.dumps(said)[1:-1] + '"}}]}')
        elif mood == "stranger":
            self.send(401, json.dumps({"error": {"message": f"Incorrect key: {key}"}}))
        elif mood == "refuse":
            self.send(400, json.dumps({"error": {"message": f"too long, {key}\x1b[31m"}}))
        elif mood == "warm":
            refusal = json.dumps({"error": {"message": "temperature is not supported"}})
            self.send(400, refusal) if "temperature" in request else self.say(good)
        elif mood == "mumbling":
            reminded = "held no verdict" in request["messages"][0]["content"]
            self.say(f"**{said.capitalize()}**." if reminded else "Hard to say.")
        elif mood == "silent":
            self.say("Hard to say.")
        elif mood == "chatty":
            self.say(f"{said}, I would say.")
        else:
            self.send(404, "")


server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Endpoint)
with open(os.path.join(folder, "port.new"), "w") as file:
    file.write(str(server.server_address[1]))
os.rename(os.path.join(folder, "port.new"), os.path.join(folder, "port"))
server.serve_forever()
