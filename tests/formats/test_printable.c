/* Text for messages: control characters, and cuts at character boundaries. */
#include <stdlib.h>
#include <string.h>

#include "formats/printable.h"
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
    assert_string_equal(mt_printable("\xc2").text, "\xc2");
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
        cmocka_unit_test(long_texts_are_cut),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
