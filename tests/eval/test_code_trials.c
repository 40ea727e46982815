/*
 * Answers and their tests in two interpreters: what passes between them, what a test may do with an answer,
 * whose names count; every allocation failing. Skipped, with the reason, where there can be no sandbox.
 * Tests src/eval/code/code_judge.c.
 */
#include <stdio.h>
#include <string.h>

#include "eval/code/code_judge.h"
#include "support/cmocka_all.h"
#include "support/every_allocation.h"
#include "support/sandbox_bench.h"

#define MOST_CASES 64

struct trial_case {
    const char *name;
    const char *part[MT_TRIAL_PARTS]; // NULL: nothing
    bool passes;
};

static struct mt_code_trial trial_of(const struct trial_case *one)
{
    struct mt_code_trial trial = {0};
    for (int i = 0; i < MT_TRIAL_PARTS; i++) {
        const char *text = one->part[i] != NULL ? one->part[i] : "";
        trial.part[i] = (struct mt_text){.text = text, .bytes = strlen(text)};
    }
    return trial;
}

struct heard {
    const struct trial_case *cases;
    size_t count;
    int wrong;
};

static enum mt_status hear(void *self, size_t trial, const struct mt_sandbox_result *result)
{
    struct heard *heard = self;
    heard->count++;
    if ((result->outcome == MT_SANDBOX_PASSED) == heard->cases[trial].passes) return MT_OK;
    heard->wrong++;
    print_error("%s: %s\n%s\n", heard->cases[trial].name, mt_sandbox_outcome_name(result->outcome),
                result->tail);
    return MT_OK;
}

static void run_cases(const struct trial_case *cases, size_t count)
{
    struct mt_context ctx;
    struct mt_code_trial trials[MOST_CASES];
    assert_true(count <= MOST_CASES);
    mt_context_init(&ctx, NULL);
    for (size_t i = 0; i < count; i++) trials[i] = trial_of(&cases[i]);
    const struct mt_sandbox_judge judge = {.ctx = &ctx, .options = sandbox_patient_options()};
    struct heard heard = {.cases = cases};
    const struct mt_trial_listener listener = {.self = &heard, .heard = hear};
    assert_int_equal(mt_code_trials_run(&judge, trials, count, &listener), MT_OK);
    assert_int_equal(heard.count, count);
    assert_int_equal(heard.wrong, 0);
    assert_int_equal(ctx.live_bytes, 0);
}

#define SAME "def f(x): return x\n"

// ------------------------------------------------------------------ values

