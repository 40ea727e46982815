/*
 * Argument checks, the same for every device: kernels then need none. A check looks at types, ranks,
 * dimensions and strides; where the device computes on host memory it also looks into index tensors, because
 * a wild index would be a wild access.
 *
 * What an op takes is a row of its family's table (rows.h): its tensors in the order of its arguments, each
 * with its type and its shape as a string. What a row cannot say is in the row's function, which runs after
 * it.
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
    int64_t letter['z' - 'A' + 1]; // what the letters of the row's shapes stand for, plus 1; 0: not met yet
};

#define MT_ANY (-1) // a dimension that may have any size

/* Checks the arguments of an op; the message names the field. */
enum mt_status mt_op_check(const struct mt_device *device, enum mt_op op, const void *args);

/* Whether all that an op's row calls a float type or f32 is f32, where it is there. */
bool mt_op_is_f32(enum mt_op op, const void *args);

/* A check inside another one: of an op that the other one contains. */
void mt_check_op(struct mt_check *c, enum mt_op op, const void *args);

/* The dimension a letter of the row stands for; 0 where no tensor that is there has it. */
int64_t mt_check_dim(const struct mt_check *c, char letter);

/* A required tensor: type, rank, dimensions (MT_ANY: free), last stride 1, rows not overlapping. */
void mt_check_1d(struct mt_check *c, const char *name, const struct mt_tensor *tensor,
                 enum mt_check_type type, int64_t d0);
void mt_check_2d(struct mt_check *c, const char *name, const struct mt_tensor *tensor,
                 enum mt_check_type type, int64_t d0, int64_t d1);
void mt_check_3d(struct mt_check *c, const char *name, const struct mt_tensor *tensor,
                 enum mt_check_type type, int64_t d0, int64_t d1, int64_t d2);

/* The same of any rank, with `dims` for each dimension. */
void mt_check_tensor(struct mt_check *c, const char *name, const struct mt_tensor *tensor,
                     enum mt_check_type type, int rank, const int64_t *dims);

/* A tensor of any rank from 1 to 3, shaped as `like` unless that is NULL. */
void mt_check_like(struct mt_check *c, const char *name, const struct mt_tensor *tensor,
                   enum mt_check_type type, const struct mt_tensor *like);

/* At most so many dimensions, where the tensor is present. */
void mt_check_rank(struct mt_check *c, const char *name, const struct mt_tensor *tensor, int most);

/* A tensor that a row calls optional and that has to be there all the same. */
void mt_check_there(struct mt_check *c, const char *name, const struct mt_tensor *tensor);

/* Every element in [low, high); skipped where the tensor is not in host memory. */
void mt_check_range(struct mt_check *c, const char *name, const struct mt_tensor *index, int64_t low,
                    int64_t high);

/* offsets[0] = 0, never falling, the last one at most `limit`; skipped off the host. */
void mt_check_offsets(struct mt_check *c, const char *name, const struct mt_tensor *offsets, int64_t limit);

/* For scalars: fails with "name is ..., expected ..." unless ok. */
void mt_check_value(struct mt_check *c, bool ok, const char *name, double value, const char *expected);

#endif
