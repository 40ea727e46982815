#!/usr/bin/env python3
"""metier chat on a terminal, and through pipes. Usage: chat_terminal.py METIER SHARE PLACE"""
import json
import os
import pty
import re
import select
import subprocess
import sys

metier, share, place = sys.argv[1:4]
model = f"{share}/models/tiny-deepseek-v2"
failed = 0


def check(held, what):
    global failed
    if not held:
        failed += 1
        print(f"chat_terminal.py: {what}")


class Terminal:
    def __init__(self, *options, model=model):
        self.process, self.end = pty.fork()
        if self.process == 0:
            os.environ.update({"TERM": "xterm-256color", "LC_ALL": "C.UTF-8"})
            os.environ.pop("NO_COLOR", None)
            os.execv(metier, [metier, "chat", model, *options])
        self.text = ""
        self.seen = 0

    def until(self, words):
        """Everything up to some words that come after what was seen before."""
        while words not in self.text[self.seen:]:
            ready, _, _ = select.select([self.end], [], [], 600)
            try:
                piece = os.read(self.end, 65536) if ready else b""
            except OSError:
                piece = b""
            if not piece:
                check(False, f"{words!r} never came: {self.text[-400:]!r}")
                return ""
            self.text += piece.decode(errors="replace")
        before, self.seen = self.seen, self.text.index(words, self.seen) + len(words)
        return self.text[before:self.seen]

    def type(self, keys):
        os.write(self.end, keys.encode())

    def status(self):
        return os.waitstatus_to_exitcode(os.waitpid(self.process, 0)[1])


def plain(text):
    return re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", text)


terminal = Terminal("--max-new", "12")
banner = terminal.until("> ")
check("4 of 16 experts a token" in banner and "/help" in banner, f"banner {banner!r}")
terminal.type("mercury at 20 C:\r")
check("liquid" in plain(terminal.until("liquid")), "an answer")
terminal.until("> ")
terminal.type("/reset\r")
terminal.until("> ")
terminal.type("\x1b[A\x1b[A")  # the line before the last
terminal.until("mercury at 20 C:")
terminal.type("\r")
terminal.until("liquid")
terminal.until("> ")
terminal.type("half a line\x03")  # Ctrl-C
terminal.until("Ctrl-D ends")
terminal.type("/experts 2\r")
between = terminal.until("layer 2")
told = terminal.until("> ")
check("\x1b[30;48;5;" in told, f"experts without colours: {told[-200:]!r}")
check("half a line" not in plain(between + told), "a line was not thrown away")
terminal.type("/system caf\u00e9\r")
terminal.until("begins with that")
terminal.until("> ")
terminal.type(f"/save {place}/said.jsonl\r")
terminal.until("written")
terminal.until("> ")  # a Ctrl-D before it would be the terminal's own
with open(f"{place}/said.jsonl", encoding="utf-8") as file:
    check(json.load(file) == {"messages": [{"role": "system", "content": "caf\u00e9"}]}, "a saved conversation")
terminal.type("\x04")  # Ctrl-D
check(terminal.status() == 0, "Ctrl-D is no end")


def piped(lines, *options):
    done = subprocess.run([metier, "chat", model, *options], input="\n".join(lines) + "\n", capture_output=True, text=True)
    return done.returncode, done.stdout, done.stderr


status, out, said = piped(["mercury at 20 C:", "/experts", "/adapter /nowhere", "/nothing", "/quit", "never"], "--max-new", "3")
check(status == 0 and out.startswith("liq\n") and "cut after 3 tokens" in said, f"{out!r} {said!r}")
check(re.search(r"layer 2.*\nl\t\d+ 0\.\d\d, \d+ 0\.\d\d", out), f"experts through a pipe: {out!r}")
check("there is no such file" in said and "/nothing is not a command" in said and "never" not in out, f"{said!r}")
if os.path.exists(f"{place}/adapters/math"):
    status, out, said = piped(["/adapter " + f"{place}/adapters/math", "Compute (3 + 4) * 2.", "/experts 1", "/adapter none", "mercury at 20 C:", "/experts 1"])
    check(status == 0 and said.count("a new conversation") == 2, f"changing adapters: {said!r}")
    check(out.count("layer 1, experts and weights") == 2, f"experts after another adapter: {out!r}")
sys.exit(1 if failed else 0)
