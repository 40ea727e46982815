/*
 * Status texts; the context's messages, allocation rules and byte counts. Tests src/base/status.c and
 * src/base/context.c.
 */
#include <stdlib.h>
#include <string.h>

#include "metier/context.h"
#include "support/cmocka_all.h"
#include "support/failing_allocator.h"

static void status_texts(void **state)
{
    (void)state;
    for (int status = 0; status < MT_STATUS_COUNT; status++) {
        assert_true(mt_status_text((enum mt_status)status)[0] != '\0');
    }
    assert_string_equal(mt_status_text(MT_OK), "ok");
    assert_string_equal(mt_status_text((enum mt_status)999), "unknown status");
    assert_string_equal(mt_status_text((enum mt_status)(-1)), "unknown status");
}

static void messages(void **state)
{
    (void)state;
    struct mt_context ctx;
    mt_context_init(&ctx, NULL);
    assert_string_equal(ctx.message, "");
    assert_int_equal(mt_fail_within(&ctx, MT_ERR_IO, "outside"), MT_ERR_IO);
    assert_string_equal(ctx.message, "outside");
    // Whatever a file or a server says in it, a message drives no terminal and is one line.
    (void)mt_fail(&ctx, MT_ERR_IO, "%s",
                  "\033[2J\n\007 \xC2\x9B"
                  "31m \xE2\x80\xAE \x9B ü");
    assert_string_equal(ctx.message, "?[2J?? ??31m ??? ? ü");
    (void)mt_fail_within(&ctx, MT_ERR_IO, "%s", "\033]0;x\007");
    assert_string_equal(ctx.message, "?]0;x?: ?[2J?? ??31m ??? ? ü");
    assert_int_equal(mt_fail(&ctx, MT_ERR_SHAPE, "a has %d rows", 3), MT_ERR_SHAPE);
    assert_string_equal(ctx.message, "a has 3 rows");
    assert_int_equal(mt_fail_within(&ctx, MT_ERR_SHAPE, "layer %d", 7), MT_ERR_SHAPE);
    assert_string_equal(ctx.message, "layer 7: a has 3 rows");
    (void)mt_fail_within(&ctx, MT_ERR_SHAPE, "model");
    assert_string_equal(ctx.message, "model: layer 7: a has 3 rows");
    // The old message as an argument of the new one.
    (void)mt_fail(&ctx, MT_ERR_SHAPE, "<%s>", ctx.message);
    assert_string_equal(ctx.message, "<model: layer 7: a has 3 rows>");
    (void)mt_fail_within(&ctx, MT_ERR_SHAPE, "%.6s", ctx.message);
    assert_string_equal(ctx.message, "<model: <model: layer 7: a has 3 rows>");
}

static void long_messages_are_cut(void **state)
{
    (void)state;
    char text[3 * MT_MESSAGE_BYTES];
    struct mt_context ctx;
    mt_context_init(&ctx, NULL);
    memset(text, 'x', sizeof text - 1);
    text[sizeof text - 1] = '\0';
    (void)mt_fail(&ctx, MT_ERR_IO, "%s", text);
    assert_int_equal(strlen(ctx.message), MT_MESSAGE_BYTES - 1);
    (void)mt_fail_within(&ctx, MT_ERR_IO, "file");
    assert_int_equal(strlen(ctx.message), MT_MESSAGE_BYTES - 1);
    assert_memory_equal(ctx.message, "file: xxx", 9);
    (void)mt_fail_within(&ctx, MT_ERR_IO, "%s", text);
    assert_int_equal(strlen(ctx.message), MT_MESSAGE_BYTES - 1);
    assert_memory_equal(ctx.message, "xxx", 3);
}

