#!/usr/bin/env python3
"""metier serve under load: 64 clients at once, and others that misbehave. Usage: serve_load.py METIER SHARE PLACE [REQUESTS]
PLACE has adapters/math. REQUESTS (600) of mixed lengths, forms, models and seeds are made, each on a connection that is used
again; every answer has to be the one its request got alone. Meanwhile others hold half a request, read nothing, break streams
off, send nonsense, and load and unload an adapter. Then more ask than may wait, and SIGTERM comes in the middle of work.
Printed: requests a second, and the server's memory after a fifth of the requests and at their end. Exit status 1: one was
lost, mixed up or cut, or something was left in memory."""
import http.client
import itertools
import json
import random
import resource
import socket
import sys
import threading
import time

from served import Server, events, send

metier, share, place = sys.argv[1:4]
count = int(sys.argv[4]) if len(sys.argv) > 4 else 600
CLIENTS, DISTINCT = 64, min(240, count // 2)
failed = []


def check(held, what):
    if not held:
        failed.append(what)
        print(f"serve_load.py: {what}")


def requests():
    """Paths and bodies, of all forms."""
    draw = random.Random(3)
    for i in range(DISTINCT):
        text = "x " * draw.randrange(60) + f"{draw.randrange(100)} + {draw.randrange(100)} = "
        body = {"model": draw.choice(["tiny-deepseek-v2", "mix", "math"]), "max_tokens": 1 + draw.randrange(40),
                "temperature": draw.choice([0, 0.7, 1.5]), "seed": i, "stream": draw.random() < 0.3}
        kind = draw.randrange(6)
        if kind == 0:
            yield "/v1/chat/completions", {**body, "messages": [{"role": "user", "content": text}]}
        elif kind == 1:
            yield "/v1/completions", {**body, "prompt": [5 + b % 90 for b in text.encode()], "logprobs": 2}
        elif kind == 2:
            yield "/v1/completions", {**body, "prompt": [text, text + "1"], "n": 2}
        elif kind == 3:
            yield "/v1/completions", {**body, "prompt": text, "echo": True, "logprobs": 1, "stream": False}
        elif kind == 4:
            yield "/v1/completions", {**body, "prompt": text, "metier": {"routing": True}}
        else:
            yield "/v1/completions", {**body, "prompt": text}


def told(body, status, text):
    """What an answer says, whatever its number and time are; of a stream, its pieces put together."""
    if status != 200:
        return status, text
    if not body["stream"]:
        answer = json.loads(text)
        return answer["choices"], answer["usage"], answer.get("metier")
    said, routing = {}, None
    for piece in events(text) or []:
        routing = piece.get("metier", routing)
        for choice in piece["choices"]:
            parts = said.setdefault(choice["index"], ["", [], None])
            parts[0] += choice["text"] if "text" in choice else choice["delta"].get("content", "")
            parts[1] += (choice["logprobs"] or {}).get("token_logprobs", [])
            parts[2] = choice["finish_reason"]
    return (sorted(said.items()), routing) if events(text) is not None else ("cut", text)


def figure(name):
    _, text = server.ask("GET", "/metrics")
    return next(int(line.split()[1]) for line in text.decode().split("\n") if line.startswith(name + " "))


def megabytes():
    with open(f"/proc/{server.process.pid}/status") as file:
        return next(int(line.split()[1]) for line in file if line.startswith("VmRSS")) / 1024


def together(work, number):
    threads = [threading.Thread(target=work, args=(i,)) for i in range(number)]
    for thread in threads:
        thread.start()
    return threads


# ---------------------------------------------------------------- clients that misbehave

over = threading.Event()
turn = threading.Semaphore(0)  # they do something as often as a request is answered


def acts():
    turn.acquire()
    return not over.is_set()


def head(path, length):
    return f"POST {path} HTTP/1.1\r\nHost: localhost\r\nContent-Length: {length}\r\n\r\n".encode()


def half_open():
    """Connections that go no further; the caller closes."""
    held = []
    for data in [b"POST /v1/compl", head("/v1/completions", 50) + b"{", b""] * 8:
        connection = socket.create_connection(("127.0.0.1", server.port))
        connection.sendall(data)
        held.append(connection)
    return held


def slow_reader():
    """A stream that nobody reads yet, through a small window; the caller reads it."""
    body = json.dumps(SLOW).encode()
    connection = socket.socket()
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 2048)
    connection.connect(("127.0.0.1", server.port))
    connection.sendall(head("/v1/completions", len(body)).replace(b"\r\n\r\n", b"\r\nConnection: close\r\n\r\n") + body)
    return connection


SLOW = {"prompt": "count: ", "n": 16, "max_tokens": 200, "temperature": 1, "seed": 5, "stream": True}


def cancel(number):
    """Streams that are broken off at their first bytes, or before."""
    draw = random.Random(number)
    body = json.dumps({**SLOW, "n": 3}).encode()
    while acts():
        connection = socket.create_connection(("127.0.0.1", server.port), timeout=1800)
        connection.sendall(head("/v1/completions", len(body)) + body)
        if draw.random() < 0.7:
            connection.recv(100)
        connection.close()


def nonsense(number):
    draw = random.Random(number)
    while acts():
        data = draw.choice([b"\0\1\2\r\n\r\n", b"x" * 100000, head("/v1/completions", 10 ** 11), head("/tokenize", 3) + b"{}{",
                            head("/v1/chat/completions", 6) + b"[[[[[[", b"GET /../../etc/passwd HTTP/1.1\r\nHost: localhost\r\n\r\n",
                            b"GET /v1/models HTTP/1.1\r\nHost: evil.example\r\n\r\n"])
        connection = socket.create_connection(("127.0.0.1", server.port), timeout=1800)
        try:
            connection.sendall(data)
            connection.shutdown(socket.SHUT_WR)
            answer = connection.recv(4096)
            check(answer == b"" or answer.split()[1][:1] == b"4", f"{data[:40]}: {answer[:60]}")
        except OSError:
            pass  # closed on us: just as well
        connection.close()


