/* Cases of logit_summary: ties, numbers that are not finite, padded rows, with and without the sum. */
#include <math.h>

#include "ops/case_files.h"
#include "tensor/dtype.h"

enum { LOGITS, HIGHEST, LOG_SUM };
enum { SUMS, FILLING };
enum { FILLING_DRAWN, FILLING_TIES, FILLING_INF, FILLING_NAN };

static void fill(const struct op_case *c, struct mt_tensor *t)
{
    int64_t rows = t[LOGITS].dim[0];
    int64_t width = t[LOGITS].dim[1];
    for (int64_t r = 0; r < rows; r++) {
        int64_t at = r * t[LOGITS].stride[0];
        if (c->param[FILLING] == FILLING_TIES) {
            mt_store(t[LOGITS].dtype, t[LOGITS].data, at + width - 1 - r % width, 9.0);
            mt_store(t[LOGITS].dtype, t[LOGITS].data, at + width / 2, 9.0);
        } else if (r % 2 == 1) {
            double special = c->param[FILLING] == FILLING_NAN ? (double)NAN : (double)-INFINITY;
            mt_store(t[LOGITS].dtype, t[LOGITS].data, at + (r * 7) % width, special);
        }
    }
}

static enum mt_status forward(struct mt_device *device, const struct op_case *c, struct mt_tensor *t)
{
    struct mt_logit_summary_args args = {.logits = t[LOGITS], .highest = t[HIGHEST]};
    if (c->param[SUMS] != 0) args.log_sum = t[LOG_SUM];
    return mt_logit_summary(device, &args);
}

static struct op_case *add(struct case_list *list, int64_t rows, int64_t width, bool sums, int filling,
                           int64_t padding)
{
    static const char *const fillings[] = {"", " ties", " with inf", " with NaN"};
    struct op_case *c = case_new(list, MT_OP_logit_summary, "[%d,%d]%s%s%s", (int)rows, (int)width,
                                 fillings[filling], sums ? " and sums" : "", padding != 0 ? " padded" : "");
    c->param[SUMS] = sums;
    c->param[FILLING] = filling;
    c->tolerance = 1e-6; // exponentials in float
    c->forward = forward;
    if (filling != FILLING_DRAWN) c->fill = fill;
    case_slot(c, "logits", SLOT_INPUT, MT_F32, 2, (int64_t[]){rows, width});
    case_slot(c, "highest", SLOT_OUTPUT, MT_I32, 1, (int64_t[]){rows});
    if (sums) case_slot(c, "log_sum", SLOT_OUTPUT, MT_F64, 1, (int64_t[]){rows});
    c->slot[LOGITS].row_padding = padding;
    return c;
}

void cases_logit_summary(struct case_list *list)
{
    add(list, 1, 1, true, FILLING_DRAWN, 0);
    add(list, 0, 8, true, FILLING_DRAWN, 0);
    for (int sums = 0; sums < 2; sums++) {
        add(list, 3, 53, sums != 0, FILLING_DRAWN, 5);
        add(list, 5, 1031, sums != 0, FILLING_TIES, 1);
        add(list, 6, 700, sums != 0, FILLING_INF, 0);
        add(list, 6, 700, sums != 0, FILLING_NAN, 3);
        add(list, 4, 32003, sums != 0, FILLING_DRAWN, 0);
        struct op_case *speed = add(list, 64, 102400, sums != 0, FILLING_DRAWN, 0);
        speed->only_speed = true;
        speed->bytes = 64.0 * 102400.0 * 4;
    }
}
