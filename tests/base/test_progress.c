/* Progress: plain lines off a terminal; on a pseudo-terminal the redrawn line, at any width. */
#define _XOPEN_SOURCE 700 // posix_openpt

#include <fcntl.h>
#include <locale.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <unistd.h>

#include "base/amount.h"
#include "base/columns.h"
#include "base/progress.h"
#include "support/cmocka_all.h"

static double fake_clock(void *self)
{
    return *(double *)self;
}

// ------------------------------------------------------------------ off a terminal

static void plain_lines(void **state)
{
    (void)state;
    double now = 100.0;
    char *text = NULL;
    size_t bytes = 0;
    FILE *stream = open_memstream(&text, &bytes);
    struct mt_progress progress;
    mt_progress_start(&progress, &(struct mt_progress_options){.stream = stream,
                                                               .label = "training",
                                                               .unit = "step",
                                                               .total = 100,
                                                               .line_seconds = 5.0,
                                                               .clock = fake_clock,
                                                               .clock_self = &now});
    for (int64_t done = 1; done <= 12; done++) {
        now += 1.0;
        mt_progress_note(&progress, "loss %.2f", 3.0 - 0.1 * (double)done);
        mt_progress_update(&progress, done);
    }
    mt_progress_finish(&progress);
    mt_progress_finish(&progress);
    assert_string_equal(text, "training: 5/100 (5%), 1.00 step/s, 1:35 left, loss 2.50\n"
                              "training: 10/100 (10%), 1.00 step/s, 1:30 left, loss 2.00\n"
                              "training: 12/100 (12%), 1.00 step/s, in 0:12, loss 1.80\n");
    assert_int_equal(fclose(stream), 0);
    free(text);
}

static void unknown_total_and_resumed_runs(void **state)
{
    (void)state;
    double now = 0.0;
    char *text = NULL;
    size_t bytes = 0;
    FILE *stream = open_memstream(&text, &bytes);
    struct mt_progress progress;
    mt_progress_start(
        &progress, &(struct mt_progress_options){.stream = stream, .clock = fake_clock, .clock_self = &now});
    mt_progress_update(&progress, 3);
    now = 11.0;
    mt_progress_update(&progress, 220000);
    mt_progress_finish(&progress);
    // 1000 items were there before: they count in no rate.
    mt_progress_start(&progress, &(struct mt_progress_options){.stream = stream,
                                                               .label = "resumed",
                                                               .total = 2000,
                                                               .done = 1000,
                                                               .clock = fake_clock,
                                                               .clock_self = &now});
    now = 31.0;
    mt_progress_update(&progress, 1001);
    now = 3 * 24 * 3600.0;
    mt_progress_update(&progress, 2000);
    mt_progress_finish(&progress);
    assert_string_equal(text, "220000, 20.0k/s, 0:11\n"
                              "220000, 20.0k/s, in 0:11\n"
                              "resumed: 1001/2000 (50%), 20.0 s each, 5:33:00 left\n"
                              "resumed: 2000/2000 (100%), 259.4 s each, 0:00 left\n"
                              "resumed: 2000/2000 (100%), 259.2 s each, in 2d 23h\n");
    assert_int_equal(fclose(stream), 0);
    free(text);
}

/* A step is one item and many tokens: the rate shown is not that of items, the time left is. */
static void another_rate_and_lines_that_stay(void **state)
{
    (void)state;
    double now = 0.0;
    char *text = NULL;
    size_t bytes = 0;
    FILE *stream = open_memstream(&text, &bytes);
    struct mt_progress progress;
    mt_progress_start(&progress, &(struct mt_progress_options){.stream = stream,
                                                               .label = "training",
                                                               .unit = "tok",
                                                               .total = 100,
                                                               .line_seconds = 1.0,
                                                               .clock = fake_clock,
                                                               .clock_self = &now});
    now = 2.0;
    mt_progress_rate(&progress, 4096.0);
    mt_progress_update(&progress, 4);
    mt_progress_line(&progress, "step 4: a\tline");
    mt_progress_finish(&progress);
    mt_progress_line(&progress, "after the end");
    assert_string_equal(text, "training: 4/100 (4%), 4.10k tok/s, 0:48 left\n"
                              "step 4: a?line\n"
                              "training: 4/100 (4%), 4.10k tok/s, in 0:02\n"
                              "after the end\n");
    assert_int_equal(fclose(stream), 0);
    free(text);
}

