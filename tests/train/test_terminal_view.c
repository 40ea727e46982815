/* What a person sees of a run: the table in a pipe, the live line on a pseudo-terminal, the summary. */
#define _XOPEN_SOURCE 700 // posix_openpt

#include "train/log/terminal_view.h"

#include <fcntl.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <unistd.h>

#include "support/cmocka_all.h"

static struct mt_step_record make_step(uint64_t step)
{
    struct mt_step_record record = {.step = step,
                                    .steps = 60,
                                    .epoch = (double)step / 20.0,
                                    .learning_rate = 1e-4,
                                    .loss = 2.5 - 0.01 * (double)step,
                                    .task = 2.25,
                                    .gradient_norm = 0.75,
                                    .max_violation = 0.8125,
                                    .max_violation_running = 0.5,
                                    .load_entropy = 1.25,
                                    .effective_experts = NAN, // looked at in every second step
                                    .experts_90 = NAN,
                                    .slots = 4,
                                    .tokens_total = 1000 * step,
                                    .seconds = 2.0 * (double)step,
                                    .tokens_per_second = 12300.0};
    if (step % 2 == 0) {
        record.effective_experts = 3.0 - 0.03125 * (double)step;
        record.experts_90 = 0.75;
    }
    for (int term = 0; term < MT_TERM_COUNT; term++) {
        bool on = term == MT_TERM_AUX || term == MT_TERM_V;
        record.term[term] = on ? (term == MT_TERM_V ? -0.00125 : 1.0625) : NAN;
        record.weighted[term] = record.term[term];
    }
    return record;
}

static const struct mt_run_work nothing = {.steps = 0};

static int count_of(const char *text, const char *part)
{
    int count = 0;
    for (const char *at = strstr(text, part); at != NULL; at = strstr(at + 1, part)) count++;
    return count;
}

static void a_table_in_a_pipe(void **state)
{
    (void)state;
    char *text = NULL;
    size_t bytes = 0;
    FILE *stream = open_memstream(&text, &bytes);
    struct mt_terminal_view view;
    mt_terminal_view_start(&view, stream, "training x", 60, &nothing);
    for (uint64_t step = 1; step <= 50; step++) {
        struct mt_step_record record = make_step(step);
        mt_terminal_view_step(&view, &record);
        if (step % 2 == 0) mt_terminal_view_row(&view, &record);
    }
    const struct mt_evaluation_record evaluation = {.step = 50,
                                                    .loss = 2.0,
                                                    .perplexity = exp(2.0),
                                                    .answer_tokens = 12345,
                                                    .best = true,
                                                    .seconds = 61.0};
    mt_terminal_view_evaluation(&view, &evaluation);
    mt_terminal_view_event(&view, 50, "stopped", "by a signal");
    mt_terminal_view_finish(&view, "RUN/metrics.jsonl", "RUN/tensorboard",
                            "one expert works where 4 are paid for");
    assert_int_equal(fclose(stream), 0);
    static const char header[] =
        "    step   epoch        lr         L       L_h          aux            v  gradient "
        "  MaxVio  experts     tok/s      left\n";
    static const char row[] =
        "       2    0.10  1.00e-04    2.4800    2.2500        1.062     -0.00125      0.75 "
        "   0.812     2.94     12.3k      1:56\n";
    assert_int_equal(strncmp(text, "training x\n", 11), 0);
    assert_int_equal(strncmp(text + 11, header, sizeof header - 1), 0);
    if (strncmp(text + 11 + sizeof header - 1, row, sizeof row - 1) != 0) fail_msg("%s", text);
    assert_int_equal(count_of(text, header), 2); // of 25 rows the first and the twenty-first
    static const char end[] =
        "step 50: held-out loss 2.0000, perplexity 7.389, 12.3k tokens in 1:01, the best so far\n"
        "step 50: stopped: by a signal\n"
        "\n"
        "steps 1 to 50 of 60, 50.0k tokens in 1:40, 500 tok/s\n"
        "  L                 2.490 -> 2.000\n"
        "  L_h               2.250 -> 2.250\n"
        "  aux               1.062 -> 1.062\n"
        "  v             -0.001250 -> -0.001250\n"
        "  MaxVio           0.8125 -> 0.8125\n"
        "  load entropy      1.250 -> 1.250\n"
        "  experts of 4      2.938 -> 1.438\n"
        "  serving 90 %     0.7500 -> 0.7500\n"
        "  one expert works where 4 are paid for\n"
        "  metrics      RUN/metrics.jsonl\n"
        "  tensorboard  RUN/tensorboard\n";
    assert_true(bytes > sizeof end);
    assert_string_equal(text + bytes - (sizeof end - 1), end);
    free(text);
}

