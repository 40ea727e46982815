#!/usr/bin/env python3
"""Servers that do not answer as they should, one port for each kind, for probe.sh. Usage: probe_servers.py PORTS
Writes "KIND PORT" lines to the file PORTS and serves until it is killed."""
import http.server
import json
import os
import random
import sys
import threading
import time


def logs(top):
    return json.dumps({"choices": [{"text": "a", "logprobs": {"tokens": ["a"], "token_logprobs": [-1.0], "top_logprobs": top}}]})


def chance():
    return logs([{letter: -random.uniform(0, 18) for letter in "abcdefghijklmnopqrstuvwxyz0123456789"[:20]}])


REPLIES = {
    "nothing": lambda: json.dumps({"choices": [{"text": "a"}]}),
    "null": lambda: logs([None]),
    "nan": lambda: logs([{"a": float("nan")}]),
    "garbage": lambda: "\x00[[[[{{{" * 100,
    "positive": lambda: logs([{"a": 3.0}]),
    "foreign": lambda: logs([{f"word{i}": -1.0 - i for i in range(20)}]),
    "refusing": None,
    "hung": None,
    "chance": chance,
}


def handler(kind):
    class Handler(http.server.BaseHTTPRequestHandler):
        def do_POST(self):
            self.rfile.read(int(self.headers["Content-Length"]))
            if kind == "hung":
                time.sleep(3600)
            body = json.dumps({"error": {"message": "no"}}) if kind == "refusing" else REPLIES[kind]()
            self.send_response(400 if kind == "refusing" else 200)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body.encode("latin-1"))

        def log_message(self, *words):
            pass

    return Handler


lines = []
for name in REPLIES:
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler(name))
    server.daemon_threads = True
    threading.Thread(target=server.serve_forever, daemon=True).start()
    lines.append(f"{name} {server.server_port}\n")
with open(sys.argv[1] + ".new", "w") as file:
    file.writelines(lines)
os.rename(sys.argv[1] + ".new", sys.argv[1])
threading.Event().wait()
