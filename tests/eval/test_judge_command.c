/*
 * Judges that are programs, good ones and hostile ones: what they say in time and in order counts, and
 * nothing they do makes an answer wrong, hangs or fills the memory.
 */
#include <errno.h>
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "eval/judges/judge_command.h"
#include "support/cmocka_all.h"
#include "support/every_allocation.h"
#include "support/workplace.h"

#define ROWS 3

struct heard {
    struct mt_code_verdict verdicts[ROWS];
    char problem[MT_COMMAND_PROBLEM_BYTES];
};

static enum mt_status judge(struct mt_context *ctx, const char *script, double seconds, struct mt_text rows,
                            struct heard *heard)
{
    const char *const arguments[] = {"sh", "-c", script, NULL};
    const struct mt_judge_command command = {.arguments = arguments, .seconds = seconds};
    memset(heard, 0, sizeof *heard);
    return mt_judge_command_run(ctx, &command, rows, ROWS, heard->verdicts, heard->problem);
}

static const char three_rows[] = "{\"id\": \"0\"}\n{\"id\": \"1\"}\n{\"id\": \"2\"}\n";

/* A script, the scores it gives (negative: none) and what is said of it. */
struct script {
    const char *text;
    double scores[ROWS];
    const char *problem; // a part of the sentence; "": there is none
};

static const struct script scripts[] = {
    {"while read row; do echo '{\"score\": 1}'; done", {1, 1, 1}, ""},
    {"cat >/dev/null; for score in 0 0.25 1; do echo \"{\\\"score\\\": $score, \\\"reason\\\": \\\"r\\\"}\"; "
     "done",
     {0, 0.25, 1},
     ""},
    // By what is in the row.
    {"while read row; do case $row in *'\"1\"'*) echo '{\"score\": 1}' ;; *) echo '{\"score\": 0}' ;; esac; "
     "done",
     {0, 1, 0},
     ""},
    // Ends early, well or not, or in the middle of a line.
    {"read row; echo '{\"score\": 1}'", {1, -1, -1}, "ended with status 0 after 1 of 3 verdicts"},
    {"read row; echo '{\"score\": 1}'; echo 'no module' >&2; exit 3",
     {1, -1, -1},
     "status 3 after 1 of 3 verdicts: no module"},
    {"read row; echo '{\"score\": 1}'; kill -9 $$", {1, -1, -1}, "ended by signal 9 after 1 of 3"},
    {"read row; echo '{\"score\": 1}'; printf '{\"score\": 1'", {1, -1, -1}, "after 1 of 3 verdicts"},
    {"while read row; do echo '{\"score\": 1}'; done; exit 1", {1, 1, 1}, "ended with status 1"},
    {"exit 0", {-1, -1, -1}, "after 0 of 3"},
    {"kill -9 $$", {-1, -1, -1}, "signal 9"},
    // Never reads.
    {"exec 0<&-; for i in 1 2 3; do echo '{\"score\": 1}'; done", {1, 1, 1}, ""},
    // Lines that are no verdict count for their row alone.
    {"echo nonsense; echo '{\"score\": 1}'; echo '{\"score\": 2}'", {-1, 1, -1}, "wrote no verdict: line 1"},
    {"echo '{}'; echo; echo '[1]'", {-1, -1, -1}, "score"},
    {"echo '{\"score\": \"1\"}'; echo '{\"score\": NaN}'; echo '{\"score\": -0.5}'", {-1, -1, -1}, "score"},
    {"echo '{\"score\": 1, \"reason\": [1]}'; echo '{\"score\": 1}{\"score\": 1}'; echo 1",
     {-1, -1, -1},
     "reason"},
    {"printf '{\"score\": 1}\\n\\0\\n\\377\\n'", {1, -1, -1}, "line 2"},
    // More than was asked for: whose the verdicts are is not known.
    {"for i in 1 2 3 4; do echo '{\"score\": 1}'; done", {-1, -1, -1}, "more verdicts than there are rows"},
    {"yes '{\"score\": 1}'", {-1, -1, -1}, "more verdicts than there are rows"},
    {"echo '{\"score\": 1}'; yes | tr -d '\\n'", {1, -1, -1}, "a line of more than 64 KiB"},
    {"yes error >&2 & while read row; do echo '{\"score\": 1}'; done; kill $!", {1, 1, 1}, ""},
};

static void test_scripts(void **state)
{
    (void)state;
    struct mt_context ctx;
    mt_context_init(&ctx, NULL);
    for (size_t i = 0; i < sizeof scripts / sizeof scripts[0]; i++) {
        struct heard heard;
        assert_int_equal(judge(&ctx, scripts[i].text, 600, mt_text_of(three_rows), &heard), MT_OK);
        bool good = (strstr(heard.problem, scripts[i].problem) != NULL) == true &&
                    (scripts[i].problem[0] != '\0') == (heard.problem[0] != '\0');
        for (int k = 0; k < ROWS; k++) {
            double score = heard.verdicts[k].score;
            good = good && (scripts[i].scores[k] < 0 ? isnan(score) : score == scripts[i].scores[k]);
            good = good && heard.verdicts[k].passed == (score == 1.0);
            good = good && (!isnan(score) || heard.verdicts[k].why[0] != '\0');
        }
        if (!good) print_message("%s\n%s\n", scripts[i].text, heard.problem);
        assert_true(good);
    }
    assert_int_equal(ctx.live_bytes, 0);
}

