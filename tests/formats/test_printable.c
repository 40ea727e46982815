/* Text for messages and terminals: control characters, and cuts at character boundaries. */
#define _XOPEN_SOURCE 700
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <termios.h>
#include <unistd.h>

#include "formats/text/printable.h"
#include "support/cmocka_all.h"

static void controls_are_replaced(void **state)
{
    (void)state;
    assert_string_equal(mt_printable("model.a").text, "model.a");
    assert_string_equal(mt_printable("\x1b[31m\n\x7f").text, "?[31m??");
    assert_string_equal(mt_printable("\xc2\x9b"
                                     "31m")
                            .text,
                        "??31m");
    assert_string_equal(mt_printable("\xc3\xa9\xc2\xa0").text, "\xc3\xa9\xc2\xa0");
    assert_string_equal(mt_printable("").text, "");
    assert_string_equal(mt_printable_bytes("ab\0cd", 5).text, "ab?cd");
    assert_string_equal(mt_printable("\xc2").text, "?");
}

static void expect_lines(const char *text, const char *expected)
{
    char copy[64];
    (void)snprintf(copy, sizeof copy, "%s", text);
    mt_make_printable(copy, strlen(copy), true);
    assert_string_equal(copy, expected);
}

static void treacherous_characters_are_replaced(void **state)
{
    (void)state;
    expect_lines("one\n\ttwo\r\b\x1b]0;title\x07", "one\n\ttwo???]0;title?");
    expect_lines("\x9b"
                 "31m",
                 "?31m"); // the same sequence in one byte, for terminals that know no UTF-8
    expect_lines("a\xe2\x80\xae"
                 "b\xe2\x81\xa6"
                 "c\xd8\x9c",
                 "a???b???c??"); // marks of direction
    expect_lines("\xe2\x80\xa8|\xe2\x80\x93", "???|\xe2\x80\x93");
    expect_lines("\xc0\x9b \xe0\x82\x9b \xed\xa0\x80 \xf5\x80\x80\x80", "?? ??? ??? ????"); // no UTF-8
    expect_lines("\xf0\x9f\x98\x80 \xe4\xb8\x93", "\xf0\x9f\x98\x80 \xe4\xb8\x93");
}

/* What a terminal gets when a text is shown in two pieces. */
static void expect_shown(const char *text, size_t first, const char *expected)
{
    int master = posix_openpt(O_RDWR | O_NOCTTY);
    assert_true(master >= 0);
    assert_int_equal(grantpt(master), 0);
    assert_int_equal(unlockpt(master), 0);
    FILE *terminal = fopen(ptsname(master), "r+");
    assert_non_null(terminal);
    struct termios raw;
    assert_int_equal(tcgetattr(fileno(terminal), &raw), 0);
    raw.c_oflag &= ~(tcflag_t)OPOST;
    raw.c_lflag &= ~(tcflag_t)(ECHO | ICANON);
    assert_int_equal(tcsetattr(fileno(terminal), TCSANOW, &raw), 0);
    size_t shown = mt_show_text(terminal, text, first);
    shown += mt_show_text(terminal, text + shown, strlen(text) - shown);
    (void)fputc('.', terminal);
    (void)fflush(terminal);
    static char got[8192];
    size_t size = 0;
    while (size == 0 || got[size - 1] != '.') {
        ssize_t more = read(master, got + size, sizeof got - 1 - size);
        assert_true(more > 0);
        size += (size_t)more;
    }
    got[size - 1] = '\0';
    assert_string_equal(got, expected);
    (void)fclose(terminal);
    (void)close(master);
}

static void terminals_are_not_driven(void **state)
{
    (void)state;
    expect_shown("\xe4\xb8\x93\x1b[2J\n", 2, "\xe4\xb8\x93?[2J\n"); // a character in two pieces
    expect_shown("x\xe4\xe4", 2, "x?");                             // the last could still be continued
    char text[4000];
    for (size_t i = 0; i < sizeof text - 1; i++) text[i] = "\xe4\xb8\x93"[i % 3];
    text[sizeof text - 1] = '\0';
    expect_shown(text, 1000, text);
    // A file gets every byte.
    FILE *file = tmpfile();
    assert_non_null(file);
    assert_int_equal(mt_show_text(file, "\x1b[2J\xe4", 5), 5);
    assert_int_equal(ftell(file), 5);
    (void)fclose(file);
}

static void long_texts_are_cut(void **state)
{
    (void)state;
    static const char character[3] = {'\xe4', '\xb8', '\x93'};
    char text[1000];
    for (size_t shift = 0; shift < 3; shift++) {
        memset(text, 'x', shift);
        for (size_t i = shift; i < sizeof text; i++) text[i] = character[(i - shift) % 3];
        struct mt_printable printable = mt_printable_bytes(text, 900);
        size_t length = strlen(printable.text);
        assert_true(length < sizeof printable.text && length + 6 > sizeof printable.text);
        assert_string_equal(printable.text + length - 3, "...");
        assert_int_equal((length - 3 - shift) % 3, 0); // whole characters
    }
    memset(text, 'y', sizeof text);
    assert_int_equal(strlen(mt_printable_bytes(text, MT_PRINTABLE_BYTES - 1).text), MT_PRINTABLE_BYTES - 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(controls_are_replaced),
        cmocka_unit_test(treacherous_characters_are_replaced),
        cmocka_unit_test(terminals_are_not_driven),
        cmocka_unit_test(long_texts_are_cut),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
