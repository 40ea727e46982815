/* The arena: alignment, zeroing, growth, large things, failure. */
#include <string.h>

#include "base/arena.h"
#include "support/cmocka_all.h"
#include "support/every_allocation.h"
#include "support/failing_allocator.h"

static void aligned_and_zeroed(void **state)
{
    (void)state;
    struct mt_context ctx;
    struct mt_arena arena;
    mt_context_init(&ctx, NULL);
    mt_arena_init(&arena, &ctx, 256);
    assert_int_equal(ctx.live_bytes, 0);
    unsigned char *previous = NULL;
    for (size_t bytes = 1; bytes < 600; bytes += 7) {
        void *memory = NULL;
        assert_int_equal(mt_arena_allocate(&arena, bytes, &memory), MT_OK);
        assert_int_equal((uintptr_t)memory % 16, 0);
        for (size_t i = 0; i < bytes; i++) assert_int_equal(((unsigned char *)memory)[i], 0);
        memset(memory, 0xAB, bytes);
        if (previous != NULL) assert_int_equal(*previous, 0xAB); // nobody else wrote there
        previous = memory;
    }
    mt_arena_free(&arena);
    assert_int_equal(ctx.live_bytes, 0);
}

static void usable_after_free(void **state)
{
    (void)state;
    struct mt_context ctx;
    struct mt_arena arena;
    const char *copy = NULL;
    mt_context_init(&ctx, NULL);
    mt_arena_init(&arena, &ctx, 64);
    mt_arena_free(&arena);
    assert_int_equal(mt_arena_copy_text(&arena, "hello world", 5, &copy), MT_OK);
    assert_string_equal(copy, "hello");
    mt_arena_free(&arena);
    assert_int_equal(mt_arena_copy_text(&arena, "", 0, &copy), MT_OK);
    assert_string_equal(copy, "");
    mt_arena_free(&arena);
    assert_int_equal(ctx.live_bytes, 0);
}

/* A thing larger than a block must not make the arena forget the room left in its block. */
static void large_things_keep_the_block(void **state)
{
    (void)state;
    struct failing_allocator counting = {.fail_at = -1};
    struct mt_allocator allocator = failing_allocator(&counting);
    struct mt_context ctx;
    struct mt_arena arena;
    void *memory = NULL;
    mt_context_init(&ctx, &allocator);
    mt_arena_init(&arena, &ctx, 1024);
    assert_int_equal(mt_arena_allocate(&arena, 16, &memory), MT_OK);
    for (int i = 0; i < 10; i++) {
        assert_int_equal(mt_arena_allocate(&arena, 5000, &memory), MT_OK);
        assert_int_equal(mt_arena_allocate(&arena, 16, &memory), MT_OK);
    }
    assert_int_equal(counting.calls, 11);
    mt_arena_free(&arena);
    assert_int_equal(counting.live, 0);
}

static void impossible_sizes(void **state)
{
    (void)state;
    struct mt_context ctx;
    struct mt_arena arena;
    void *memory = &ctx;
    const char *copy = NULL;
    mt_context_init(&ctx, NULL);
    mt_arena_init(&arena, &ctx, 0);
    assert_int_equal(mt_arena_allocate(&arena, SIZE_MAX, &memory), MT_ERR_MEMORY);
    assert_null(memory);
    assert_int_equal(mt_arena_allocate(&arena, SIZE_MAX - 40, &memory), MT_ERR_MEMORY);
    assert_int_equal(mt_arena_copy_text(&arena, "x", SIZE_MAX, &copy), MT_ERR_MEMORY);
    assert_null(copy);
    assert_int_equal(mt_arena_allocate(&arena, 0, &memory), MT_OK);
    assert_non_null(memory);
    assert_int_equal(mt_arena_allocate(&arena, 3, &memory), MT_OK);
    mt_arena_free(&arena);
    assert_int_equal(ctx.live_bytes, 0);
}

static enum mt_status fill_arena(struct mt_context *ctx, const void *self)
{
    (void)self;
    struct mt_arena arena;
    void *memory = NULL;
    const char *copy = NULL;
    enum mt_status status = MT_OK;
    mt_arena_init(&arena, ctx, 64);
    for (int i = 0; i < 8 && status == MT_OK; i++) status = mt_arena_allocate(&arena, 40, &memory);
    if (status == MT_OK) status = mt_arena_copy_text(&arena, "a text longer than what is left", 31, &copy);
    if (status == MT_OK) status = mt_arena_allocate(&arena, 4000, &memory);
    mt_arena_free(&arena);
    return status;
}

static void every_allocation_failing(void **state)
{
    (void)state;
    assert_every_allocation_may_fail(fill_arena, NULL, 10);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(aligned_and_zeroed),          cmocka_unit_test(usable_after_free),
        cmocka_unit_test(large_things_keep_the_block), cmocka_unit_test(impossible_sizes),
        cmocka_unit_test(every_allocation_failing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