static const struct trial_case values[] = {
    {"plain values come back as they went",
     {SAME, NULL,
      "for v in (None, True, False, 0, -1, 2**53, -2**53, 2**200, -2**200, 10**5000, 1.5, 1e308, "
      "float('inf'),\n"
      "          '', 'text', 'a\\udc80\\u2028\\x00', b'', b'\\x00\\xff', (), (1, (2, 'x')), frozenset({1, "
      "2}), 1-2j,\n"
      "          range(3, 9, 2), int, type(None), Ellipsis):\n"
      "    assert f(v) == v and type(f(v)) is type(v), v\n"
      "import math\n"
      "assert math.isnan(f(math.nan)) and math.copysign(1, f(-0.0)) == -1\n"
      "assert f(None) is None and f(True) is True\n"},
     true},
    {"containers come back equal, and of the same type",
     {"def f(x): return type(x)(x) if not hasattr(x, 'default_factory') else x.copy()\n", NULL,
      "from collections import Counter, OrderedDict, defaultdict, deque\n"
      "d = defaultdict(None, {1: 2})\n"
      "for v in ([], [1, [2]], {}, {1: 'a', (2, 3): [4], None: {}}, set(), {1, 'x'}, bytearray(b'ab'),\n"
      "          deque([1, 2]), Counter('aab'), OrderedDict([(2, 1), (1, 2)]), d):\n"
      "    assert f(v) == v and type(f(v)) is type(v) and f(v) is not v, v\n"
      "assert list(f({3: 1, 1: 2, 2: 3})) == [3, 1, 2]\n"},
     true},
    {"values of other modules",
     {SAME, NULL,
      "import datetime\nfrom decimal import Decimal\nfrom fractions import Fraction\n"
      "for v in (Decimal('1.10'), Fraction(1, 3), datetime.date(2020, 2, 29), datetime.time(1, 2, 3),\n"
      "          datetime.datetime(2020, 1, 2, 3, 4, 5, 6), datetime.timedelta(-1, 5, 7)):\n"
      "    assert f(v) == v and type(f(v)) is type(v), v\n"},
     true},
    {"subclasses become what they are made of",
     {"from collections import namedtuple\nimport enum\n"
      "class I(int): __eq__ = lambda s, o: False; __hash__ = int.__hash__\n"
      "class L(list): __len__ = lambda s: 99\n"
      "class E(enum.IntEnum): A = 3\n"
      "P = namedtuple('P', 'x y')\n"
      "def f(): return [I(5), L([1]), E.A, P(1, 2), {I(7): I(8)}]\n",
      NULL, "assert f() == [5, [1], 3, (1, 2), {7: 8}] and len(f()[1]) == 1 and type(f()[0]) is int\n"},
     true},
    {"views, ranges and iterators",
     {"def f(d): return d.keys(), d.values(), d.items()\n"
      "def g():\n    n = 0\n    while True: yield n; n += 1\n"
      "def h(n): return map(str, range(n)), zip('ab', [1, 2]), reversed([1, 2])\n",
      NULL,
      "k, v, i = f({1: 2, 3: 4})\n"
      "assert k == {1, 3} and list(v) == [2, 4] and set(i) == {(1, 2), (3, 4)} and 1 in k\n"
      "n = g()\nassert [next(n), next(n), next(n)] == [0, 1, 2]\n"
      "assert [list(x) for x in h(2)] == [['0', '1'], [('a', 1), ('b', 2)], [2, 1]]\n"},
     true},
    {"an object equals itself alone",
     {"class A:\n    __eq__ = lambda s, o: True\n    __hash__ = lambda s: 0\n"
      "a = A()\ndef f(x): return a\ndef g(): return A()\n",
      NULL,
      "assert f(1) == f(2) and f(1) is f(2) and f(1) != g() and g() != g()\n"
      "for v in (None, 0, '', [], {}, object()): assert f(1) != v and v != f(1) and not (v == f(1))\n"
      "for broken in (lambda: f(1) + 1, lambda: len(f(1)), lambda: f(1) < 1, lambda: 1 in f(1), lambda: "
      "f(1)[0],\n"
      "               lambda: abs(f(1)), lambda: list(f(1))):\n"
      "    try: broken()\n"
      "    except TypeError: continue\n"
      "    raise ValueError\n"},
     true},
    {"nothing is in an endless iterator",
     {"import itertools\ndef f(): return itertools.count()\n", NULL, "assert 5 in f()\n"},
     false},
    {"a value within itself",
     {"x = []\nx.append(x)\ndef f(): return x\n", NULL, "assert f()[0][0] is not None\n"},
     true},
    {"a value too deep",
     {"def f():\n    x = []\n    for i in range(100000): x = [x]\n    return x\n", NULL, "f()\n"},
     false},
};

static void test_values(void **state)
{
    (void)state;
    run_cases(values, sizeof values / sizeof values[0]);
}

// ------------------------------------------------------------------ what tests do

