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
};

#define MT_ANY (-1) // a dimension that may have any size

/* Checks the arguments of an op; the message names the field. */
enum mt_status mt_op_check(const struct mt_device *device, enum mt_op op, const void *args);

/* A required tensor: type, rank, dimensions (MT_ANY: free), last stride 1, rows not overlapping. */
enum mt_status mt_check_1d(const struct mt_device *device, const char *name, const struct mt_tensor *tensor,
                           enum mt_check_type type, int64_t d0);
enum mt_status mt_check_2d(const struct mt_device *device, const char *name, const struct mt_tensor *tensor,
                           enum mt_check_type type, int64_t d0, int64_t d1);
enum mt_status mt_check_3d(const struct mt_device *device, const char *name, const struct mt_tensor *tensor,
                           enum mt_check_type type, int64_t d0, int64_t d1, int64_t d2);

/* A tensor of any rank from 1 to 3, shaped as `like` unless that is NULL. */
enum mt_status mt_check_like(const struct mt_device *device, const char *name, const struct mt_tensor *tensor,
                             enum mt_check_type type, const struct mt_tensor *like);

/* Every element in [low, high); skipped where the tensor is not in host memory. */
enum mt_status mt_check_range(const struct mt_device *device, const char *name, const struct mt_tensor *index,
                              int64_t low, int64_t high);

/* offsets[0] = 0, never falling, the last one at most `limit`; skipped off the host. */
enum mt_status mt_check_offsets(const struct mt_device *device, const char *name,
                                const struct mt_tensor *offsets, int64_t limit);

/* For scalars: fails with "name is ..., expected ..." unless ok. */
enum mt_status mt_check_value(const struct mt_device *device, bool ok, const char *name, double value,
                              const char *expected);

/* The experts' matrices: there is one or more, and those that are present have this shape. */
enum mt_status mt_check_experts(const struct mt_device *device, const char *name,
                                const struct mt_tensor *expert, int experts, enum mt_check_type type,
                                int64_t rows, int64_t columns);

/* offsets of so many experts within `rows`. */
enum mt_status mt_check_expert_offsets(const struct mt_device *device, const struct mt_tensor *offsets,
                                       int experts, int64_t rows);

/* The same where they may be absent: one expert then has all rows. */
enum mt_status mt_check_some_offsets(const struct mt_device *device, const struct mt_tensor *offsets,
                                     int experts, int64_t rows);

/* An optional mask of dropout_bits for a [R,columns] matrix, and what it multiplies by. */
enum mt_status mt_check_mask(const struct mt_device *device, const char *name, const struct mt_tensor *mask,
                             float scale, int64_t rows, int64_t columns);

// One function per op, each in the file of its op.
#define MT_CHECK_DECLARE(name)                                                                               \
    enum mt_status mt_check_##name(const struct mt_device *device, const struct mt_##name##_args *args);
MT_OP_LIST(MT_CHECK_DECLARE)
#undef MT_CHECK_DECLARE

#endif