static void quiet_and_empty_runs(void **state)
{
    (void)state;
    struct mt_terminal_view view;
    struct mt_step_record record = make_step(1);
    mt_terminal_view_start(&view, NULL, "x", 60, &nothing);
    mt_terminal_view_step(&view, &record);
    mt_terminal_view_row(&view, &record);
    mt_terminal_view_event(&view, 1, "warning", "y");
    mt_terminal_view_finish(&view, "m", NULL, NULL);
    assert_int_equal(view.seen, 1);
    // Without a step there is nothing to sum up.
    char *text = NULL;
    size_t bytes = 0;
    FILE *stream = open_memstream(&text, &bytes);
    mt_terminal_view_start(&view, stream, NULL, 60, &nothing);
    mt_terminal_view_finish(&view, "m", NULL, NULL);
    assert_int_equal(fclose(stream), 0);
    assert_int_equal(bytes, 0);
    free(text);
}

/* What a run of one step writes on a terminal of so many columns. */
static void run_on_terminal(int columns, char *output, size_t room)
{
    int controller = posix_openpt(O_RDWR | O_NOCTTY);
    if (controller < 0) skip(); // a container without /dev/pts
    assert_int_equal(grantpt(controller), 0);
    assert_int_equal(unlockpt(controller), 0);
    FILE *stream = fopen(ptsname(controller), "w");
    assert_non_null(stream);
    struct termios settings;
    assert_int_equal(tcgetattr(fileno(stream), &settings), 0);
    settings.c_oflag &= ~(tcflag_t)OPOST;
    assert_int_equal(tcsetattr(fileno(stream), TCSANOW, &settings), 0);
    assert_int_equal(fcntl(controller, F_SETFL, O_NONBLOCK), 0);
    struct winsize size = {.ws_row = 24, .ws_col = (unsigned short)columns};
    assert_int_equal(ioctl(controller, TIOCSWINSZ, &size), 0);
    struct mt_terminal_view view;
    struct mt_step_record record = make_step(30);
    const struct mt_run_work before = {.steps = 29, .tokens = 29000, .seconds = 58.0};
    mt_terminal_view_start(&view, stream, NULL, 60, &before);
    view.progress.drawn -= 1.0; // as if the step had taken a second
    mt_terminal_view_step(&view, &record);
    mt_terminal_view_row(&view, &record); // of no effect here
    mt_terminal_view_event(&view, 30, "checkpoint", "step-30");
    mt_terminal_view_finish(&view, "m", NULL, NULL);
    size_t bytes = 0;
    ssize_t count = 1;
    while (count > 0) {
        count = read(controller, output + bytes, room - 1 - bytes);
        if (count > 0) bytes += (size_t)count;
    }
    output[bytes] = '\0';
    (void)fclose(stream);
    (void)close(controller);
}

static void a_live_line_on_a_terminal(void **state)
{
    (void)state;
    char output[8192];
    assert_int_equal(setenv("TERM", "xterm", 1), 0);
    run_on_terminal(120, output, sizeof output);
    assert_non_null(strstr(output, "30/60  12.3k tok/s"));
    assert_non_null(
        strstr(output, "  L 2.20  MaxVio 0.812  aux 1.06  v -0.00125  experts 2.06/4  L_h 2.25\033[K"));
    // What stays wipes the live line, which comes again below it.
    assert_non_null(strstr(output, "\r\033[Kstep 30: checkpoint: step-30\n\r 50%"));
    assert_null(strstr(output, "epoch")); // no table
    assert_non_null(strstr(output, "\nthis part: steps 30 to 30 of 60, 1.00k tokens in 0:02, 500 tok/s\n"
                                   "the whole: 30 steps, 30.0k tokens in 1:00, 500 tok/s\n"));
    // Narrow: whole parts of the note, the first ones, and nothing half.
    run_on_terminal(80, output, sizeof output);
    assert_non_null(strstr(output, "  L 2.20  MaxVio 0.812  aux 1.06\033[K"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_table_in_a_pipe),
        cmocka_unit_test(quiet_and_empty_runs),
        cmocka_unit_test(a_live_line_on_a_terminal),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
