/*
 * Argument checks, one file per op, the same for every device: kernels then need none. A check looks
 * at types, ranks, dimensions and strides; where the device computes on host memory it also looks
 * into index tensors, because a wild index would be a wild access.
 */
#ifndef MT_OPS_CHECK_H
#define MT_OPS_CHECK_H

#include "ops/device.h"

enum mt_check_type {
    MT_CHECK_FLOAT, // any float type
    MT_CHECK_STAT,  // f32 (f64 for ref's finite differences)
    MT_CHECK_INDEX, // i32
    MT_CHECK_F64,
    MT_CHECK_F32, // f32 on every device
    MT_CHECK_BF16,
    MT_CHECK_U8,
};

/* A check under way, and what it has found. After the first failure the functions below do nothing. */
struct mt_check {
    const struct mt_device *device;
    enum mt_status status;
};

#define MT_ANY (-1) // a dimension that may have any size

/* Checks the arguments of an op; the message names the field. */
enum mt_status mt_op_check(const struct mt_device *device, enum mt_op op, const void *args);

/* A required tensor: type, rank, dimensions (MT_ANY: free), last stride 1, rows not overlapping. */
void mt_check_1d(struct mt_check *c, const char *name, const struct mt_tensor *tensor,
                 enum mt_check_type type, int64_t d0);
void mt_check_2d(struct mt_check *c, const char *name, const struct mt_tensor *tensor,
                 enum mt_check_type type, int64_t d0, int64_t d1);
void mt_check_3d(struct mt_check *c, const char *name, const struct mt_tensor *tensor,
                 enum mt_check_type type, int64_t d0, int64_t d1, int64_t d2);

/* The same of tensors that may be absent. */
void mt_check_optional_1d(struct mt_check *c, const char *name, const struct mt_tensor *tensor,
                          enum mt_check_type type, int64_t d0);
void mt_check_optional_2d(struct mt_check *c, const char *name, const struct mt_tensor *tensor,
                          enum mt_check_type type, int64_t d0, int64_t d1);

/* A tensor of any rank from 1 to 3, shaped as `like` unless that is NULL. */
void mt_check_like(struct mt_check *c, const char *name, const struct mt_tensor *tensor,
                   enum mt_check_type type, const struct mt_tensor *like);

/* At most so many dimensions, where the tensor is present. */
void mt_check_rank(struct mt_check *c, const char *name, const struct mt_tensor *tensor, int most);

/* Every element in [low, high); skipped where the tensor is not in host memory. */
void mt_check_range(struct mt_check *c, const char *name, const struct mt_tensor *index, int64_t low,
                    int64_t high);

/* offsets[0] = 0, never falling, the last one at most `limit`; skipped off the host. */
void mt_check_offsets(struct mt_check *c, const char *name, const struct mt_tensor *offsets, int64_t limit);

/* For scalars: fails with "name is ..., expected ..." unless ok. */
void mt_check_value(struct mt_check *c, bool ok, const char *name, double value, const char *expected);

/* The experts' matrices: there is one or more, and those that are present have this shape. */
void mt_check_experts(struct mt_check *c, const char *name, const struct mt_tensor *expert, int experts,
                      enum mt_check_type type, int64_t rows, int64_t columns);

/* offsets of so many experts within `rows`. */
void mt_check_expert_offsets(struct mt_check *c, const struct mt_tensor *offsets, int experts, int64_t rows);

/* The same where they may be absent: one expert then has all rows. */
void mt_check_some_offsets(struct mt_check *c, const struct mt_tensor *offsets, int experts, int64_t rows);

/* An optional mask of dropout_bits for a [R,columns] matrix, and what it multiplies by. */
void mt_check_mask(struct mt_check *c, const char *name, const struct mt_tensor *mask, float scale,
                   int64_t rows, int64_t columns);

/* positions, the cosine and sine tables, and the layout of a rotation of `tokens` rows, `width` wide. */
void mt_check_rotation(struct mt_check *c, const struct mt_tensor *positions, const struct mt_tensor *cosine,
                       const struct mt_tensor *sine, int64_t tokens, int64_t width,
                       enum mt_rope_layout layout);

/* Which tokens count and in which of `segments` groups they are: a mask and segments, both optional. */
void mt_check_tokens(struct mt_check *c, const struct mt_tensor *mask, const struct mt_tensor *segment,
                     int64_t tokens, int64_t segments);

/* The first dimension of statistics over them: free with segments, 1 without. */
static inline int64_t mt_segments_expected(const struct mt_tensor *segment)
{
    return mt_tensor_present(segment) ? MT_ANY : 1;
}

// One function per op, each in the file of its op.
#define MT_CHECK_DECLARE(name) void mt_check_##name(struct mt_check *c, const struct mt_##name##_args *args);
MT_OP_LIST(MT_CHECK_DECLARE)
#undef MT_CHECK_DECLARE

#endif