static void allocation_and_counts(void **state)
{
    (void)state;
    struct mt_context ctx;
    void *first = NULL;
    void *second = NULL;
    mt_context_init(&ctx, NULL);
    assert_int_equal(mt_allocate(&ctx, 100, &first), MT_OK);
    assert_int_equal((uintptr_t)first % 64, 0);
    assert_int_equal(mt_allocate_array(&ctx, 10, 5, &second), MT_OK);
    for (int i = 0; i < 50; i++) assert_int_equal(((unsigned char *)second)[i], 0);
    assert_int_equal(ctx.live_bytes, 150);
    mt_release(&ctx, first, 100);
    assert_int_equal(ctx.live_bytes, 50);
    assert_int_equal(ctx.peak_bytes, 150);
    mt_release(&ctx, second, 50);
    mt_release(&ctx, NULL, 12345);
    assert_int_equal(ctx.live_bytes, 0);
    assert_int_equal(ctx.peak_bytes, 150);
    assert_int_equal(mt_allocate(&ctx, 0, &first), MT_OK);
    assert_non_null(first);
    mt_release(&ctx, first, 0);
}

static void impossible_sizes(void **state)
{
    (void)state;
    struct mt_context ctx;
    void *block = &ctx;
    mt_context_init(&ctx, NULL);
    assert_int_equal(mt_allocate_array(&ctx, SIZE_MAX / 2, 3, &block), MT_ERR_MEMORY);
    assert_null(block);
    assert_non_null(strstr(ctx.message, "too large"));
    block = &ctx;
    assert_int_equal(mt_allocate(&ctx, SIZE_MAX - 3, &block), MT_ERR_MEMORY);
    assert_null(block);
    assert_int_equal(mt_allocate_array(&ctx, 0, 8, &block), MT_OK);
    mt_release(&ctx, block, 0);
    assert_int_equal(mt_allocate_array(&ctx, 8, 0, &block), MT_OK);
    mt_release(&ctx, block, 0);
    assert_int_equal(ctx.live_bytes, 0);
}

static void forbidden_phase(void **state)
{
    (void)state;
    struct mt_context ctx;
    void *kept = NULL;
    void *block = NULL;
    mt_context_init(&ctx, NULL);
    assert_int_equal(mt_allocate(&ctx, 8, &kept), MT_OK);
    mt_context_forbid_allocation(&ctx, "the step loop");
    assert_int_equal(mt_allocate(&ctx, 8, &block), MT_ERR_INTERNAL);
    assert_null(block);
    assert_non_null(strstr(ctx.message, "the step loop"));
    void *before = kept;
    assert_int_equal(mt_reallocate(&ctx, 8, 16, &kept), MT_ERR_INTERNAL);
    assert_ptr_equal(kept, before);
    assert_int_equal(mt_allocate_array(&ctx, 1, 1, &block), MT_ERR_INTERNAL);
    mt_release(&ctx, kept, 8); // giving back is always allowed
    mt_context_forbid_allocation(&ctx, NULL);
    assert_int_equal(mt_allocate(&ctx, 8, &block), MT_OK);
    mt_release(&ctx, block, 8);
}

static void reallocation(void **state)
{
    (void)state;
    struct failing_allocator failing = {.fail_at = 3};
    struct mt_allocator allocator = failing_allocator(&failing);
    struct mt_context ctx;
    void *block = NULL;
    mt_context_init(&ctx, &allocator);
    assert_int_equal(mt_reallocate(&ctx, 0, 4, &block), MT_OK); // from nothing
    memcpy(block, "abcd", 4);
    assert_int_equal(mt_reallocate(&ctx, 4, 1000, &block), MT_OK);
    assert_memory_equal(block, "abcd", 4);
    assert_int_equal(mt_reallocate(&ctx, 1000, 2, &block), MT_OK);
    assert_memory_equal(block, "ab", 2);
    assert_int_equal(ctx.live_bytes, 2);
    void *before = block;
    assert_int_equal(mt_reallocate(&ctx, 2, 5000, &block), MT_ERR_MEMORY);
    assert_ptr_equal(block, before);
    assert_memory_equal(block, "ab", 2);
    assert_int_equal(ctx.live_bytes, 2);
    mt_release(&ctx, block, 2);
    assert_int_equal(failing.live, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(status_texts),          cmocka_unit_test(messages),
        cmocka_unit_test(long_messages_are_cut), cmocka_unit_test(allocation_and_counts),
        cmocka_unit_test(impossible_sizes),      cmocka_unit_test(forbidden_phase),
        cmocka_unit_test(reallocation),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