def come_and_go(_):
    """An adapter that is loaded, asked and unloaded, again and again, under the same name."""
    body = {"prompt": "5 + 5 = ", "max_tokens": 30, "temperature": 0, "stream": False}
    wanted = told(body, *server.ask("POST", "/v1/completions", {**body, "model": "math"}))
    while acts():
        status, text = server.ask("POST", "/v1/load_lora_adapter", {"lora_name": "again", "lora_path": "math"})
        check(status == 200, f"load: {status} {text}")
        askers = together(lambda _: check(told(body, *server.ask("POST", "/v1/completions", {**body, "model": "again"}))
                                          in (wanted, (404, NO_MODEL)), "an adapter that goes answers otherwise"), 3)
        status, text = server.ask("POST", "/v1/unload_lora_adapter", {"lora_name": "again"})
        check(status == 200, f"unload: {status} {text}")
        for asker in askers:
            asker.join()


NO_MODEL = (b'{"error": {"message": "there is no model \'again\'; GET /v1/models lists them", "type": "invalid_request_error", '
            b'"code": 404}}\n')


# ---------------------------------------------------------------- the load

def load(asks, alone):
    numbers = itertools.count()
    after_a_fifth = []

    def client(number):
        order = random.Random(number)
        connection = server.connect()
        while next(numbers) < count:
            which = order.randrange(len(asks))
            path, body = asks[which]
            check(told(body, *send(connection, "POST", path, body)) == alone[which], f"other than alone: {path} {body}")
            turn.release()
            with lock:
                done.append(which)
                if len(done) == count // 5:
                    after_a_fifth.append(megabytes())
        connection.close()

    done, lock = [], threading.Lock()
    bad = [*together(cancel, 2), *together(nonsense, 2), *together(come_and_go, 1)]
    held, slow = half_open(), [slow_reader() for _ in range(4)]
    begun = time.monotonic()
    for thread in together(client, CLIENTS):
        thread.join()
    seconds = time.monotonic() - begun
    at_the_end = megabytes()
    over.set()
    turn.release(len(bad))
    for thread in bad:
        thread.join()
    check(len(done) == count, f"{count - len(done)} requests were lost")
    for connection in slow:  # all of it is still there
        text = b"".join(iter(lambda: connection.recv(4096), b""))
        check(text.startswith(b"HTTP/1.1 200") and b"data: [DONE]" in text, f"a slow reader got {text[-100:]}")
        connection.close()
    for connection in held:
        connection.close()
    print(f"{len(done)} requests of {CLIENTS} clients, {len(failed)} failures, {count / seconds:.0f} a second; "
          f"memory {after_a_fifth[0]:.1f} MB after a fifth, {at_the_end:.1f} MB at the end")


def crowd():
    """More than may wait: each is answered or told to come later, and /health does not wait with them."""
    number = min(900, resource.getrlimit(resource.RLIMIT_NOFILE)[0] - 100)
    path, data = "/v1/completions", json.dumps({"prompt": "2 + 2 =", "temperature": 0, "max_tokens": 4}).encode()
    wanted = told({"stream": False}, *server.ask("POST", path, data))
    held = []
    for _ in range(number):
        held.append(server.connect())
        held[-1].request("POST", path, data)
    check(server.ask("GET", "/health")[0] == 200, "no /health beside a crowd")
    answers = [(answer.status, answer.read()) for answer in (connection.getresponse() for connection in held)]
    for connection in held:
        connection.close()
    for status, text in answers:
        check(status == 503 and b"too many requests wait" in text or told({"stream": False}, status, text) == wanted,
              f"in a crowd: {status} {text[:100]}")
    print(f"{number} requests at once: {sum(status == 200 for status, _ in answers)} answered, the others told to come later")


def ending(asks, alone):
    """SIGTERM amid work: what comes is the right answer, or told that the server stops; then nobody listens."""
    right, refused, enough = [], [], threading.Semaphore(0)

    def client(number):
        order = random.Random(number)
        connection = server.connect()
        while True:
            which = order.randrange(len(asks))
            path, body = asks[which]
            try:
                status, text = send(connection, "POST", path, body)
            except (OSError, http.client.HTTPException):
                break  # came too late to be taken
            if status == 503:
                refused.append(which)
                break
            check(told(body, status, text) == alone[which], f"at the end, other than alone: {path} {body}")
            right.append(which)
            enough.release()

    clients = together(client, CLIENTS)
    for _ in range(100):
        enough.acquire()
    status = server.stop()
    for thread in clients:
        thread.join()
    check(status == 0, f"exit status {status}")
    print(f"SIGTERM: {len(right)} answered, {len(refused)} told that the server stops, exit status {status}")


server = Server(metier, f"{share}/models/tiny-deepseek-v2", f"mix={share}/models/tiny-mixtral", "--slots", "16",
                "--adapter", f"math={place}/adapters/math", "--adapters", f"{place}/adapters")
everything = list(requests())
single = [told(body, *server.ask("POST", path, body)) for path, body in everything]
check(all(status != 400 for status, *_ in single), "a request is refused")
before = figure("metier_request_bytes")
load(everything, single)
for _ in range(30000):  # streams that were broken off may still be computed
    if figure("metier_request_bytes") == 0:
        break
    time.sleep(0.01)
check(before == 0 and figure("metier_request_bytes") == 0, f"{figure('metier_request_bytes')} bytes are left of requests")
crowd()
ending(everything, single)
sys.exit(1 if failed else 0)
