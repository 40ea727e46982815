/* How a row is checked: shape by shape, then ranges, then what the row's own function adds. */
#include "ops/check/rows.h"

#include <ctype.h>
#include <string.h>

int64_t mt_check_dim(const struct mt_check *c, char letter)
{
    int64_t size = c->letter[letter - 'A'];
    return size > 0 ? size - 1 : 0;
}

/* What a character of a shape asks for. */
static int64_t size_of(const struct mt_check *c, char letter)
{
    if (isdigit((unsigned char)letter)) return letter - '0';
    return letter == '*' || c->letter[letter - 'A'] == 0 ? MT_ANY : mt_check_dim(c, letter);
}

static void check_operand(struct mt_check *c, const struct mt_operand *operand,
                          const struct mt_tensor *tensor)
{
    int64_t dims[MT_MAX_RANK];
    int rank = 0;
    const char *shape = operand->shape;
    for (; isgraph((unsigned char)shape[rank]) && shape[rank] != '?'; rank++)
        dims[rank] = size_of(c, shape[rank]);
    if (shape[rank] == '?' && !mt_tensor_present(tensor)) return;
    mt_check_tensor(c, operand->name, tensor, operand->type, rank, dims);
    bool twice = false; // a letter that stands twice in one shape was free until now
    for (int axis = 0; axis < rank && c->status == MT_OK; axis++) {
        if (!isalpha((unsigned char)shape[axis])) continue;
        int64_t *size = &c->letter[shape[axis] - 'A'];
        if (*size == 0) *size = tensor->dim[axis] + 1;
        dims[axis] = *size - 1;
        twice |= dims[axis] != tensor->dim[axis];
    }
    if (twice) mt_check_tensor(c, operand->name, tensor, operand->type, rank, dims);
}

static void check_row(struct mt_check *c, const struct mt_check_row *row, const void *args)
{
    const struct mt_tensor *tensors = args; // the arguments begin with them
    for (int i = 0; i < row->tensors && c->status == MT_OK; i++)
        check_operand(c, &row->operand[i], &tensors[i]);
    for (int i = 0; i < row->tensors && c->status == MT_OK; i++) {
        const char *range = strchr(row->operand[i].shape, ' ');
        if (range == NULL || !mt_tensor_present(&tensors[i])) continue;
        mt_check_range(c, row->operand[i].name, &tensors[i], range[1] == '-' ? -1 : 0,
                       mt_check_dim(c, range[strlen(range) - 1]));
    }
    if (c->status == MT_OK && row->more != NULL) row->more(c, args);
}

static const struct mt_check_row *find_row(enum mt_op op)
{
    const struct mt_check_family *const families[] = {&mt_check_elementwise, &mt_check_attention,
                                                      &mt_check_products, &mt_check_routing,
                                                      &mt_check_statistics};
    for (size_t f = 0; f < sizeof families / sizeof families[0]; f++) {
        for (size_t i = 0; i < families[f]->count; i++) {
            if (families[f]->row[i].op == op) return &families[f]->row[i];
        }
    }
    return NULL;
}

bool mt_op_is_f32(enum mt_op op, const void *args)
{
    const struct mt_check_row *row = find_row(op);
    const struct mt_tensor *tensors = args;
    for (int i = 0; row != NULL && i < row->tensors; i++) {
        enum mt_check_type type = row->operand[i].type;
        bool number = type == MT_CHECK_FLOAT || type == MT_CHECK_STAT;
        if (number && mt_tensor_present(&tensors[i]) && tensors[i].dtype != MT_F32) return false;
    }
    return true;
}

void mt_check_op(struct mt_check *c, enum mt_op op, const void *args)
{
    if (c->status != MT_OK) return;
    struct mt_check inner = {.device = c->device};
    const struct mt_check_row *row = find_row(op);
    if (row == NULL) {
        c->status = mt_fail(c->device->ctx, MT_ERR_INTERNAL, "op %d has no checks", (int)op);
        return;
    }
    check_row(&inner, row, args);
    c->status = inner.status;
}

enum mt_status mt_op_check(const struct mt_device *device, enum mt_op op, const void *args)
{
    struct mt_check check = {.device = device};
    mt_check_op(&check, op, args);
    return check.status;
}