/* Rows that no pipe holds, for one that reads nothing and says nothing, and for one that takes them all. */
static void test_much(void **state)
{
    (void)state;
    enum { BYTES = 4 << 20 };
    struct mt_context ctx;
    struct heard heard;
    char *rows = malloc(BYTES);
    assert_non_null(rows);
    memset(rows, ' ', BYTES);
    for (int i = 1; i <= ROWS; i++) rows[BYTES / ROWS * i - 1] = '\n';
    const struct mt_text text = {.text = rows, .bytes = BYTES / ROWS * ROWS};
    mt_context_init(&ctx, NULL);
    assert_int_equal(judge(&ctx, "exec sleep 100000", 0.2, text, &heard), MT_OK);
    assert_non_null(strstr(heard.problem, "took too long: 0 of 3"));
    assert_true(isnan(heard.verdicts[0].score));
    // Says something, and nothing more.
    assert_int_equal(judge(&ctx, "echo '{\"score\": 1}'; sleep 100000", 2, text, &heard), MT_OK);
    assert_non_null(strstr(heard.problem, "took too long"));
    assert_true(heard.verdicts[0].passed && isnan(heard.verdicts[1].score));
    assert_int_equal(
        judge(&ctx, "[ $(wc -c) -gt 4000000 ] && yes '{\"score\": 1}' | head -n 3", 600, text, &heard),
        MT_OK);
    assert_string_equal(heard.problem, "");
    assert_true(heard.verdicts[2].passed);
    // Closes its output and stays.
    assert_int_equal(judge(&ctx, "exec 1>&-; exec sleep 100000", 0.2, text, &heard), MT_OK);
    assert_true(heard.problem[0] != '\0' && isnan(heard.verdicts[0].score));
    assert_int_equal(ctx.live_bytes, 0);
    free(rows);
}

/* What it started ends with it, though it keeps the pipes open. */
static void test_left_behind(void **state)
{
    const struct workplace *place = *state;
    struct mt_context ctx;
    struct heard heard;
    char script[512];
    char path[256];
    char digits[32] = "";
    mt_context_init(&ctx, NULL);
    (void)snprintf(script, sizeof script,
                   "sleep 100000 & echo $! > %s; for i in 1 2 3; do echo '{\"score\": 1}'; done",
                   workplace_path(place, "pid", path, sizeof path));
    assert_int_equal(judge(&ctx, script, 2, mt_text_of(three_rows), &heard), MT_OK);
    assert_true(heard.verdicts[2].passed);
    FILE *file = fopen(path, "r");
    assert_non_null(file);
    assert_non_null(fgets(digits, sizeof digits, file));
    (void)fclose(file);
    const pid_t pid = (pid_t)strtol(digits, NULL, 10);
    assert_true(pid > 0);
    // A killed orphan is gone once somebody has waited for it.
    for (int i = 0; i < 1000000 && kill(pid, 0) == 0; i++) {
        char status[64];
        char letter = 'Z';
        (void)snprintf(status, sizeof status, "/proc/%d/stat", (int)pid);
        FILE *stat = fopen(status, "r");
        if (stat != NULL) {
            if (fscanf(stat, "%*d (sleep) %c", &letter) != 1) letter = 'Z';
            (void)fclose(stat);
        }
        if (letter == 'Z') return;
    }
    assert_int_equal(kill(pid, 0), -1);
}

/* An emulator's posix_spawn learns of a program that is not there from its child's status alone. */
static bool tells_of_nobody(const char *problem)
{
    return strstr(problem, "cannot be started: No such file") != NULL ||
           strstr(problem, "ended with status 127") != NULL;
}

static void test_nobody(void **state)
{
    (void)state;
    struct mt_context ctx;
    struct heard heard = {0};
    const char *const arguments[] = {"/nowhere/judge", NULL};
    struct mt_judge_command command = mt_judge_command_for(arguments, NULL);
    mt_context_init(&ctx, NULL);
    assert_int_equal(
        mt_judge_command_run(&ctx, &command, mt_text_of(three_rows), ROWS, heard.verdicts, heard.problem),
        MT_OK);
    assert_true(tells_of_nobody(heard.problem));
    assert_true(isnan(heard.verdicts[ROWS - 1].score));
    // In the folder it is told.
    const char *const here[] = {"sh", "-c", "[ $PWD = / ]", NULL};
    command = mt_judge_command_for(here, "/");
    assert_int_equal(mt_judge_command_run(&ctx, &command, mt_text_of(""), 0, NULL, heard.problem), MT_OK);
    assert_string_equal(heard.problem, "");
    command.folder = "/nowhere";
    assert_int_equal(mt_judge_command_run(&ctx, &command, mt_text_of(""), 0, NULL, heard.problem), MT_OK);
    assert_true(heard.problem[0] != '\0');
}

static enum mt_status judge_once(struct mt_context *ctx, const void *self)
{
    struct heard heard;
    return judge(ctx, self, 600, mt_text_of(three_rows), &heard);
}

static void test_memory(void **state)
{
    (void)state;
    assert_every_allocation_may_fail(judge_once, "yes '{\"score\": 1}' | head -n 3", 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_scripts),
        cmocka_unit_test(test_much),
        cmocka_unit_test(test_nobody),
        cmocka_unit_test(test_memory),
        cmocka_unit_test_setup_teardown(test_left_behind, workplace_open, workplace_close),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
