#!/usr/bin/env python3
"""metier chat on a terminal, and through pipes. Usage: chat_terminal.py METIER SHARE PLACE"""
import fcntl
import json
import os
import pty
import re
import select
import signal
import struct
import subprocess
import sys
import termios

metier, share, place = sys.argv[1:4]
model = f"{share}/models/tiny-deepseek-v2"
failed = 0


def check(held, what):
    global failed
    if not held:
        failed += 1
        print(f"chat_terminal.py: {what}")


def chat(*options, model=model):
    return [metier, "chat", model, *options]


class Terminal:
    def __init__(self, *words):
        self.process, self.end = pty.fork()
        if self.process == 0:
            os.environ.update({"TERM": "xterm-256color", "LC_ALL": "C.UTF-8", "PS1": "ready: "})
            os.environ.pop("NO_COLOR", None)
            os.execvp(words[0], words)
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
        while select.select([self.end], [], [], 600)[0]:
            try:
                self.text += os.read(self.end, 65536).decode(errors="replace")
            except OSError:
                break
        else:
            os.kill(self.process, signal.SIGKILL)  # it waits for another key
        return os.waitstatus_to_exitcode(os.waitpid(self.process, 0)[1])


def plain(text):
    return re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", text)


terminal = Terminal(*chat("--max-new", "12"))
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
with open(f"{place}/said.jsonl", encoding="utf-8") as file:
    check(json.load(file) == {"messages": [{"role": "system", "content": "caf\u00e9"}]}, "a saved conversation")
terminal.type("\x04")  # Ctrl-D
check(terminal.status() == 0, "Ctrl-D does not end the program")

early = Terminal(*chat())
early.type("\x04")  # before the terminal is set up
check(early.status() == 0, "an early Ctrl-D is lost")

ahead = Terminal(*chat("--max-new", "200", "--context", "400"))
ahead.until("> ")
ahead.type("mercury at 20 C:\r/experts 2\r/he")  # also while the answer is written
ahead.until("layer 2")
ahead.until("> /he")
fcntl.ioctl(ahead.end, termios.TIOCSWINSZ, struct.pack("HHHH", 40, 30, 0, 0))
ahead.type("lp\x04 is not this \x03")  # Ctrl-D does nothing in a line with text, and Ctrl-C throws the line away
ahead.until("Ctrl-D ends")
ahead.type("\x03\x03/reset\r\x04")
check(ahead.status() == 0 and "/reset" in plain(ahead.text) and "/help   " not in ahead.text, f"typed ahead: {ahead.text[-400:]!r}")

endless = chat("--max-new", "90000", "--context", "100000", model=f"{share}/models/small-deepseek-v2")
for stop, keys in (("\x03", "\x04"), ("\x03\x03", "\x04"), ("thrown away\r\x03\x04", "")):
    terminal = Terminal(*endless)
    terminal.until("> ")
    terminal.type("Compute (3 + 4) * 2\r")
    terminal.until("\n")
    terminal.until("1")  # and so on, if nobody stops it
    terminal.type(stop)
    terminal.until("(stopped after ")
    terminal.until("> ")
    terminal.type(keys)
    check(terminal.status() == 0 and "thrown" not in terminal.text, f"{stop + keys!r} at an answer: {terminal.text[-200:]!r}")

shell = Terminal("sh", "-i")
shell.until("ready: ")
shell.type(" ".join(endless) + "\r")
shell.until("> ")
shell.type("Compute (3\x1a")  # Ctrl-Z
shell.until("ready: ")
shell.type("stty -a\r")
check(" icanon" in shell.until("ready: "), "the shell's terminal after Ctrl-Z")
shell.type("fg\r")
shell.until("> Compute (3")
shell.type(" + 4) * 2\r")
shell.until("1")
shell.type("\x1a")
shell.until("ready: ")
shell.type("fg\r")
shell.until("+")
shell.type("\x03")
shell.until("(stopped after ")
shell.type("\x04")
shell.until("ready: ")
shell.type("echo status $?; exit\r")
shell.until("status 0")
check(shell.status() == 0, "Ctrl-D after Ctrl-Z")

# The words of an answer to a pipe, the prompt on the terminal.
words = Terminal("sh", "-c", '"$@" | tr a-z A-Z', "sh", *chat("--max-new", "3"))
words.until("> ")
words.type("mercury at 20 C:\r")
words.until("(cut after 3 tokens")
words.until("> ")
words.type("\x04")
check(words.status() == 0 and "LIQ" in words.text, "an answer to a pipe")


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
