/* Buffers: who owns, who releases. */
#include <string.h>

#include "metier/buffer.h"
#include "support/cmocka_all.h"
#include "support/failing_allocator.h"

static void owned(void **state)
{
    (void)state;
    struct mt_context ctx;
    struct mt_buffer buffer;
    mt_context_init(&ctx, NULL);
    assert_int_equal(mt_buffer_create(&ctx, 1000, &buffer), MT_OK);
    assert_int_equal(buffer.bytes, 1000);
    assert_int_equal(buffer.kind, MT_MEMORY_HOST);
    assert_true(buffer.owned);
    memset(buffer.data, 1, buffer.bytes);
    assert_int_equal(ctx.live_bytes, 1000);
    mt_buffer_release(&buffer);
    assert_int_equal(ctx.live_bytes, 0);
    assert_null(buffer.data);
    mt_buffer_release(&buffer); // cleared: nothing to do
    assert_int_equal(mt_buffer_create(&ctx, 0, &buffer), MT_OK);
    mt_buffer_release(&buffer);
    assert_int_equal(ctx.live_bytes, 0);
}

static void borrowed(void **state)
{
    (void)state;
    char memory[16] = "still here";
    struct mt_buffer buffer = mt_buffer_borrow(memory, sizeof memory, MT_MEMORY_PINNED);
    assert_ptr_equal(buffer.data, memory);
    assert_int_equal(buffer.kind, MT_MEMORY_PINNED);
    mt_buffer_release(&buffer);
    assert_null(buffer.data);
    assert_string_equal(memory, "still here");
}

static void count_release(struct mt_buffer *buffer)
{
    ++*(int *)buffer->owner;
}

static void released_by_its_maker(void **state)
{
    (void)state;
    int releases = 0;
    struct mt_buffer buffer = {.owned = true, .owner = &releases, .release = count_release};
    mt_buffer_release(&buffer);
    mt_buffer_release(&buffer);
    assert_int_equal(releases, 1);
}

static void failure_leaves_a_zeroed_buffer(void **state)
{
    (void)state;
    struct failing_allocator failing = {.fail_at = 0};
    struct mt_allocator allocator = failing_allocator(&failing);
    struct mt_context ctx;
    struct mt_buffer buffer;
    memset(&buffer, 0xFF, sizeof buffer);
    mt_context_init(&ctx, &allocator);
    assert_int_equal(mt_buffer_create(&ctx, 10, &buffer), MT_ERR_MEMORY);
    assert_null(buffer.data);
    assert_int_equal(buffer.bytes, 0);
    mt_buffer_release(&buffer);
    assert_int_equal(failing.live, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(owned),
        cmocka_unit_test(borrowed),
        cmocka_unit_test(released_by_its_maker),
        cmocka_unit_test(failure_leaves_a_zeroed_buffer),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
