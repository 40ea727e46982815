/* Bad rows by kind: what is one kind, counts, the first place, memory. */
#include "train/data/row_faults.h"

#include <string.h>

#include "support/cmocka_all.h"
#include "support/every_allocation.h"

static const char *const told[] = {
    "a.jsonl:3: message 1 has the role 'narrator'; roles are few",
    "a.jsonl:5: the list is empty",
    "a.jsonl:17: message 12 has the role 'x'; roles are few",
    "b.jsonl:1: message 2 has the role ''; roles are few",
    "a.jsonl:18: not valid JSON near 'ab\"",
    "b.jsonl:2: the list is empty",
};

static enum mt_status add_all(struct mt_context *ctx, const void *self)
{
    struct mt_row_faults faults = {.ctx = ctx};
    enum mt_status status = MT_OK;
    (void)self;
    for (size_t i = 0; i < sizeof told / sizeof told[0] && status == MT_OK; i++) {
        bool fresh = false;
        const struct mt_row_place place = {.source = told[i][0] == 'b', .row = i};
        status =
            mt_row_faults_add(&faults, place.source == 0 ? "a.jsonl" : "b.jsonl", place, told[i], &fresh);
        if (status == MT_OK) assert_int_equal(fresh, i == 0 || i == 1 || i == 4);
    }
    if (status == MT_OK) {
        assert_int_equal(faults.count, 3);
        assert_int_equal(faults.data[0].count, 3);
        assert_string_equal(faults.data[0].first, told[0]);
        assert_int_equal(faults.data[1].count, 2);
        assert_int_equal(faults.data[2].count, 1);
        assert_ptr_equal(mt_row_faults_commonest(&faults), &faults.data[0]);
    }
    mt_row_faults_free(&faults);
    return status;
}

static void kinds(void **state)
{
    (void)state;
    struct mt_context ctx;
    mt_context_init(&ctx, NULL);
    assert_int_equal(add_all(&ctx, NULL), MT_OK);
    assert_int_equal(ctx.live_bytes, 0);
    assert_every_allocation_may_fail(add_all, NULL, 4);
}

static void telling(void **state)
{
    (void)state;
    struct mt_context ctx;
    struct mt_log log;
    char text[512] = {0};
    bool fresh = false;
    static const uint64_t rows[] = {9, 3, 5}; // in the order they are read
    mt_context_init(&ctx, NULL);
    FILE *stream = tmpfile();
    mt_log_init(&log, stream, MT_LOG_WARNING);
    struct mt_row_faults faults = {.ctx = &ctx};
    assert_null(mt_row_faults_commonest(&faults));
    assert_null(mt_row_faults_first(&faults));
    struct mt_row_place place = {.source = 1};
    assert_int_equal(mt_row_faults_add(&faults, "g", place, "g:1: even", &fresh), MT_OK);
    assert_int_equal(mt_row_faults_add(&faults, "g", place, "g:1: odd 0", &fresh), MT_OK);
    place.source = 0;
    for (int i = 0; i < 30; i++) {
        char message[32];
        place.row = rows[i % 3];
        (void)snprintf(message, sizeof message, "f:%d: odd 7", (int)place.row + 1);
        assert_int_equal(mt_row_faults_add(&faults, "f", place, message, &fresh), MT_OK);
    }
    assert_string_equal(mt_row_faults_first(&faults)->first, "f:4: odd 7");
    mt_row_faults_tell(&faults, &log);
    mt_row_faults_tell(&faults, &log); // nothing new
    rewind(stream);
    size_t read = fread(text, 1, sizeof text - 1, stream);
    text[read] = '\0';
    assert_string_equal(text, "metier: warning: f:4: odd 7; 31 rows like this are skipped\n"
                              "metier: warning: g:1: even; this row is skipped\n");
    (void)fclose(stream);
    // More kinds than anyone reads: counted, not kept.
    for (int i = 0; i < 200; i++) {
        char message[16] = "f:1: aa";
        message[5] = (char)('a' + i / 26);
        message[6] = (char)('a' + i % 26);
        assert_int_equal(mt_row_faults_add(&faults, "f", place, message, &fresh), MT_OK);
    }
    assert_int_equal(faults.count, 64);
    mt_row_faults_free(&faults);
    assert_int_equal(ctx.live_bytes, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(kinds), cmocka_unit_test(telling)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
