/*
 * The ops of LoRA pairs, for every linear and the rows r of every expert; m is mask_scale or 0 with a mask,
 * else 1, and an absent matrix counts as zeros: lora_xa    xa_rj = alpha Σ_p m_rp x_rp A_jp lora_dxa   dxa_rj
 * = scale Σ_p dy_rp B_pj;  dB_ij += scale Σ_r dy_ri xa_rj lora_da     dA_ij += Σ_r dxa_ri m_rj x_rj
 */
#include "ops/ref/mask.h"

/* Rows of one expert. */
struct row_range {
    int64_t first, end;
};

/* Expert e's; all of them where there are no offsets. */
static struct row_range rows_of(const struct mt_tensor *offsets, int e, int64_t rows)
{
    if (!mt_tensor_present(offsets)) return (struct row_range){0, rows};
    return (struct row_range){ref_int1(offsets, e), ref_int1(offsets, e + 1)};
}

static void xa_of_rows(const struct mt_lora_xa_args *l, int i, int e, struct row_range rows)
{
    const struct mt_tensor *a = &l->a[i][e];
    int64_t steps = mt_tensor_present(a) ? l->x.dim[1] : 0;
    for (int64_t r = rows.first; r < rows.end; r++) {
        for (int64_t j = 0; j < l->xa[i].dim[1]; j++) {
            double sum = 0.0;
            for (int64_t p = 0; p < steps; p++)
                sum += ref_masked(&l->mask, l->mask_scale, r, p) * ref_get2(&l->x, r, p) * ref_get2(a, j, p);
            ref_set2(&l->xa[i], r, j, (double)l->alpha * sum);
        }
    }
}

enum mt_status mt_ref_lora_xa(struct mt_device *device, const void *args)
{
    (void)device;
    const struct mt_lora_xa_args *l = args;
    for (int e = 0; e < l->experts; e++) {
        struct row_range rows = rows_of(&l->offsets, e, l->x.dim[0]);
        for (int i = 0; i < l->linears; i++) xa_of_rows(l, i, e, rows);
    }
    return MT_OK;
}

static void dxa_of_rows(const struct mt_lora_pair_gradient *linear, int e, struct row_range rows)
{
    const struct mt_tensor *b = &linear->b[e];
    int64_t steps = mt_tensor_present(b) ? linear->dy.dim[1] : 0;
    for (int64_t r = rows.first; r < rows.end; r++) {
        for (int64_t j = 0; j < linear->dxa.dim[1]; j++) {
            double sum = 0.0;
            for (int64_t p = 0; p < steps; p++) sum += ref_get2(&linear->dy, r, p) * ref_get2(b, p, j);
            ref_set2(&linear->dxa, r, j, (double)linear->scale * sum);
        }
    }
}

static void add_db(const struct mt_lora_pair_gradient *linear, int e, struct row_range rows)
{
    const struct mt_tensor *db = &linear->db[e];
    if (!mt_tensor_present(db)) return;
    for (int64_t i = 0; i < db->dim[0]; i++) {
        for (int64_t j = 0; j < db->dim[1]; j++) {
            double sum = 0.0;
            for (int64_t r = rows.first; r < rows.end; r++)
                sum += ref_get2(&linear->dy, r, i) * ref_get2(&linear->xa, r, j);
            ref_set2(db, i, j, ref_get2(db, i, j) + (double)linear->db_scale * sum);
        }
    }
}

enum mt_status mt_ref_lora_dxa(struct mt_device *device, const void *args)
{
    (void)device;
    const struct mt_lora_dxa_args *l = args;
    for (int e = 0; e < l->experts; e++) {
        struct row_range rows = rows_of(&l->offsets, e, l->linear[0].dxa.dim[0]);
        for (int i = 0; i < l->linears; i++) {
            dxa_of_rows(&l->linear[i], e, rows);
            if (l->linear[i].db != NULL) add_db(&l->linear[i], e, rows);
        }
    }
    return MT_OK;
}

static void add_da(const struct mt_lora_da_args *l, int i, int e, struct row_range rows)
{
    const struct mt_tensor *da = &l->da[i][e];
    if (!mt_tensor_present(da)) return;
    for (int64_t k = 0; k < da->dim[0]; k++) {
        for (int64_t j = 0; j < da->dim[1]; j++) {
            double sum = 0.0;
            for (int64_t r = rows.first; r < rows.end; r++)
                sum += ref_get2(&l->dxa[i], r, k) * ref_masked(&l->mask, l->mask_scale, r, j) *
                       ref_get2(&l->x, r, j);
            ref_set2(da, k, j, ref_get2(da, k, j) + sum);
        }
    }
}

enum mt_status mt_ref_lora_da(struct mt_device *device, const void *args)
{
    (void)device;
    const struct mt_lora_da_args *l = args;
    for (int e = 0; e < l->experts; e++) {
        struct row_range rows = rows_of(&l->offsets, e, l->x.dim[0]);
        for (int i = 0; i < l->linears; i++) add_da(l, i, e, rows);
    }
    return MT_OK;
}
