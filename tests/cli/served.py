"""A server that a test has started, asked with the standard library alone."""
import http.client
import json
import os
import signal
import subprocess


class Server:
    def __init__(self, metier, *words, env=None):
        self.process = subprocess.Popen([metier, "serve", *words, "--port", "0"], stdout=subprocess.PIPE,
                                        stderr=subprocess.DEVNULL, text=True, env={**os.environ, **(env or {})})
        self.port = next((int(line.rsplit(":", 1)[1]) for line in self.process.stdout if line.startswith("listening on")), 0)

    def connect(self):
        return http.client.HTTPConnection("127.0.0.1", self.port, timeout=1800)

    def ask(self, method, path, body=None, headers=None):
        """Status and text of an answer, on a connection of its own."""
        connection = self.connect()
        answer = send(connection, method, path, body, headers)
        connection.close()
        return answer

    def post(self, path, body, **headers):
        status, text = self.ask("POST", path, body, headers)
        return status, json.loads(text, object_pairs_hook=once)

    def stop(self, how=signal.SIGTERM):
        self.process.send_signal(how)
        return self.process.wait(timeout=1800)


def once(pairs):
    """An object; some readers refuse one that has a name twice."""
    names = [name for name, _ in pairs]
    if len(set(names)) < len(names):
        raise ValueError(f"an answer has a name twice: {names}")
    return dict(pairs)


def send(connection, method, path, body=None, headers=None):
    """The same on a connection that stays open."""
    data = body if body is None or isinstance(body, bytes) else json.dumps(body).encode()
    connection.request(method, path, data, headers or {})
    answer = connection.getresponse()
    return answer.status, answer.read()


def events(text):
    """The pieces of a stream; None: it does not end as one."""
    pieces = [line[6:] for line in text.decode().split("\n") if line.startswith("data: ")]
    return [json.loads(piece) for piece in pieces[:-1]] if pieces and pieces[-1] == "[DONE]" else None
