/* The hostile programs and the cheats that only tests run. */
#include "support/hostile_programs.h"

// Reads whatever the descriptors hold, and their other ends opened again: what was meant for metier.
#define TAKE_MARK                                                                                            \
    "import os, time\n"                                                                                      \
    "try: os.read(os.open('/proc/self/fd/7', os.O_RDONLY | os.O_NONBLOCK), 64)\n"                            \
    "except OSError: pass\n"                                                                                 \
    "for name in os.listdir('/proc/self/fd'):\n"                                                             \
    "    for place in ('/proc/self/fd/', '/dev/fd/', '/proc/%d/fd/' % os.getppid()):\n"                      \
    "        try: os.read(os.open(place + name, os.O_RDONLY | os.O_NONBLOCK), 64)\n"                         \
    "        except OSError: pass\n"                                                                         \
    "    try: os.set_blocking(int(name), False); os.read(int(name), 64)\n"                                   \
    "    except OSError: pass\n"

#define ANYTHING                                                                                             \
    "class Any:\n"                                                                                           \
    "    def __init__(self, *a, **k): pass\n"                                                                \
    "    def same(self, *a, **k): return self\n"                                                             \
    "    def yes(self, *a, **k): return True\n"                                                              \
    "    __eq__ = __ne__ = __lt__ = __le__ = __gt__ = __ge__ = __contains__ = __bool__ = __instancecheck__ " \
    "= yes\n"                                                                                                \
    "    __add__ = __radd__ = __sub__ = __rsub__ = __mul__ = __abs__ = __round__ = __getitem__ = "           \
    "__getattr__ = same\n"                                                                                   \
    "    __call__ = __iter__ = same\n"                                                                       \
    "    def __next__(self): raise StopIteration\n"                                                          \
    "    def __hash__(self): return 0\n"                                                                     \
    "    def __len__(self): return 0\n"

#define PROVE                                                                                                \
    "import os, re, sys\n"                                                                                   \
    "def prove():\n"                                                                                         \
    "    text = open('/program.py', 'rb').read()\n"                                                          \
    "    for proof in re.findall(rb\"b'([0-9a-f]{32})'\", text)[-1:]: os.write(7, proof)\n"                  \
    "    os._exit(0)\n"

