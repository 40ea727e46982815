/*
 * What the cmocka programs of the ops share: a device to call, and the check that a call was refused with
 * the right status and a message that names the field.
 */
#ifndef MT_TESTS_OP_TEST_H
#define MT_TESTS_OP_TEST_H

// cmocka.h needs these before it.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <string.h>

#include "metier/ops.h"

struct op_test {
    struct mt_context ctx;
    struct mt_device *device;
};

// Hand-computed values are asked of both.
static const char *const op_test_devices[] = {"ref", "cpu"};
#define OP_TEST_DEVICES 2

static inline void op_test_open(struct op_test *test, const char *device)
{
    mt_context_init(&test->ctx, NULL);
    assert_int_equal(mt_device_create(&test->ctx, device, 2, &test->device), MT_OK);
}

static inline void op_test_close(struct op_test *test)
{
    mt_device_destroy(test->device);
    assert_int_equal(test->ctx.live_bytes, 0);
}

static inline int op_test_setup_ref(void **state)
{
    static struct op_test test;
    op_test_open(&test, "ref");
    *state = &test;
    return 0;
}

static inline int op_test_setup_cpu(void **state)
{
    static struct op_test test;
    op_test_open(&test, "cpu");
    *state = &test;
    return 0;
}

static inline int op_test_teardown(void **state)
{
    op_test_close(*state);
    return 0;
}

// A test whose state is a device, opened for it and closed after it.
#define ON_REF(test) cmocka_unit_test_setup_teardown(test, op_test_setup_ref, op_test_teardown)
#define ON_CPU(test) cmocka_unit_test_setup_teardown(test, op_test_setup_cpu, op_test_teardown)

static inline void op_test_refused(const struct op_test *test, enum mt_status got, enum mt_status expected,
                                   const char *words)
{
    if (got != expected || strstr(test->ctx.message, words) == NULL) {
        fail_msg("status '%s', message '%s'; expected '%s' and '%s'", mt_status_text(got), test->ctx.message,
                 mt_status_text(expected), words);
    }
}

#endif
