/*
 * Every op has one row, which describes every tensor its arguments begin with, and nothing else. Tests
 * src/ops/check/rows.c.
 */
#include <string.h>

#include "metier/ops.h"
#include "ops/check/rows.h"
#include "support/cmocka_all.h"

static const struct mt_check_family *const families[] = {
    &mt_check_elementwise, &mt_check_attention, &mt_check_products, &mt_check_routing, &mt_check_statistics};

static void test_one_row_each(void **state)
{
    int rows[MT_OP_COUNT] = {0};
    (void)state;
    for (size_t f = 0; f < sizeof families / sizeof families[0]; f++) {
        for (size_t i = 0; i < families[f]->count; i++) rows[families[f]->row[i].op]++;
    }
    for (int op = 0; op < MT_OP_COUNT; op++) assert_int_equal(rows[op], 1);
}

static void check_operand(const struct mt_operand *operand)
{
    assert_non_null(operand->name);
    size_t dims = strspn(operand->shape, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789*");
    const char *rest = operand->shape + dims;
    assert_in_range(dims, 1, 3);
    if (*rest == '?') rest++;
    if (*rest == '\0') return;
    assert_int_equal(operand->type, MT_CHECK_INDEX);
    bool zero = strncmp(rest, " 0..", 4) == 0;
    assert_true(zero || strncmp(rest, " -1..", 5) == 0);
    assert_int_equal(strlen(rest), zero ? 5 : 6);
}

static void test_operands(void **state)
{
    (void)state;
    for (size_t f = 0; f < sizeof families / sizeof families[0]; f++) {
        for (size_t i = 0; i < families[f]->count; i++) {
            const struct mt_check_row *row = &families[f]->row[i];
            assert_true(row->tensors <= MT_MOST_OPERANDS);
            for (int t = 0; t < row->tensors; t++) check_operand(&row->operand[t]);
            for (int t = row->tensors; t < MT_MOST_OPERANDS; t++) assert_null(row->operand[t].name);
            assert_true(row->tensors > 0 || row->more != NULL);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_one_row_each), cmocka_unit_test(test_operands)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