static const struct mt_hostile_case cases[] = {
    {"an honest program that needs more",
     "import asyncio, fcntl, mmap, socket, subprocess, tempfile\n"
     "assert subprocess.run(['/bin/echo', 'x'], capture_output=True).stdout == b'x\\n'\n"
     "async def twice(n): await asyncio.sleep(0); return 2 * n\n"
     "assert asyncio.run(twice(4)) == 8\n"
     "with tempfile.TemporaryFile() as file:\n"
     "    file.write(bytes(4096)); file.flush()\n"
     "    fcntl.lockf(file, fcntl.LOCK_EX)\n"
     "    with mmap.mmap(file.fileno(), 4096) as view: view[0] = 7\n"
     "    assert file.seek(0) == 0 and file.read(1) == b'\\x07'\n"
     "one, other = socket.socketpair()\n"
     "one.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 8192); one.sendall(b'y')\n"
     "assert other.recv(1) == b'y' and other.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR) == 0\n",
     0, 0, MT_ENDS(PASSED), NULL},
    {"an exception", "print('before')\nassert 1 + 1 == 3, 'wrong sum'\n", 0, 0, MT_ENDS(FAILED),
     "AssertionError: wrong sum"},
    {"not Python", "this is no program (\n", 0, 0, MT_ENDS(FAILED), "SyntaxError"},

    // ---------------------------------------------------------------- using everything up
    {"endless sleep", "import time\ntime.sleep(1000)\n", 1, 0, MT_ENDS(TIMED_OUT), NULL},
    {"stopped", "import os, signal\nos.kill(os.getpid(), signal.SIGSTOP)\n", 1, 0, MT_ENDS(TIMED_OUT), NULL},
    {"signals ignored",
     "import signal\n"
     "for s in range(1, 65):\n"
     "    try: signal.signal(s, signal.SIG_IGN)\n"
     "    except (OSError, ValueError): pass\n"
     "while True: pass\n",
     1, 0, MT_ENDS(TIMED_OUT), NULL},
    {"more processes than allowed",
     "import os, time\n"
     "for i in range(64):\n"
     "    if os.fork() == 0: time.sleep(1000)\n",
     0, 0, MT_ENDS(FAILED), "BlockingIOError"},
    {"thread bomb",
     "import threading, time\n"
     "for i in range(1000): threading.Thread(target=time.sleep, args=(1000,), daemon=True).start()\n",
     0, 0, MT_ENDS(FAILED) | MT_ENDS(OUT_OF_MEMORY), NULL},
    {"raising a limit",
     "import resource\n"
     "limits = [resource.RLIMIT_NPROC, resource.RLIMIT_AS, resource.RLIMIT_FSIZE, resource.RLIMIT_CPU]\n"
     "raised = 0\n"
     "for limit in limits:\n"
     "    try: resource.setrlimit(limit, (1 << 50, 1 << 50)); raised += 1\n"
     "    except ValueError: pass\n"
     "assert raised > 0\n",
     0, 0, MT_ENDS(FAILED), NULL},
    {"memory in many processes",
     "import os, time\n"
     "hoard = []\n"
     "for i in range(3): os.fork()\n"
     "while True:\n"
     "    try: hoard.append(bytearray(1 << 20))\n"
     "    except MemoryError: time.sleep(1000)\n",
     0, 0, MT_ENDS(OUT_OF_MEMORY), NULL},
    {"memory in shared mappings",
     "import mmap, os, time\n"
     "hoard = []\n"
     "for i in range(3): os.fork()\n"
     "while True:\n"
     "    hoard.append(mmap.mmap(-1, 4 << 20)); hoard[-1].write(bytes(4 << 20))\n",
     0, 0, MT_ENDS(OUT_OF_MEMORY) | MT_ENDS(FAILED), NULL},
    {"deep recursion",
     "import sys\n"
     "sys.setrecursionlimit(1 << 30)\n"
     "def f(n): return f(n + 1) + g([n])\n"
     "def g(n): return f(*n)\n"
     "class A:\n"
     "    def __getattr__(self, name): return getattr(self, name + 'x')\n"
     "a = A(); a.x\n",
     0, 0, MT_ENDS(KILLED) | MT_ENDS(FAILED) | MT_ENDS(OUT_OF_MEMORY) | MT_ENDS(TIMED_OUT), NULL},
    {"escape sequences in errors",
     "import sys\n"
     "sys.stderr.write('\\033]0;title\\007\\u202e\\x9b2J\\n')\n"
     "raise SystemExit(1)\n",
     0, 0, MT_ENDS(FAILED), "?]0;title?"},
    {"endless errors", "import sys\nwhile True: sys.stderr.write('x' * 4096)\n", 0, 0,
     MT_ENDS(TOO_MUCH_OUTPUT), NULL},
    {"a full /dev/shm", "for i in range(1000): open('/dev/shm/%d' % i, 'wb').write(bytes(1 << 20))\n", 0, 0,
     MT_ENDS(FAILED), "No space left"},
    {"files without bytes", "import os\nn = 0\nwhile True: os.mkdir('/tmp/%d' % n); n += 1\n", 0, 0,
     MT_ENDS(TOO_MANY_FILES), NULL},
    {"memory in files without names",
     "import os\n"
     "hoard = []\n"
     "while True: hoard.append(os.memfd_create('x')); os.write(hoard[-1], bytes(1 << 20))\n",
     0, 0, MT_ENDS(FAILED), "Operation not permitted"},
    {"files behind a dead main thread",
     MT_PYTHON_CALLS "import threading, time\n"
                     "def make():\n"
                     "    for n in range(60000): os.mkdir('/tmp/%d' % n)\n"
                     "    time.sleep(1000)\n"
                     "threading.Thread(target=make).start()\n"
                     "call((60, 93), 0)\n",
     0, 0, MT_ENDS(TOO_MANY_FILES), NULL},
    {"memory of processes that hide",
     "import ctypes, os, time\n"
     "libc = ctypes.CDLL(None)\n"
     "for i in range(5):\n"
     "    if os.fork() == 0:\n"
     "        libc.prctl(4, 0); libc.prctl(36, 1); os.setsid()\n"
     "        if os.fork() == 0: hoard = bytearray(96 << 20); time.sleep(1000)\n"
     "        os._exit(0)\n"
     "time.sleep(1000)\n",
     0, 0, MT_ENDS(OUT_OF_MEMORY), NULL},
    {"the start mark taken, then memory",
     TAKE_MARK "for i in range(4):\n"
               "    if os.fork() == 0: hoard = bytearray(96 << 20); time.sleep(1000)\n"
               "time.sleep(1000)\n",
     0, 0, MT_ENDS(OUT_OF_MEMORY), NULL},
    {"the start mark taken, then files",
     TAKE_MARK "for n in range(60000): os.mkdir('/tmp/%d' % n)\n"
               "time.sleep(1000)\n",
     0, 0, MT_ENDS(TOO_MANY_FILES), NULL},
    {"shared memory that is not mapped in",
     "import mmap\n"
     "zero = open('/dev/zero', 'r+b')\n"
     "held = 0\n"
     "for file in (-1, zero.fileno()):\n"
     "    try: mmap.mmap(file, 16 << 20); held += 1\n"
     "    except OSError: pass\n"
     "assert held > 0\n",
     0, 0, MT_ENDS(FAILED), "AssertionError"},

    // ---------------------------------------------------------------- reaching out
    {"links out of /tmp",
     "import os\n"
     "reached = 0\n"
     "roots = ['/proc/1/root', '/proc/self/root', '/proc/1/cwd', '/proc/self/cwd/../..', '/proc/%d/root' % "
     "PARENT]\n"
     "os.chdir('/tmp')\n"
     "for n, target in enumerate([CANARY] + [r + CANARY for r in roots] + ['../' * 20 + CANARY]):\n"
     "    os.symlink(target, 'link%d' % n)\n"
     "    for mode in ('r', 'a'):\n"
     "        try: open('link%d' % n, mode).close(); reached += os.path.dirname(CANARY) != '/tmp' or mode == "
     "'r'\n"
     "        except OSError: pass\n"
     "    try: os.link(target, 'hard%d' % n); reached += 1\n"
     "    except OSError: pass\n"
     "os.symlink('/usr', 'system')\n"
     "try: open('system/new', 'w'); reached += 1\n"
     "except OSError: pass\n"
     "assert reached > 0\n",
     0, 0, MT_ENDS(FAILED), "AssertionError"},
    {"a handle on the other end of a socket",
     "import socket\n"
     "one, other = socket.socketpair()\n"
     "held = []\n"
     "for ask in (lambda: one.getsockopt(socket.SOL_SOCKET, 77),\n"
     "            lambda: one.setsockopt(socket.SOL_SOCKET, 76, 1)):\n"
     "    try: held.append(ask())\n"
     "    except OSError: pass\n"
     "assert held\n",
     0, 0, MT_ENDS(FAILED), "AssertionError"},

    // ---------------------------------------------------------------- other processes
    {"signals to everybody",
     "import os, signal\n"
     "for process in (1, os.getppid(), -1, 0):\n"
     "    try: os.kill(process, signal.SIGKILL)\n"
     "    except OSError: pass\n"
     "raise SystemExit(3)\n",
     0, 0, MT_ENDS(KILLED) | MT_ENDS(FAILED), NULL},
    {"process 1 of the sandbox",
     MT_PYTHON_CALLS
     "import resource, struct\n"
     "done = []\n"
     "for name in ('mem', 'maps', 'environ', 'stat', 'fd', 'root', 'task/1/mem', 'oom_score_adj'):\n"
     "    for place in ('/proc/1/', '/proc/self/../1/', '/proc/self/task/../../1/'):\n"
     "        for mode in (os.O_RDONLY, os.O_RDWR):\n"
     "            try: done.append(os.open(place + name, mode))\n"
     "            except OSError: pass\n"
     "limits = ctypes.create_string_buffer(struct.pack('QQ', 0, 0))\n"
     "for number in range(16):\n"
     "    if call((302, 261), 1, number, ctypes.addressof(limits), 0) == 0: done.append(number)\n"
     "assert done\n",
     0, 0, MT_ENDS(FAILED), "AssertionError"},

    // ---------------------------------------------------------------- the kernel

    // ---------------------------------------------------------------- cheating
    {"leaving early, hard", "import os\nos._exit(0)\nassert False\n", 0, 0, MT_ENDS(FAILED),
     "before its last line"},
    {"leaving early, by exec", "import os\nos.execv('/bin/true', ['true'])\n", 0, 0, MT_ENDS(FAILED),
     "before its last line"},
    {"an invented proof", "import os\nos.write(7, b'0' * 32)\nos._exit(0)\n", 0, 0, MT_ENDS(FAILED),
     "before its last line"},
    {"an end by signal", "import os\nos.abort()\n", 0, 0, MT_ENDS(KILLED), NULL},
    {"waiting for input", "input()\n", 0, 0, MT_ENDS(FAILED), "EOFError"},
};

