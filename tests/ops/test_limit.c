/* Limits of memory: what is one, what it leaves, and that it is kept. */
#include "ops/limit.h"

#include <string.h>

#include "metier/buffer.h"
#include "support/cmocka_all.h"

static void texts(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        bool fine;
        double bytes, share;
    } cases[] = {
        {"auto", true, 0.0, 0.0},      {"22GiB", true, 22.0 * 1073741824.0, 0.0},
        {"24GB", true, 24e9, 0.0},     {"1.5 GB", true, 1.5e9, 0.0},
        {"500MB", true, 500e6, 0.0},   {"3MiB", true, 3.0 * 1048576.0, 0.0},
        {"64KiB", true, 65536.0, 0.0}, {"7B", true, 7.0, 0.0},
        {"90%", true, 0.0, 0.9},       {"100%", true, 0.0, 1.0},
        {"101%", false, 0.0, 0.0},     {"0%", false, 0.0, 0.0},
        {"22", false, 0.0, 0.0},       {"0.9", false, 0.0, 0.0},
        {"-1GB", false, 0.0, 0.0},     {"0GB", false, 0.0, 0.0},
        {"0x10GB", false, 0.0, 0.0},   {"1e3GB", false, 0.0, 0.0},
        {"inf", false, 0.0, 0.0},      {"nanGB", false, 0.0, 0.0},
        {"GB", false, 0.0, 0.0},       {"", false, 0.0, 0.0},
        {"22 gigs", false, 0.0, 0.0},  {"9999999999TB", false, 0.0, 0.0},
        {"1.2.3GB", false, 0.0, 0.0},  {"22GiBs", false, 0.0, 0.0},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct mt_memory_limit limit;
        if (mt_memory_limit_read(cases[i].text, &limit) != cases[i].fine) fail_msg("'%s'", cases[i].text);
        if (!cases[i].fine) continue;
        assert_true(limit.bytes == cases[i].bytes && limit.share == cases[i].share);
    }
}

static void bounds(void **state)
{
    (void)state;
    struct mt_context ctx;
    struct mt_device *device = NULL;
    mt_context_init(&ctx, NULL);
    assert_int_equal(mt_device_create(&ctx, "cpu", 1, &device), MT_OK);
    struct mt_memory_bound named = mt_device_bound(device, &(struct mt_memory_limit){.bytes = 5e8});
    assert_true(named.given && named.whole == 500000000 && named.buffers == 500000000);
    struct mt_memory_bound some = mt_device_bound(device, &(struct mt_memory_limit){.share = 0.25});
    struct mt_memory_bound all = mt_device_bound(device, &(struct mt_memory_limit){0});
    assert_true(some.given && !all.given && all.free > 0);
    assert_true(all.buffers < all.free && all.buffers > all.free / 2);
    assert_true(some.buffers <= some.free / 4 + 1);
    mt_device_destroy(device);
    assert_int_equal(ctx.live_bytes, 0);
}

/* Up to the last byte, and not one more; what is given back may be had again. */
static void kept(void **state)
{
    (void)state;
    struct mt_context ctx;
    struct mt_device *device = NULL;
    struct mt_buffer first = {0};
    struct mt_buffer second = {0};
    mt_context_init(&ctx, NULL);
    assert_int_equal(mt_device_create(&ctx, "cpu", 1, &device), MT_OK);
    size_t before = mt_device_memory_use(device).held;
    mt_device_set_limit(device, before + 1000);
    assert_int_equal(mt_device_buffer_create(device, 600, &first), MT_OK);
    assert_int_equal(mt_device_buffer_create(device, 401, &second), MT_ERR_MEMORY);
    assert_null(second.data);
    assert_non_null(strstr(ctx.message, "cannot allocate 401 bytes: "));
    assert_int_equal(mt_device_buffer_create(device, (size_t)-1, &second), MT_ERR_MEMORY);
    assert_int_equal(mt_device_buffer_create(device, 400, &second), MT_OK);
    mt_buffer_release(&first);
    assert_int_equal(mt_device_buffer_create(device, 600, &first), MT_OK);
    assert_int_equal(mt_device_memory_use(device).peak, before + 1000);
    mt_buffer_release(&first);
    mt_buffer_release(&second);
    mt_device_set_limit(device, 0);
    assert_int_equal(mt_device_buffer_create(device, 5000, &first), MT_OK);
    mt_buffer_release(&first);
    // The caller's own limit stays where it is less, and comes back.
    ctx.limit_bytes = 1000000;
    mt_device_set_limit(device, 2000000);
    assert_int_equal(ctx.limit_bytes, 1000000);
    mt_device_set_limit(device, 500000);
    assert_int_equal(ctx.limit_bytes, 500000);
    mt_device_destroy(device);
    assert_int_equal(ctx.limit_bytes, 1000000);
    assert_int_equal(ctx.live_bytes, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(texts),
        cmocka_unit_test(bounds),
        cmocka_unit_test(kept),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