static const struct trial_case uses[] = {
    {"arguments changed in place",
     {"def f(a, d=None, s=()):\n    a.sort()\n    a.append([9])\n    if d is not None: d['x'] = a\n    "
      "return None\n"
      "def g(grid): grid[0][0] = 5; return grid\n"
      "def same(x): return x\n",
      NULL,
      "a, d = [3, 1, 2], {}\nassert f(a) is None and a == [1, 2, 3, [9]]\n"
      "f(a[:3], d=d)\nassert d == {'x': [1, 2, 3, [9]]}\n"
      "grid = [[0] * 2 for _ in range(2)]\nrow = grid[0]\nassert g(grid) is grid and row == [5, 0]\n"
      "row = [0]\nassert g([row, row]) == [[5], [5]]\nassert same(row) is row\n"},
     true},
    {"functions as arguments",
     {"def f(g, x): return [g(v) for v in x]\n"
      "def safe(g):\n    try: g()\n    except KeyError as e: return 'caught'\n",
      NULL,
      "assert f(lambda v: v * 2, [1, 2]) == [2, 4] and f(len, ['ab']) == [2] and f(str, [1]) == ['1']\n"
      "def bad(): raise KeyError('x')\nassert safe(bad) == 'caught'\n"
      "assert f(lambda v: f(abs, [v])[0], [-1]) == [1]\n"},
     true},
    {"functions as results", {"def f(n): return lambda x: x + n\n", NULL, "assert f(3)(4) == 7\n"}, true},
    {"classes of the answer's",
     {"class Node:\n    def __init__(self, v): self.v = v; self.left = None\n    def total(self):\n"
      "        return self.v + (self.left.total() if self.left else 0)\n"
      "def f(node): return node.left.v\n",
      NULL,
      "root = Node(1)\nroot.left = Node(5)\nassert f(root) == 5 and root.left.v == 5 and root.total() == 6\n"
      "assert root.left is root.left\n"},
     true},
    {"errors",
     {"class Mine(ValueError): pass\n"
      "def f(x):\n    if x == 1: raise Mine('one')\n    if x == 2: return {}[3]\n    if x == 3: raise "
      "SystemExit(0)\n"
      "    raise type('SystemExit', (Exception,), {})()\n",
      NULL,
      "for x, kind in ((1, ValueError), (2, KeyError), (3, Exception), (4, Exception)):\n"
      "    try: f(x)\n"
      "    except kind as e: assert x != 1 or str(e) == 'one'\n"
      "    else: raise TypeError\n"},
     true},
    {"arguments by name",
     {"def f(a, *b, c=1, **d): return a, b, c, d\n", NULL,
      "assert f(1, 2, c=3, e=4) == (1, (2,), 3, {'e': 4})\n"},
     true},
    {"imports of the tests are the answer's, too",
     {"def f(x): return math.floor(x)\n", NULL, "import math\nassert f(2.5) == 2\n"},
     true},
    {"a deep recursion",
     {"def f(n): return 0 if n == 0 else 1 + f(n - 1)\n", NULL, "assert f(900) == 900\n"},
     true},
    {"an answer and its module",
     {"import sys\nfrom dataclasses import dataclass\n@dataclass\nclass P:\n    x: int\n"
      "def f(): return __name__, sys.modules['__main__'].f is f, P(3).x\n"
      "if __name__ == '__main__': print(f())\n",
      NULL, "assert f() == ('answer', True, 3)\n"},
     true},
};

static void test_uses(void **state)
{
    (void)state;
    run_cases(uses, sizeof uses / sizeof uses[0]);
}

// ------------------------------------------------------------------ whose names

static const struct trial_case names[] = {
    {"what an answer does as a program of its own is not run",
     {SAME "if __name__ == '__main__':\n    print(f(int(input())))\n", NULL, "assert f(1) == 1\n"},
     true},
    {"classes of an answer know their module",
     {"from dataclasses import dataclass\nimport pickle\n@dataclass\nclass P:\n    x: int\n"
      "def f(x): return pickle.loads(pickle.dumps(P(x))).x\n",
      NULL, "assert f(1) == 1\n"},
     true},
    {"the answer's function, under another name",
     {SAME, "def f(x): return 0\n", "assert candidate(1) == 1 and f(1) == 0\n", "candidate=f"},
     true},
    {"helpers are the task's, whatever the answer says",
     {"def helper(x): return 0\ndef f(x): return 5\n", "def helper(x): return x\ndef f(x): return x\n",
      "assert helper(candidate(3)) == 0\n", "candidate=f"},
     false},
    {"a function named like one of Python's",
     {"def sum(a, b): return a * b\n", "def sum(a, b): return a * b\n", "assert sum(2, 3) == 6\n"},
     true},
    {"Python's own functions are not the answer's",
     {"def abs(x): return 0\ndef f(x): return 7\n", "def f(x): return x\n", "assert abs(f(1) - 1) == 0\n"},
     false},
    {"modules of the task's",
     {SAME, "import sys\ndef f(x): return x\n", "assert f(sys.maxsize) == sys.maxsize\n"},
     true},
    {"a function the task's solution assigns",
     {"g = lambda x: x\nf = g\n", "f = lambda x: x\n", "assert f(2) == 2\n"},
     true},
    {"what the task's solution holds beside functions",
     {"TABLE = [0]\ndef f(x): return 2 * x\n",
      "from collections import *\nimport math as m\nTABLE = [1, 2]\nfor i in range(3): last = i\ndef f(x): "
      "return 2 * x\n",
      "assert f(TABLE[1]) == 4 and m.floor(2.5) == last and Counter('a') == {'a': 1}\n"},
     true},
    {"without a solution, what nobody defines", {SAME, NULL, "x = 3\nassert f(x) == 3\n"}, true},
    {"a function the answer has not", {"def g(x): return x\n", NULL, "assert f(1) == 1\n"}, false},
    {"no program", {NULL, NULL, "assert True\n"}, false},
    {"not Python", {"def f(:\n", NULL, "pass\n"}, false},
    {"not even a text", {"def f(): return '\xff'\n", NULL, "pass\n"}, false},
    {"an answer that exits at once",
     {"def f(x): return x\nraise SystemExit(0)\n", NULL, "assert f(1) == 1\n"},
     false},
    {"an answer that ends well without being called", {"import os\nos._exit(0)\n", NULL, "pass\n"}, false},
    {"bytes of every kind in the texts",
     {"def f(): return \"\\\\'\" + '\xc3\xa4\t'\n", NULL, "assert f() == \"\\\\'\xc3\xa4\t\"\n"},
     true},
};

