#!/usr/bin/env python3
"""An endpoint with moods, for judge.sh: the first part of the path says how it answers. Standard library only.

Usage: judge_server.py FOLDER. Writes its port to FOLDER/port and a line per request to FOLDER/requests.
"""
import http.server
import json
import os
import sys
import threading
import time

folder = sys.argv[1]
lock = threading.Lock()
seen = {}
running = 0


def verdict(prompt):
    """Right where the reference stands in the answer."""
    answer = prompt.split("the answer to grade\n", 1)[1].rsplit("\n===", 1)[0]
    reference = prompt.split("which is right\n", 1)[1].split("\n===", 1)[0]
    return "CORRECT" if reference.strip() in answer.replace(",", "") else "INCORRECT"


class Endpoint(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *arguments):
        pass

    def send(self, status, body, headers=(), length=None):
        data = body.encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(data) if length is None else length))
        for name, value in headers:
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(data)

    def say(self, text):
        self.send(200, json.dumps({"choices": [{"message": {"role": "assistant", "content": text}}]}))

    def do_POST(self):
        global running
        body = self.rfile.read(int(self.headers.get("Content-Length", 0))).decode()
        mood = self.path.split("/")[1]
        key = self.headers.get("Authorization", "")
        with lock:
            running += 1
            tries = seen[body, mood] = seen.get((body, mood), 0) + 1
            with open(os.path.join(folder, "requests"), "a") as log:
                log.write(f"{self.path} {running} {'with' if key else 'without'} key\n")
        try:
            self.answer(mood, body, key, tries)
        except (BrokenPipeError, ConnectionResetError):
            pass
        with lock:
            running -= 1

    def answer(self, mood, body, key, tries):
        request = json.loads(body)
        assert request.get("temperature", 0) == 0 and len(request["messages"]) == 1
        said = verdict(request["messages"][0]["content"])
        good = f"It says so.\n{said}\n"
        if mood == "good":
            time.sleep(0.05)
            self.say(good)
        elif mood == "slow":
            time.sleep(1.5)
            self.say(good)
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
        elif mood == "redirect":
            self.send(307, "", [("Location", "/good/v1/chat/completions")])
        elif mood == "echo":
            self.say(f"Your header was {key}, thrice {key}{key}.\n{said}")
        elif mood == "escaped":
            text = "".join(f"\\u{ord(letter):04x}" for letter in key)
            self.send(200, '{"choices": [{"message": {"content": "' + text + "\\n" + said + '"}}]}')
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
