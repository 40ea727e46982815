/* Files of choices: found by content, -1 left alone, hostile ones refused with a sentence. */
#include "train/data/choices.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "formats/safetensors/safetensors_writer.h"
#include "support/cmocka_all.h"
#include "support/every_allocation.h"
#include "support/workplace.h"

enum { LAYERS = 2, SLOTS = 2, EXPERTS = 6, TOKENS = 9, SEQUENCES = 4, ROOM = 16 };

static const struct mt_choice_shape shape = {.layers = LAYERS, .slots = SLOTS, .experts = EXPERTS};

/* What a file holds, as a test spoils it. */
struct content {
    enum mt_safetensors_dtype ids_type, offsets_type, experts_type;
    int64_t ids_count, offsets_count, layers, slots;
    int32_t ids[TOKENS];
    int64_t offsets[SEQUENCES + 1];
    int64_t experts[TOKENS * LAYERS * SLOTS];
    const char *experts_name;
};

/* Sequences of 3, 1, 3 and 2 tokens; the third has the ids of the first. */
static struct content good(void)
{
    struct content c = {.ids_type = MT_SAFETENSORS_I32,
                        .offsets_type = MT_SAFETENSORS_I64,
                        .experts_type = MT_SAFETENSORS_I16,
                        .ids_count = TOKENS,
                        .offsets_count = SEQUENCES + 1,
                        .layers = LAYERS,
                        .slots = SLOTS,
                        .ids = {5, 6, 7, 5, 5, 6, 7, 8, 9},
                        .offsets = {0, 3, 4, 7, 9},
                        .experts_name = "experts"};
    for (int i = 0; i < TOKENS * LAYERS; i++) {
        c.experts[i * SLOTS] = i % EXPERTS;
        c.experts[i * SLOTS + 1] = (i + 1 + i / EXPERTS) % EXPERTS;
    }
    return c;
}

static void write_numbers(struct mt_safetensors_writer *writer, enum mt_safetensors_dtype dtype,
                          const int64_t *values, int64_t count)
{
    for (int64_t i = 0; i < count; i++) // little-endian: the first bytes are the narrow number
        assert_int_equal(mt_safetensors_writer_write(writer, &values[i], mt_safetensors_dtype_bytes(dtype)),
                         MT_OK);
}

static const char *write_content(const struct workplace *place, const struct content *c)
{
    static char path[4096];
    struct mt_context ctx;
    struct mt_safetensors_writer writer;
    const struct mt_safetensors_spec specs[] = {
        {.name = "offsets", .dtype = c->offsets_type, .rank = 1, .dim = {c->offsets_count}},
        {.name = "ids", .dtype = c->ids_type, .rank = 1, .dim = {c->ids_count}},
        {.name = c->experts_name, .dtype = c->experts_type, .rank = 3, .dim = {TOKENS, c->layers, c->slots}},
    };
    int64_t ids[TOKENS];
    for (int i = 0; i < TOKENS; i++) ids[i] = c->ids[i];
    (void)workplace_path(place, "choices", path, sizeof path);
    mt_context_init(&ctx, NULL);
    assert_int_equal(mt_safetensors_writer_open(&ctx, path, specs, 3, NULL, 0, &writer), MT_OK);
    write_numbers(&writer, c->offsets_type, c->offsets, c->offsets_count);
    write_numbers(&writer, c->ids_type, ids, c->ids_count);
    write_numbers(&writer, c->experts_type, c->experts, TOKENS * c->layers * c->slots);
    assert_int_equal(mt_safetensors_writer_finish(&writer), MT_OK);
    assert_int_equal(ctx.live_bytes, 0);
    return path;
}

static void refused(const struct workplace *place, const struct content *c, const char *words)
{
    struct mt_context ctx;
    struct mt_choices choices;
    mt_context_init(&ctx, NULL);
    enum mt_status status = mt_choices_open(&ctx, write_content(place, c), &shape, ROOM, &choices);
    if (status == MT_OK || strstr(ctx.message, words) == NULL)
        fail_msg("status '%s', message '%s'; expected '%s'", mt_status_text(status), ctx.message, words);
    assert_int_equal(ctx.live_bytes, 0);
}

static void hostile_files(void **state)
{
    const struct workplace *place = *state;
    struct content c = good();
    c.experts_name = "routed";
    refused(place, &c, "has no tensor 'experts'");
    c = good();
    c.ids_type = MT_SAFETENSORS_I64;
    refused(place, &c, "'ids' is I64, expected I32");
    c = good();
    c.experts_type = MT_SAFETENSORS_F32;
    refused(place, &c, "'experts' is F32, expected U8, I16, I32 or I64");
    c = good();
    c.offsets_type = MT_SAFETENSORS_I32;
    refused(place, &c, "'offsets' is I32, expected I64");
    c = good();
    c.layers = 1;
    refused(place, &c, "'experts' is [9, 1, 2], expected [9, 2, 2]: a row for each of the ids");
    c = good();
    c.slots = 1;
    refused(place, &c, "'experts' is [9, 2, 1], expected [9, 2, 2]");
    c = good();
    c.ids_count = TOKENS - 1;
    refused(place, &c, "'experts' is [9, 2, 2], expected [8, 2, 2]");
    c = good();
    c.offsets_count = 1;
    refused(place, &c, "holds no sequence");
    static const int64_t offsets[][SEQUENCES + 1] = {{1, 3, 4, 7, 9},  {0, 3, 3, 7, 9}, {0, 3, 2, 7, 9},
                                                     {0, 3, 4, 10, 9}, {0, 3, 4, 7, 8}, {0, -1, 4, 7, 9}};
    for (size_t i = 0; i < sizeof offsets / sizeof offsets[0]; i++) {
        c = good();
        memcpy(c.offsets, offsets[i], sizeof c.offsets);
        refused(place, &c, "expected offsets that rise from 0 to 9");
    }
    c = good();
    c.experts[13] = -1;
    refused(place, &c, "experts[3, 0] is -1 in some slots, but not in all");
    c = good();
    c.experts[10] = EXPERTS;
    refused(place, &c, "experts[2, 1] names an expert the model does not have; it has experts 0 to 5");
    c.experts[10] = -2;
    refused(place, &c, "names an expert the model does not have");
    c.experts[10] = c.experts[11];
    refused(place, &c, "experts[2, 1] names an expert twice");
    c = good();
    c.experts_type = MT_SAFETENSORS_U8; // 255 is an expert like any other
    c.experts[0] = c.experts[1] = 255;
    refused(place, &c, "names an expert the model does not have");
}