static void test_names(void **state)
{
    (void)state;
    run_cases(names, sizeof names / sizeof names[0]);
}

/* The program that breaks a limit gives the pair its outcome. */
static enum mt_status keep_result(void *self, size_t trial, const struct mt_sandbox_result *result)
{
    struct mt_sandbox_result *results = self;
    results[trial] = *result;
    return MT_OK;
}

static void test_limits(void **state)
{
    (void)state;
    static const struct trial_case cases[] = {
        {.part = {"def f(): x = bytearray(1 << 28); return len(x)\n", NULL, "f()\n"}},
        {.part = {"import os\ndef f(): os.close(8)\n", NULL, "f()\n"}},
        {.part = {"def f():\n    while True: print('x' * 4096)\n", NULL, "f()\n"}},
        {.part = {"def f(): return 'x' * (100 << 20)\n", NULL, "assert f() == 1\n"}},
        {.part = {"import os\ndef f(): os.kill(os.getpid(), 11)\n", NULL, "f()\n"}},
    };
    struct mt_context ctx;
    struct mt_code_trial trials[5];
    struct mt_sandbox_result results[5];
    mt_context_init(&ctx, NULL);
    for (size_t i = 0; i < 5; i++) trials[i] = trial_of(&cases[i]);
    struct mt_sandbox_judge judge = {.ctx = &ctx, .options = sandbox_patient_options()};
    judge.options.memory = 192 << 20;
    const struct mt_trial_listener listener = {.self = results, .heard = keep_result};
    assert_int_equal(mt_code_trials_run(&judge, trials, 5, &listener), MT_OK);
    assert_int_equal(results[0].outcome, MT_SANDBOX_OUT_OF_MEMORY);
    assert_int_not_equal(results[1].outcome, MT_SANDBOX_PASSED);
    assert_int_equal(results[2].outcome, MT_SANDBOX_TOO_MUCH_OUTPUT);
    assert_int_not_equal(results[3].outcome, MT_SANDBOX_PASSED);
    assert_int_equal(results[4].outcome, MT_SANDBOX_KILLED);
    assert_int_equal(results[4].exit_status, 128 + 11);
}

/* What is recorded of an answer that does not pass. */
static void test_reasons(void **state)
{
    (void)state;
    static const struct {
        const char *answer, *tests, *why;
    } reasons[] = {
        {SAME, "assert f(1) == 1\nassert f(2) == 3\nassert f(3) == 4\n",
         "AssertionError in: assert f(2) == 3"},
        {SAME, "assert f(1) == 2, 'text'\n", "AssertionError: text in: assert f(1) == 2, 'text'"},
        {"def f(x): raise KeyError(x)\n", "assert f(1) == 1\n", "KeyError: '1' in: assert f(1) == 1"},
        {"def f(x) return x\n", "assert f(1) == 1\n", "SyntaxError: "},
        {"def g(x): return x\n", "assert f(1) == 1\n",
         "NameError: name 'f' is not defined in: assert f(1) == 1"},
        {"def f(x): return len(bytearray(x))\n", "assert f(1 << 40) == 1\n",
         "out of memory: 1024 MiB are allowed"},
        {"", "assert f(1) == 1\n", "no program in the answer"},
        {"raise SystemExit(7)\n", "assert f(1) == 1\n", "failed: exit status 7"},
        {SAME, "assert f(1) == 1\n", ""},
    };
    enum { COUNT = sizeof reasons / sizeof reasons[0] };
    struct mt_context ctx;
    struct mt_code_trial trials[COUNT] = {0};
    struct mt_code_verdict verdicts[COUNT];
    mt_context_init(&ctx, NULL);
    for (size_t i = 0; i < COUNT; i++) {
        trials[i].part[MT_TRIAL_ANSWER] = mt_text_of(reasons[i].answer);
        trials[i].part[MT_TRIAL_TESTS] = mt_text_of(reasons[i].tests);
    }
    struct mt_sandbox_judge sandbox = {.ctx = &ctx, .options = sandbox_patient_options()};
    const struct mt_code_judge judge = mt_sandbox_code_judge(&sandbox);
    assert_int_equal(judge.run(judge.self, trials, COUNT, verdicts), MT_OK);
    for (size_t i = 0; i < COUNT; i++) {
        size_t length = strlen(reasons[i].why);
        bool same =
            length == 0 ? verdicts[i].why[0] == '\0' : strncmp(verdicts[i].why, reasons[i].why, length) == 0;
        if (!same) print_error("wanted '%s', got '%s'\n", reasons[i].why, verdicts[i].why);
        assert_true(same);
        assert_int_equal(verdicts[i].passed, length == 0);
    }
}

