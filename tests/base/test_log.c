/* The log: levels, the shape of a line, and lines that stay whole under threads. */
#include <omp.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "support/cmocka_all.h"

struct capture {
    FILE *stream;
    char *text;
    size_t bytes;
    struct mt_log log;
};

static void capture_open(struct capture *c, enum mt_log_level level)
{
    c->text = NULL;
    c->bytes = 0;
    c->stream = open_memstream(&c->text, &c->bytes);
    assert_non_null(c->stream);
    mt_log_init(&c->log, c->stream, level);
    assert_false(c->log.terminal);
}

static void capture_close(struct capture *c)
{
    assert_int_equal(fclose(c->stream), 0);
    free(c->text);
}

static void all_levels(const struct mt_log *log)
{
    mt_log_error(log, "e%d", 1);
    mt_log_warning(log, "w%d", 2);
    mt_log_info(log, "i%d", 3);
    mt_log_debug(log, "d%d", 4);
}

static void levels(void **state)
{
    (void)state;
    static const char *const expected[] = {
        "metier: error: e1\n",
        "metier: error: e1\nmetier: warning: w2\n",
        "metier: error: e1\nmetier: warning: w2\nmetier: i3\n",
        "metier: error: e1\nmetier: warning: w2\nmetier: i3\nmetier: debug: d4\n",
    };
    for (int level = MT_LOG_ERROR; level <= MT_LOG_DEBUG; level++) {
        struct capture c;
        capture_open(&c, (enum mt_log_level)level);
        all_levels(&c.log);
        assert_string_equal(c.text, expected[level]);
        capture_close(&c);
    }
}

static void silent_logs(void **state)
{
    (void)state;
    struct mt_log log;
    mt_log_init(&log, NULL, MT_LOG_DEBUG);
    assert_false(mt_log_enabled(&log, MT_LOG_ERROR));
    all_levels(&log);
    all_levels(NULL);
}

static void a_message_is_one_line(void **state)
{
    (void)state;
    struct capture c;
    capture_open(&c, MT_LOG_INFO);
    mt_log_info(&c.log, "a\nb\tc\033[31md\r\n\n");
    mt_log_info(&c.log, "%s", "");
    mt_log_info(&c.log, "größer");
    mt_log_info(&c.log, "\xC2\x9B"
                        "2J \xE2\x80\xAE \xFF"); // a C1 control, a mark of direction, no UTF-8
    assert_string_equal(c.text, "metier: a?b?c?[31md?\nmetier: \nmetier: größer\nmetier: ??2J ??? ?\n");
    capture_close(&c);
}

static void a_long_message_is_cut_visibly(void **state)
{
    (void)state;
    struct capture c;
    char text[6000];
    memset(text, 'x', sizeof text - 1);
    text[sizeof text - 1] = '\0';
    capture_open(&c, MT_LOG_INFO);
    mt_log_error(&c.log, "%s", text);
    assert_true(c.bytes > 1000 && c.bytes < 3000);
    assert_string_equal(c.text + c.bytes - 5, "x...\n");
    capture_close(&c);
}

static void a_terminal_line_is_wiped_first(void **state)
{
    (void)state;
    struct capture c;
    capture_open(&c, MT_LOG_INFO);
    c.log.terminal = true;
    mt_log_info(&c.log, "x");
    assert_string_equal(c.text, "\r\033[Kmetier: x\n");
    capture_close(&c);
}

static void threads_do_not_mix_lines(void **state)
{
    (void)state;
    struct capture c;
    capture_open(&c, MT_LOG_INFO);
#pragma omp parallel for num_threads(4)
    for (int i = 0; i < 400; i++) mt_log_info(&c.log, "line %d of four hundred", i);
    int lines = 0;
    const char *rest = c.text;
    while (*rest != '\0') {
        static const char before[] = "metier: line ";
        static const char after[] = " of four hundred\n";
        char *end = NULL;
        assert_memory_equal(rest, before, sizeof before - 1);
        long number = strtol(rest + sizeof before - 1, &end, 10);
        assert_true(number >= 0 && number < 400);
        assert_memory_equal(end, after, sizeof after - 1);
        rest = end + sizeof after - 1;
        lines++;
    }
    assert_int_equal(lines, 400);
    capture_close(&c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(levels),
        cmocka_unit_test(silent_logs),
        cmocka_unit_test(a_message_is_one_line),
        cmocka_unit_test(a_long_message_is_cut_visibly),
        cmocka_unit_test(a_terminal_line_is_wiped_first),
        cmocka_unit_test(threads_do_not_mix_lines),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