/* Every type; sequences in another order, packed; of two that are equal the first counts; -1 stays. */
static void found_by_content(void **state)
{
    const struct workplace *place = *state;
    static const enum mt_safetensors_dtype types[] = {MT_SAFETENSORS_U8, MT_SAFETENSORS_I16,
                                                      MT_SAFETENSORS_I32, MT_SAFETENSORS_I64};
    static const int32_t ids[] = {8, 9, 5, 5, 6, 7};
    static const int32_t offsets[] = {0, 2, 3, 6};
    static const int rows[] = {7, 8, 3, 0, 1, 2}; // of the file
    for (size_t t = 0; t < 4; t++) {
        struct content c = good();
        struct mt_context ctx;
        struct mt_choices choices;
        struct mt_batch batch = {.tokens = 6, .sequences = 3, .ids = ids, .offsets = offsets};
        c.experts_type = types[t];
        for (int i = 0; t > 0 && i < LAYERS * SLOTS; i++) c.experts[8 * LAYERS * SLOTS + i] = -1;
        mt_context_init(&ctx, NULL);
        const char *path = write_content(place, &c);
        if (mt_choices_open(&ctx, path, &shape, ROOM, &choices) != MT_OK) fail_msg("%s", ctx.message);
        assert_int_equal(choices.index.count, SEQUENCES);
        mt_context_forbid_allocation(&ctx, "a batch");
        assert_int_equal(mt_choices_take(&choices, &batch), MT_OK);
        for (int l = 0; l < LAYERS; l++) {
            for (int i = 0; i < 6 * SLOTS; i++) {
                int64_t expected = c.experts[(rows[i / SLOTS] * LAYERS + l) * SLOTS + i % SLOTS];
                assert_int_equal(batch.chosen[l * 6 * SLOTS + i], expected);
            }
        }
        batch = (struct mt_batch){.tokens = 2, .sequences = 1, .ids = ids + 3, .offsets = offsets};
        assert_int_equal(mt_choices_take(&choices, &batch), MT_ERR_USAGE); // the start of one is not it
        assert_non_null(strstr(ctx.message, "no choices for a sequence of 2 tokens whose ids begin 5, 6:"));
        assert_null(batch.chosen);
        batch = (struct mt_batch){.tokens = ROOM + 1, .sequences = 1, .ids = ids, .offsets = offsets};
        assert_int_equal(mt_choices_take(&choices, &batch), MT_ERR_USAGE);
        mt_context_forbid_allocation(&ctx, NULL);
        mt_choices_close(&choices);
        assert_int_equal(ctx.live_bytes, 0);
    }
}

/* Thousands of sequences, added one by one: the table grows under them. */
static void many_sequences(void **state)
{
    (void)state;
    enum { MANY = 3000 };
    static int32_t ids[2 * MANY];
    static int64_t offsets[MANY + 1];
    struct mt_context ctx;
    mt_context_init(&ctx, NULL);
    struct mt_sequence_index index = {.ctx = &ctx, .ids = ids, .offsets = offsets};
    size_t number = 0;
    assert_false(mt_sequence_index_find(&index, ids, 2, &number));
    for (int i = 0; i < MANY; i++) {
        ids[2 * i] = i % 100;
        ids[2 * i + 1] = i / 100;
        offsets[i + 1] = 2 * (i + 1);
        assert_int_equal(mt_sequence_index_reserve(&index, index.count + 1), MT_OK);
        mt_sequence_index_add(&index);
    }
    for (int i = 0; i < MANY; i++) {
        assert_true(mt_sequence_index_find(&index, ids + 2 * i, 2, &number));
        assert_int_equal(number, i);
    }
    assert_false(mt_sequence_index_find(&index, (const int32_t[]){100, 0}, 2, &number));
    assert_false(mt_sequence_index_find(&index, ids, 3, &number));
    mt_sequence_index_free(&index);
    assert_int_equal(ctx.live_bytes, 0);
}

static enum mt_status open_and_close(struct mt_context *ctx, const void *self)
{
    struct mt_choices choices;
    enum mt_status status = mt_choices_open(ctx, self, &shape, ROOM, &choices);
    if (status == MT_OK) mt_choices_close(&choices);
    return status;
}

static void failing_allocations(void **state)
{
    struct content c = good();
    assert_every_allocation_may_fail(open_and_close, write_content(*state, &c), 3);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(hostile_files, workplace_open, workplace_close),
        cmocka_unit_test_setup_teardown(found_by_content, workplace_open, workplace_close),
        cmocka_unit_test(many_sequences),
        cmocka_unit_test_setup_teardown(failing_allocations, workplace_open, workplace_close),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