/* The program that takes too long, in wall time or in processor time, gives the pair its outcome. */
static void test_time(void **state)
{
    (void)state;
    static const struct trial_case one = {.part = {"def f():\n    while True: pass\n", NULL, "f()\n"}};
    struct mt_context ctx;
    struct mt_code_verdict verdict;
    mt_context_init(&ctx, NULL);
    const struct mt_code_trial trial = trial_of(&one);
    for (int i = 0; i < 2; i++) {
        struct mt_sandbox_judge sandbox = {.ctx = &ctx, .options = sandbox_patient_options()};
        if (i == 0) sandbox.options.seconds = 1;
        if (i == 1) sandbox.options.cpu_seconds = 1;
        const struct mt_code_judge judge = mt_sandbox_code_judge(&sandbox);
        assert_int_equal(judge.run(judge.self, &trial, 1, &verdict), MT_OK);
        assert_false(verdict.passed);
        assert_int_equal(strncmp(verdict.why, "timed out after ", 16), 0);
    }
}

/* However quick an answer is, what it holds when its tests have passed is counted. */
static void test_last_look(void **state)
{
    (void)state;
    static const struct trial_case one = {
        .part = {"import os, time\n"
                 "def f():\n"
                 "    read, write = os.pipe()\n"
                 "    for i in range(4):\n"
                 "        if os.fork() == 0:\n"
                 "            hoard = bytearray(8 << 20); os.write(write, b'x'); time.sleep(1000)\n"
                 "    for i in range(4): os.read(read, 1)\n",
                 NULL, "f()\n"}};
    struct mt_context ctx;
    struct mt_sandbox_result result;
    mt_context_init(&ctx, NULL);
    struct mt_sandbox_judge judge = {.ctx = &ctx, .options = sandbox_patient_options()};
    judge.options.memory = 48 << 20;
    const struct mt_code_trial trial = trial_of(&one);
    const struct mt_trial_listener listener = {.self = &result, .heard = keep_result};
    for (int i = 0; i < 5; i++) {
        assert_int_equal(mt_code_trials_run(&judge, &trial, 1, &listener), MT_OK);
        assert_int_equal(result.outcome, MT_SANDBOX_OUT_OF_MEMORY);
    }
}

static enum mt_status build(struct mt_context *ctx, const void *self)
{
    const struct mt_code_trial trial = trial_of(self);
    struct mt_byte_list program = {.ctx = ctx};
    struct mt_byte_list judge = {.ctx = ctx};
    enum mt_status status = mt_code_trial_program(&trial, &program);
    if (status == MT_OK) status = mt_code_trial_judge(&trial, &judge);
    mt_byte_list_free(&program);
    mt_byte_list_free(&judge);
    return status;
}

static void test_every_allocation_failing(void **state)
{
    (void)state;
    assert_every_allocation_may_fail(build, &names[0], 4);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_values),    cmocka_unit_test(test_uses),
        cmocka_unit_test(test_names),     cmocka_unit_test(test_limits),
        cmocka_unit_test(test_reasons),   cmocka_unit_test(test_time),
        cmocka_unit_test(test_last_look), cmocka_unit_test(test_every_allocation_failing),
    };
    struct mt_context ctx;
    mt_context_init(&ctx, NULL);
    mt_sandbox_adopt_orphans();
    const struct mt_sandbox_judge judge = {.ctx = &ctx, .options = sandbox_patient_options()};
    if (mt_sandbox_judge_check(&judge) == MT_ERR_UNSUPPORTED) {
        (void)printf("skipped: %s\n", ctx.message);
        return 77;
    }
    return cmocka_run_group_tests(tests, NULL, NULL);
}