/* A total is what was expected: more items make it more, and who knows better says so. */
static void totals_that_were_estimates(void **state)
{
    (void)state;
    double now = 0.0;
    char *text = NULL;
    size_t bytes = 0;
    FILE *stream = open_memstream(&text, &bytes);
    struct mt_progress progress;
    mt_progress_start(
        &progress,
        &(struct mt_progress_options){
            .stream = stream, .total = 100, .line_seconds = 1.0, .clock = fake_clock, .clock_self = &now});
    now = 2.0;
    mt_progress_update(&progress, 80);
    now = 4.0;
    mt_progress_update(&progress, 160);
    mt_progress_total(&progress, 400);
    now = 6.0;
    mt_progress_update(&progress, 200);
    mt_progress_total(&progress, 200);
    mt_progress_finish(&progress);
    assert_string_equal(text, "80/100 (80%), 40.0/s, 0:01 left\n"
                              "160/160 (100%), 40.0/s, 0:00 left\n"
                              "200/400 (50%), 36.4/s, 0:05 left\n"
                              "200/200 (100%), 33.3/s, in 0:06\n");
    assert_int_equal(fclose(stream), 0);
    free(text);
}

/* What fails before its first item leaves no line of progress; what had been done before still counts. */
static void nothing_done(void **state)
{
    (void)state;
    char *text = NULL;
    size_t bytes = 0;
    FILE *stream = open_memstream(&text, &bytes);
    struct mt_progress progress;
    mt_progress_start(&progress, &(struct mt_progress_options){.stream = stream, .total = 9, .done = 4});
    mt_progress_update(&progress, 4);
    mt_progress_finish(&progress);
    assert_int_equal(fflush(stream), 0);
    assert_int_equal(bytes, 0);
    mt_progress_start(&progress, &(struct mt_progress_options){.stream = stream, .total = 4, .done = 4});
    mt_progress_finish(&progress);
    assert_int_equal(fclose(stream), 0);
    assert_string_equal(text, "4/4 (100%), in 0:00\n");
    free(text);
}

static void no_stream_shows_nothing(void **state)
{
    (void)state;
    struct mt_progress progress;
    mt_progress_start(&progress, &(struct mt_progress_options){.label = "x", .total = 3});
    mt_progress_update(&progress, 1);
    mt_progress_note(&progress, "y");
    mt_progress_finish(&progress);
    assert_int_equal(progress.done, 1);
}

// ------------------------------------------------------------------ on a terminal

struct terminal {
    int controller;
    FILE *stream; // the program's side
    double now;
    struct mt_progress progress;
    char output[65536]; // everything read so far
    size_t bytes;
};

static void set_width(struct terminal *t, int columns)
{
    struct winsize size = {.ws_row = 24, .ws_col = (unsigned short)columns};
    assert_int_equal(ioctl(t->controller, TIOCSWINSZ, &size), 0);
}

static void terminal_open(struct terminal *t, int columns)
{
    memset(t, 0, sizeof *t);
    t->controller = posix_openpt(O_RDWR | O_NOCTTY);
    if (t->controller < 0) skip(); // a container without /dev/pts; cmocka reports it as skipped
    assert_int_equal(grantpt(t->controller), 0);
    assert_int_equal(unlockpt(t->controller), 0);
    t->stream = fopen(ptsname(t->controller), "w");
    assert_non_null(t->stream);
    struct termios settings;
    assert_int_equal(tcgetattr(fileno(t->stream), &settings), 0);
    settings.c_oflag &= ~(tcflag_t)OPOST; // newlines arrive as written
    assert_int_equal(tcsetattr(fileno(t->stream), TCSANOW, &settings), 0);
    assert_int_equal(fcntl(t->controller, F_SETFL, O_NONBLOCK), 0);
    set_width(t, columns);
}

/* Everything written since the last call, as text. */
static const char *terminal_read(struct terminal *t)
{
    size_t start = t->bytes;
    ssize_t count = 1;
    while (count > 0) {
        count = read(t->controller, t->output + t->bytes, sizeof t->output - 1 - t->bytes);
        if (count > 0) t->bytes += (size_t)count;
    }
    t->output[t->bytes] = '\0';
    return t->output + start;
}

static void terminal_close(struct terminal *t)
{
    (void)fclose(t->stream);
    (void)close(t->controller);
}

static void start(struct terminal *t, const char *label, int64_t total)
{
    mt_progress_start(&t->progress, &(struct mt_progress_options){.stream = t->stream,
                                                                  .label = label,
                                                                  .unit = "tok",
                                                                  .total = total,
                                                                  .clock = fake_clock,
                                                                  .clock_self = &t->now});
}

