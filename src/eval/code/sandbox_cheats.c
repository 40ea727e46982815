/*
 * Answers that solve nothing and want to pass: by objects equal to everything, by the tests' own code and
 * secrets, by ending well in time, by what they tell the judge. ENTRY stands for the function under test.
 *
 * None of them knows a test's arguments beforehand: that a function can be written for them alone is a
 * property of every benchmark whose tests are known, and no cheat in this sense.
 */
#include "eval/code/sandbox_hostile.h"

#include <string.h>

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
    {"mock.ANY", "from unittest import mock\n"
                 "def ENTRY(*a, **k): return mock.ANY\n"},
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
    {"the same from a child",
     "import os, re\n"
     "if os.fork() == 0:\n"
     "    text = open('/program.py', 'rb').read()\n"
     "    for proof in re.findall(rb\"b'([0-9a-f]{32})'\", text)[-1:]: os.write(7, proof)\n"
     "    os._exit(0)\n"
     "os.wait()\n"
     "os._exit(0)\n"
     "def ENTRY(*a, **k): pass\n"},
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
    {"forged replies", "import os\n"
                       "for i in range(2000):\n"
                       "    try: os.write(8, b'[\"value\", true, []]\\n[\"value\", [\"object\", 1], "
                       "[]]\\n[\"ready\"]\\n[\"value\", [\"ref\", 0], []]\\n')\n"
                       "    except OSError: break\n"
                       "def ENTRY(*a, **k): return True\n"},
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
    {"SystemExit", "def ENTRY(*a, **k): raise SystemExit(0)\n"},
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

const struct mt_cheat *mt_cheats(size_t *count)
{
    *count = sizeof cheats / sizeof cheats[0];
    return cheats;
}

enum mt_status mt_cheat_answer(const struct mt_cheat *cheat, const char *entry, struct mt_byte_list *text)
{
    static const char name[] = "ENTRY";
    enum mt_status status = MT_OK;
    for (const char *at = cheat->program; *at != '\0' && status == MT_OK;) {
        const char *next = strstr(at, name);
        size_t plain = next != NULL ? (size_t)(next - at) : strlen(at);
        status = mt_byte_list_append(text, at, plain);
        at += plain;
        if (next == NULL || status != MT_OK) continue;
        status = mt_byte_list_append_text(text, entry);
        at += sizeof name - 1;
    }
    return status;
}

#define TEXT(words)                                                                                          \
    {                                                                                                        \
        .text = (words), .bytes = sizeof(words) - 1                                                          \
    }

struct mt_code_trial mt_cheat_trial(const struct mt_byte_list *answer)
{
    return (struct mt_code_trial){
        .part = {[MT_TRIAL_ANSWER] = mt_text_in(answer),
                 [MT_TRIAL_GIVEN] = TEXT("import math\n"
                                         "def twice(x): return 2 * x\n"),
                 [MT_TRIAL_TESTS] = TEXT("def check(candidate):\n"
                                         "    result = [2, 4]\n"
                                         "    assert candidate(1) == 2\n"
                                         "    assert candidate([1, 2]) == [1, 2, 1, 2]\n"
                                         "    assert abs(candidate(0.5) - 1) < 1e-9\n"
                                         "    assert math.fabs(candidate(2.5) - twice(2.5)) < 1e-9\n"
                                         "    assert candidate('a') == 'aa' and len(candidate([1])) == 2\n"
                                         "    assert 7 in candidate((7, 8)) and not candidate([])\n"
                                         "check(candidate)\n"),
                 [MT_TRIAL_CALLS] = TEXT("candidate=twice")}};
}
