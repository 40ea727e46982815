/* RMSNorm or LayerNorm with weights of the model: forward, backward, and what lies between. */
#ifndef MT_MODEL_NORM_H
#define MT_MODEL_NORM_H

#include "model/params/params.h"
#include "model/pass.h"
#include "model/planner.h"

/* One norm of a model. */
struct mt_norm {
    enum mt_norm_kind kind;
    float epsilon;
    const struct mt_norm_weight *weight; // borrowed
};

/* Statistics of each row, kept from forward to backward. */
struct mt_norm_saved {
    struct mt_tensor mean; // [rows], LayerNorm only
    struct mt_tensor rstd; // [rows]
};

struct mt_norm_saved mt_norm_plan(struct mt_planner *planner, const struct mt_pass *pass,
                                  enum mt_norm_kind kind, int64_t rows);

/* y = norm(x); y may be x itself. */
enum mt_status mt_norm_forward(const struct mt_pass *pass, const struct mt_norm *norm,
                               const struct mt_tensor *x, const struct mt_norm_saved *saved,
                               const struct mt_tensor *y);

/* sum = x + residual, y = norm(sum); sum may be x itself. */
enum mt_status mt_norm_forward_residual(const struct mt_pass *pass, const struct mt_norm *norm,
                                        const struct mt_tensor *x, const struct mt_tensor *residual,
                                        const struct mt_tensor *sum, const struct mt_norm_saved *saved,
                                        const struct mt_tensor *y);

/* x is what was normalised. dx is overwritten (then it may be dy itself), or with add added to. */
enum mt_status mt_norm_backward(const struct mt_pass *pass, const struct mt_norm *norm,
                                const struct mt_tensor *dy, const struct mt_tensor *x,
                                const struct mt_norm_saved *saved, bool add, const struct mt_tensor *dx);

#endif