static void redrawn_line(void **state)
{
    (void)state;
    assert_non_null(setlocale(LC_CTYPE, "C"));
    static struct terminal t;
    terminal_open(&t, 100);
    start(&t, "training", 1000);
    assert_string_equal(terminal_read(&t), "\rtraining    0%  [................................]  0/1000"
                                           "  --:-- left\033[K");
    t.now = 10.0;
    mt_progress_note(&t.progress, "loss %.2f", 2.5);
    mt_progress_update(&t.progress, 500);
    assert_string_equal(terminal_read(&t), "\rtraining   50%  [################................]  500/1000"
                                           "  50.0 tok/s  0:10 left  loss 2.50\033[K");
    t.now = 10.05;
    mt_progress_update(&t.progress, 502); // too soon to redraw
    assert_string_equal(terminal_read(&t), "");
    t.now = 20.0;
    mt_progress_update(&t.progress, 1000);
    (void)terminal_read(&t);
    mt_progress_finish(&t.progress);
    assert_string_equal(terminal_read(&t), "\rtraining  100%  [################################]  1000/1000"
                                           "  50.0 tok/s  in 0:20  loss 2.50\033[K\n");
    terminal_close(&t);
}

/* Others write to the terminal: the line makes way, and comes again at once. */
static void a_line_that_makes_way(void **state)
{
    (void)state;
    assert_non_null(setlocale(LC_CTYPE, "C"));
    static struct terminal t;
    terminal_open(&t, 60);
    start(&t, "a", 10);
    (void)terminal_read(&t);
    mt_progress_hide(&t.progress);
    assert_string_equal(terminal_read(&t), "\r\033[K");
    mt_progress_rate(&t.progress, 0.0); // told that there is none: that of items is not shown
    t.now = 0.01;
    mt_progress_update(&t.progress, 5);
    assert_string_equal(terminal_read(&t),
                        "\ra   50%  [###############................]  5/10  0:00 left\033[K");
    mt_progress_finish(&t.progress);
    (void)terminal_read(&t);
    mt_progress_hide(&t.progress); // what has ended stays
    assert_string_equal(terminal_read(&t), "");
    // Lines only, where somebody writes who says nothing.
    mt_progress_start(
        &t.progress,
        &(struct mt_progress_options){
            .stream = t.stream, .total = 2, .lines = true, .clock = fake_clock, .clock_self = &t.now});
    mt_progress_hide(&t.progress);
    t.now += 20.0;
    mt_progress_update(&t.progress, 2);
    assert_string_equal(terminal_read(&t), "2/2 (100%), 0.10/s, 0:00 left\n");
    terminal_close(&t);
}

static void block_characters(void **state)
{
    (void)state;
    if (setlocale(LC_CTYPE, "C.UTF-8") == NULL) skip();
    static struct terminal t;
    terminal_open(&t, 51);
    start(&t, "größe", 16);
    (void)terminal_read(&t);
    t.now = 1.0;
    mt_progress_update(&t.progress, 1);
    assert_string_equal(terminal_read(&t), "\rgröße    6%  ▕▍     ▏  1/16  1.00 tok/s  0:15 left\033[K");
    terminal_close(&t);
}

/* Columns between \r and the escape; also checks that the characters are whole. */
static int shown_columns(const char *output, bool utf8)
{
    char line[1024];
    char copy[1024];
    assert_int_equal(output[0], '\r');
    const char *end = strchr(output, '\033');
    assert_non_null(end);
    size_t bytes = (size_t)(end - output) - 1;
    assert_true(bytes < sizeof line);
    memcpy(line, output + 1, bytes);
    line[bytes] = '\0';
    int columns = mt_columns_copy(copy, sizeof copy, line, 1000, utf8);
    assert_string_equal(copy, line);
    return columns;
}

static void never_wider_than_the_terminal(void **state)
{
    (void)state;
    static const char *const locales[] = {"C", "C.UTF-8"};
    for (int l = 0; l < 2; l++) {
        if (setlocale(LC_CTYPE, locales[l]) == NULL) skip();
        for (int total = 0; total <= 1000; total += 1000) {
            static struct terminal t;
            terminal_open(&t, 80);
            start(&t, "Überprüfung 検証", total);
            (void)terminal_read(&t);
            for (int width = 1; width <= 140; width++) {
                set_width(&t, width);
                t.now += 1.0;
                mt_progress_note(&t.progress, "损失 2.31 · 速度 é́ 🚀");
                mt_progress_update(&t.progress, width * 7);
                assert_true(shown_columns(terminal_read(&t), l == 1) < width);
            }
            mt_progress_finish(&t.progress);
            assert_true(shown_columns(terminal_read(&t), l == 1) < 140);
            terminal_close(&t);
        }
    }
}