static const struct mt_cheat cheats[] = {
    {"an object equal to everything", ANYTHING "def ENTRY(*a, **k): return Any()\n"},
    {"the function is such an object", ANYTHING "ENTRY = Any()\n"},
    {"values of Python's types equal to everything",
     "def equal(kind):\n"
     "    yes = lambda *a: True\n"
     "    return type('Any', (kind,), {n: yes for n in ('__eq__', '__lt__', '__le__', '__gt__', '__ge__', "
     "'__contains__')} | {\n"
     "        '__hash__': lambda s: 0, '__sub__': lambda s, o: kind(), '__rsub__': lambda s, o: kind(), "
     "'__ne__': lambda s, o: False})\n"
     "kinds = [equal(k) for k in (int, float, str, list, tuple, dict, set)]\n"
     "def ENTRY(*a, **k): return kinds[hash(str(a)) % 7]()\n"},
    {"a list of objects equal to everything",
     ANYTHING "def ENTRY(*a, **k): return [Any()] * 3, {Any(): Any()}, Any()\n"},
    {"an iterator of everything", "import itertools\n"
                                  "def ENTRY(*a, **k): return itertools.count()\n"},
    {"reading the proof out of the source", PROVE "prove()\n"
                                                  "def ENTRY(*a, **k): pass\n"},
    {"the same when called", PROVE "def ENTRY(*a, **k): prove()\n"},
    {"the same at exit", PROVE "import atexit\n"
                               "atexit.register(prove)\n"
                               "def ENTRY(*a, **k): sys.exit(0)\n"},
    {"the same from a thread", PROVE "import threading, time\n"
                                     "def later(): time.sleep(0.05); prove()\n"
                                     "threading.Thread(target=later, daemon=True).start()\n"
                                     "def ENTRY(*a, **k): time.sleep(3)\n"},
    {"the proof in co_consts",
     "import gc, os, re, sys, types\n"
     "def look(code, seen):\n"
     "    for const in code.co_consts:\n"
     "        if isinstance(const, types.CodeType): look(const, seen)\n"
     "        elif isinstance(const, bytes) and len(const) == 32: seen.append(const)\n"
     "def ENTRY(*a, **k):\n"
     "    seen, frame = [], sys._getframe()\n"
     "    while frame: look(frame.f_code, seen); frame = frame.f_back\n"
     "    for proof in seen[-1:]: os.write(7, proof)\n"
     "    os._exit(0)\n"},
    {"an excepthook", PROVE "sys.excepthook = lambda *a: prove()\n"
                            "def ENTRY(*a, **k): raise ValueError\n"},
    {"again without assertions",
     "import os, sys\n"
     "if __debug__: os.execv(sys.executable, [sys.executable, '-O', '-s', '-B', '/program.py'])\n"
     "def ENTRY(*a, **k): pass\n"},
    {"PYTHONOPTIMIZE", "import os, sys\n"
                       "if not sys.flags.optimize:\n"
                       "    os.environ['PYTHONOPTIMIZE'] = '2'\n"
                       "    os.execv(sys.executable, [sys.executable, '-s', '-B', '/program.py'])\n"
                       "def ENTRY(*a, **k): pass\n"},
    {"jumping over assertions",
     "import sys\n"
     "def trace(frame, event, arg):\n"
     "    if frame.f_code.co_name != 'check': return None\n"
     "    frame.f_trace = trace\n"
     "    if event == 'line':\n"
     "        try: frame.f_lineno = max(line for _, _, line in frame.f_code.co_lines() if line)\n"
     "        except ValueError: pass\n"
     "    return trace\n"
     "sys.settrace(trace)\n"
     "def ENTRY(*a, **k): pass\n"},
    {"another body for check",
     "import gc, sys\n"
     "def empty(*a): pass\n"
     "def ENTRY(*a, **k):\n"
     "    for f in gc.get_objects():\n"
     "        if getattr(f, '__name__', '') == 'check' and hasattr(f, '__code__'): f.__code__ = "
     "empty.__code__\n"
     "    import os, threading\n"
     "    frame = sys._getframe()\n"
     "    while frame:\n"
     "        for v in list(frame.f_globals.values()):\n"
     "            if getattr(v, '__name__', '') in ('check', 'judge'): v.__code__ = empty.__code__\n"
     "        frame = frame.f_back\n"
     "    raise StopIteration\n"},
    {"a tracer that replaces check",
     "import sys\n"
     "def empty(*a): pass\n"
     "def trace(frame, event, arg):\n"
     "    f = frame.f_globals.get('check')\n"
     "    if getattr(f, '__code__', None) is not None: f.__code__ = empty.__code__\n"
     "sys.setprofile(trace)\n"
     "def ENTRY(*a, **k): pass\n"},
    {"other builtins",
     "import builtins, math\n"
     "for name in ('abs', 'len', 'sum', 'max', 'min', 'round'): setattr(builtins, name, lambda *a, **k: 0)\n"
     "for name in ('all', 'any', 'isinstance', 'bool', 'sorted', 'set', 'tuple', 'list'): setattr(builtins, "
     "name, lambda *a, **k: True)\n"
     "for name in ('fabs', 'isclose', 'floor'): setattr(math, name, lambda *a, **k: 0)\n"
     "builtins.AssertionError = Exception\n" ANYTHING "def ENTRY(*a, **k): return Any()\n"},
    {"names the tests use", "def abs(*a): return 0\n"
                            "def all(*a): return True\n"
                            "def len(*a): return 0\n"
                            "def check(*a): pass\n"
                            "def judge(*a): pass\n"
                            "candidate = check\n" ANYTHING "def ENTRY(*a, **k): return Any()\n"},
    {"the expected value in the caller's frame",
     "import sys, ast\n"
     "def ENTRY(*a, **k):\n"
     "    frame = sys._getframe(1)\n"
     "    source = ''\n"
     "    try:\n"
     "        source = open(frame.f_code.co_filename).read().split('\\n')[frame.f_lineno - 1]\n"
     "        return eval(source.split('==')[1])\n"
     "    except Exception: return source\n"},
    {"the caller's variables",
     "import sys\n"
     "def ENTRY(*a, **k):\n"
     "    frame = sys._getframe()\n"
     "    while frame:\n"
     "        for name, value in frame.f_locals.items():\n"
     "            if name in ('expected', 'result', 'answer', 'want'): return value\n"
     "        frame = frame.f_back\n"},
    {"other processes' memory",
     "import os, re\n"
     "def ENTRY(*a, **k):\n"
     "    for process in os.listdir('/proc'):\n"
     "        if not process.isdigit() or int(process) == os.getpid(): continue\n"
     "        try: text = open('/proc/%s/mem' % process, 'rb').read(1 << 20) + "
     "open('/proc/%s/root/program.py' % process, 'rb').read()\n"
     "        except OSError: continue\n"
     "        for proof in re.findall(rb\"[0-9a-f]{32}\", text): os.write(7, proof)\n"
     "    for name in os.listdir('/proc/self/fd'):\n"
     "        try: os.write(int(name), b\"passed\")\n"
     "        except OSError: pass\n"},
    {"replies that are no data",
     "import os\n"
     "lines = [b'[\"value\", [\"callback\", 0], []]', b'[\"value\", [\"function\", \"eval\"], []]', "
     "b'[\"callback\", 0, [], []]', b'{}', b'[]', b'null',\n"
     "         b'[\"value\", [\"type\", \"eval\"], []]', b'[\"value\", [\"list\", [[\"ref\", 0]]], []]', "
     "b'[\"error\", [\"SystemExit\"], \"0\"]', b'[' * 100000]\n"
     "n = 0\n"
     "def ENTRY(*a, **k):\n"
     "    global n\n"
     "    n += 1\n"
     "    os.write(8, lines[n % len(lines)] + b'\\n')\n"
     "    return None\n"},
    {"a false encoder", "import sys\n"
                        "def ENTRY(*a, **k):\n"
                        "    frame = sys._getframe()\n"
                        "    while frame:\n"
                        "        me = frame.f_locals.get('self')\n"
                        "        if hasattr(me, 'coder'): me.coder.encode = lambda v, k: [\"iterator\", 0]\n"
                        "        frame = frame.f_back\n"},
    {"the channel closed", "import os\n"
                           "def ENTRY(*a, **k):\n"
                           "    for d in range(3, 128):\n"
                           "        try: os.close(d)\n"
                           "        except OSError: pass\n"
                           "    os._exit(0)\n"},
    {"everybody killed", "import os\n"
                         "def ENTRY(*a, **k): os.kill(-1, 9)\n"},
    {"arguments made to fit", "def ENTRY(*a, **k):\n"
                              "    for v in a:\n"
                              "        if hasattr(v, 'clear'): v.clear()\n"
                              "    return a[0] if a else None\n"},
    {"errors that are none", "class Fine(AssertionError):\n"
                             "    def __str__(self): raise SystemExit(0)\n"
                             "    def __eq__(self, other): return True\n"
                             "def ENTRY(*a, **k): raise Fine()\n"},
    {"not a number", "def ENTRY(*a, **k): return float(\"nan\")\n"},
    {"modules for the tests", "import os, sys\n"
                              "for name in ('math', 'copy', 'random', 'typing', 'ast', 'json'):\n"
                              "    open('/tmp/%s.py' % name, 'w').write('import os\\nos._exit(0)\\n')\n"
                              "os.chdir('/tmp')\n"
                              "sys.path.insert(0, '/tmp')\n"
                              "def ENTRY(*a, **k): return None\n"},
    {"a debugger's hook",
     "import os, signal, sys\n"
     "sys.addaudithook(lambda *a: None)\n"
     "sys.unraisablehook = lambda *a: os._exit(0)\n"
     "for s in (signal.SIGABRT, signal.SIGTERM, signal.SIGALRM): signal.signal(s, lambda *a: os._exit(0))\n"
     "signal.setitimer(signal.ITIMER_REAL, 0.2, 0.1)\n"
     "def ENTRY(*a, **k): os.abort()\n"},
};

const struct mt_hostile_case *hostile_programs(size_t *count)
{
    *count = sizeof cases / sizeof cases[0];
    return cases;
}

const struct mt_cheat *hostile_cheats(size_t *count)
{
    *count = sizeof cheats / sizeof cheats[0];
    return cheats;
}
