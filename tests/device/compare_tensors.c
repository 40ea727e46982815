/*
 * Compares two safetensors files tensor by tensor.
 *     compare_tensors LIMIT ONE OTHER
 * Floats may differ by LIMIT times the largest value of the tensor (or, for gradients, by LIMIT² times the
 * largest of all gradients: rounding of what cancels is not an error); integers must be the same. Prints the
 * worst tensor; exit status 1 when a limit is passed or the files hold different tensors.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "formats/safetensors.h"

static double value_at(const struct mt_safetensors_tensor *tensor, size_t i)
{
    float single = 0.0f;
    double value = 0.0;
    int32_t integer = 0;
    switch (tensor->dtype) {
    case MT_SAFETENSORS_F32:
        memcpy(&single, (const char *)tensor->data + i * sizeof single, sizeof single);
        return (double)single;
    case MT_SAFETENSORS_F64:
        memcpy(&value, (const char *)tensor->data + i * sizeof value, sizeof value);
        return value;
    case MT_SAFETENSORS_I32:
        memcpy(&integer, (const char *)tensor->data + i * sizeof integer, sizeof integer);
        return (double)integer;
    default: break;
    }
    (void)fprintf(stderr, "compare_tensors: %s is %s, expected F32, F64 or I32\n", tensor->name,
                  mt_safetensors_dtype_name(tensor->dtype));
    exit(2);
}

static size_t count_of(const struct mt_safetensors_tensor *tensor)
{
    return (size_t)tensor->bytes / mt_safetensors_dtype_bytes(tensor->dtype);
}

static bool is_gradient(const struct mt_safetensors_tensor *tensor)
{
    return strncmp(tensor->name, "grad.", strlen("grad.")) == 0;
}

static double largest_of(const struct mt_safetensors_tensor *tensor)
{
    double largest = 0.0;
    for (size_t i = 0; i < count_of(tensor); i++) largest = fmax(largest, fabs(value_at(tensor, i)));
    return largest;
}

static double largest_gradient(const struct mt_safetensors *file)
{
    double largest = 0.0;
    for (size_t i = 0; i < file->tensor_count; i++) {
        if (is_gradient(&file->tensors[i])) largest = fmax(largest, largest_of(&file->tensors[i]));
    }
    return largest;
}

/* Largest difference; infinite where one side is not a number, or integers differ. */
static double difference(const struct mt_safetensors_tensor *one, const struct mt_safetensors_tensor *other)
{
    double largest = 0.0;
    for (size_t i = 0; i < count_of(one); i++) {
        double a = value_at(one, i);
        double b = value_at(other, i);
        if (a == b) continue;
        double apart = fabs(a - b);
        if (!(apart >= 0.0) || one->dtype == MT_SAFETENSORS_I32) return INFINITY;
        largest = fmax(largest, apart);
    }
    return largest;
}

static bool same_shape(const struct mt_safetensors_tensor *one, const struct mt_safetensors_tensor *other)
{
    bool same = other != NULL && one->dtype == other->dtype && one->rank == other->rank;
    for (int axis = 0; same && axis < one->rank; axis++) same = one->dim[axis] == other->dim[axis];
    return same;
}

/* Returns the number of tensors past the limit. */
static int compare(const struct mt_safetensors *one, const struct mt_safetensors *other, double limit)
{
    double gradient = largest_gradient(one);
    double worst = 0.0;
    const char *worst_name = "none";
    int failed = one->tensor_count == other->tensor_count ? 0 : 1;
    for (size_t i = 0; i < one->tensor_count; i++) {
        const struct mt_safetensors_tensor *tensor = &one->tensors[i];
        const struct mt_safetensors_tensor *twin = mt_safetensors_find(other, tensor->name);
        if (!same_shape(tensor, twin)) {
            printf("%s: missing or of another shape\n", tensor->name);
            failed++;
            continue;
        }
        double apart = difference(tensor, twin);
        if (apart == 0.0) continue;
        double size = fmax(largest_of(tensor), is_gradient(tensor) ? limit * gradient : 0.0);
        double relative = size > 0.0 ? apart / size : INFINITY;
        if (relative > worst) {
            worst = relative;
            worst_name = tensor->name;
        }
        if (relative <= limit) continue;
        if (failed < 5) printf("%s: differs by %g of its largest value\n", tensor->name, relative);
        failed++;
    }
    printf("%zu tensors, worst %.3g (%s), %d past the limit\n", one->tensor_count, worst, worst_name, failed);
    return failed;
}

int main(int argc, char **argv)
{
    struct mt_context ctx;
    struct mt_safetensors one = {0};
    struct mt_safetensors other = {0};
    if (argc != 4) {
        (void)fprintf(stderr, "usage: compare_tensors LIMIT ONE OTHER\n");
        return 2;
    }
    mt_context_init(&ctx, NULL);
    enum mt_status status = mt_safetensors_open(&ctx, argv[2], &one);
    if (status == MT_OK) status = mt_safetensors_open(&ctx, argv[3], &other);
    int failed = status == MT_OK ? compare(&one, &other, strtod(argv[1], NULL)) : 1;
    if (status != MT_OK) (void)fprintf(stderr, "compare_tensors: %s\n", ctx.message);
    mt_safetensors_close(&one);
    mt_safetensors_close(&other);
    return failed == 0 ? 0 : 1;
}
