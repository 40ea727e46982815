/*
 * Answers that solve nothing and want to pass: by objects equal to everything, by the tests' own code and
 * secrets, by ending well in time, by what they tell the judge. ENTRY stands for the function under test. One
 * for each way; many more are with the tests.
 *
 * None of them knows a test's arguments beforehand: that a function can be written for them alone is a
 * property of every benchmark whose tests are known, and no cheat in this sense.
 */
#include "eval/code/sandbox_hostile.h"

#include <string.h>

static const struct mt_cheat cheats[] = {
    {"mock.ANY", "from unittest import mock\n"
                 "def ENTRY(*a, **k): return mock.ANY\n"},
    {"reading the proof from a child",
     "import os, re\n"
     "if os.fork() == 0:\n"
     "    text = open('/program.py', 'rb').read()\n"
     "    for proof in re.findall(rb\"b'([0-9a-f]{32})'\", text)[-1:]: os.write(7, proof)\n"
     "    os._exit(0)\n"
     "os.wait()\n"
     "os._exit(0)\n"
     "def ENTRY(*a, **k): pass\n"},
    {"forged replies", "import os\n"
                       "for i in range(2000):\n"
                       "    try: os.write(8, b'[\"value\", true, []]\\n[\"value\", [\"object\", 1], "
                       "[]]\\n[\"ready\"]\\n[\"value\", [\"ref\", 0], []]\\n')\n"
                       "    except OSError: break\n"
                       "def ENTRY(*a, **k): return True\n"},
    {"SystemExit", "def ENTRY(*a, **k): raise SystemExit(0)\n"},
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
