/* The tables of the families: a row for each op. */
#ifndef MT_OPS_CHECK_ROWS_H
#define MT_OPS_CHECK_ROWS_H

#include "ops/check/check.h"

#define MT_MOST_OPERANDS 14

/*
 * A tensor of an op. `shape` has a character for each dimension: a letter stands for one size wherever the
 * row has it, a digit for itself, '*' for any size; a '?' behind them says that the tensor may be absent.
 * " 0..n" or " -1..n" at the end: every element is at least that, and less than what n stands for.
 */
struct mt_operand {
    const char *name;
    enum mt_check_type type;
    const char *shape;
};

struct mt_check_row {
    enum mt_op op;
    int tensors;                                        // that the arguments begin with
    void (*more)(struct mt_check *c, const void *args); // NULL: the operands say all
    struct mt_operand operand[MT_MOST_OPERANDS];        // one for each tensor; none: `more` checks everything
};

/* A row; `last` is the last of the tensors that the arguments begin with. */
#define MT_ROW(name, last, more, ...)                                                                        \
    {                                                                                                        \
        MT_OP_##name, (int)(offsetof(struct mt_##name##_args, last) / sizeof(struct mt_tensor)) + 1, more,   \
        {                                                                                                    \
            __VA_ARGS__                                                                                      \
        }                                                                                                    \
    }

/* An op whose arguments `more` checks alone. */
#define MT_ROW_BY_HAND(name, more)                                                                           \
    {                                                                                                        \
        MT_OP_##name, 0, more,                                                                               \
        {                                                                                                    \
            {                                                                                                \
                0                                                                                            \
            }                                                                                                \
        }                                                                                                    \
    }

struct mt_check_family {
    const struct mt_check_row *row;
    size_t count;
};

/* One table in each file. */
extern const struct mt_check_family mt_check_elementwise, mt_check_attention, mt_check_products,
    mt_check_routing, mt_check_statistics;

#endif