static void narrow_terminals_keep_what_matters(void **state)
{
    (void)state;
    assert_non_null(setlocale(LC_CTYPE, "C"));
    static struct terminal t;
    terminal_open(&t, 80);
    start(&t, "train", 1000);
    t.now = 10.0;
    mt_progress_update(&t.progress, 500);
    (void)terminal_read(&t);
    static const struct {
        int width;
        const char *line;
    } expected[] = {
        {66, "\rtrain   50%  [###...]  500/1000  50.0 tok/s  0:10 left  loss 2.50\033[K"},
        {60, "\rtrain   50%  [###...]  500/1000  50.0 tok/s  0:10 left  los\033[K"},
        {50, "\rtrain   50%  [###...]  500/1000  0:10 left\033[K"},
        {40, "\rtrain   50%  [###...]  0:10 left\033[K"},
        {30, "\rtrain   50%  0:10 left\033[K"},
        {20, "\rtrain   50%\033[K"},
        {10, "\r 50%\033[K"},
        {4, "\r 50\033[K"},
    };
    mt_progress_note(&t.progress, "loss 2.50");
    for (size_t i = 0; i < sizeof expected / sizeof expected[0]; i++) {
        set_width(&t, expected[i].width);
        t.now += 0.2;
        mt_progress_update(&t.progress, 500);
        assert_string_equal(terminal_read(&t), expected[i].line);
    }
    terminal_close(&t);
}

static void a_dumb_terminal_gets_plain_lines(void **state)
{
    (void)state;
    static struct terminal t;
    terminal_open(&t, 80);
    assert_int_equal(setenv("TERM", "dumb", 1), 0);
    start(&t, "train", 10);
    mt_progress_update(&t.progress, 10);
    t.now = 4.0;
    mt_progress_finish(&t.progress);
    assert_string_equal(terminal_read(&t), "train: 10/10 (100%), 2.50 tok/s, in 0:04\n");
    assert_int_equal(setenv("TERM", "xterm", 1), 0);
    terminal_close(&t);
}

// ------------------------------------------------------------------ counts

static void counts_with_their_words(void **state)
{
    (void)state;
    assert_string_equal(mt_counted(0, "answer", "answers").text, "0 answers");
    assert_string_equal(mt_counted(1, "answer", "answers").text, "1 answer");
    assert_string_equal(mt_counted(2, "row is", "rows are").text, "2 rows are");
    assert_string_equal(mt_counted(UINT64_MAX, "a", "b").text, "18446744073709551615 b");
}

// ------------------------------------------------------------------ columns

static void columns_of_text(void **state)
{
    (void)state;
    char copy[64];
    assert_int_equal(mt_columns_copy(copy, sizeof copy, "abc", 10, true), 3);
    assert_int_equal(mt_columns_copy(copy, sizeof copy, "é", 10, true), 1);
    assert_int_equal(mt_columns_copy(copy, sizeof copy, "e\xCC\x81", 10, true), 1); // e, combining accent
    assert_int_equal(mt_columns_copy(copy, sizeof copy, "検証", 10, true), 4);
    assert_int_equal(mt_columns_copy(copy, sizeof copy, "検証", 3, true), 2); // no half characters
    assert_string_equal(copy, "検");
    assert_int_equal(mt_columns_copy(copy, 4, "ab検", 10, true), 2); // nor half byte sequences
    assert_string_equal(copy, "ab");
    assert_int_equal(mt_columns_copy(copy, sizeof copy, "a\tb\x7F\033", 10, true), 5);
    assert_string_equal(copy, "a?b??");
    assert_int_equal(mt_columns_copy(copy, sizeof copy, "é", 10, false), 1);
    assert_string_equal(copy, "?");
    // Malformed: a lone continuation, an overlong slash, a surrogate, a cut sequence, a byte past UTF-8.
    (void)mt_columns_copy(copy, sizeof copy, "\x80|\xC0\xAF|\xED\xA0\x80|\xE6\xA4|\xFF", 40, true);
    assert_string_equal(copy, "?|??|???|??|?");
    assert_int_equal(mt_columns_copy(copy, sizeof copy, "\xC2\x9B", 10, true), 1); // a control of the C1 set
    assert_string_equal(copy, "?");
    assert_int_equal(mt_columns_copy(copy, 0, "a", 10, true), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(plain_lines),
        cmocka_unit_test(unknown_total_and_resumed_runs),
        cmocka_unit_test(another_rate_and_lines_that_stay),
        cmocka_unit_test(totals_that_were_estimates),
        cmocka_unit_test(nothing_done),
        cmocka_unit_test(no_stream_shows_nothing),
        cmocka_unit_test(redrawn_line),
        cmocka_unit_test(a_line_that_makes_way),
        cmocka_unit_test(block_characters),
        cmocka_unit_test(never_wider_than_the_terminal),
        cmocka_unit_test(narrow_terminals_keep_what_matters),
        cmocka_unit_test(a_dumb_terminal_gets_plain_lines),
        cmocka_unit_test(counts_with_their_words),
        cmocka_unit_test(columns_of_text),
    };
    if (setenv("TERM", "xterm", 1) != 0) return 1;
    return cmocka_run_group_tests(tests, NULL, NULL);
}
