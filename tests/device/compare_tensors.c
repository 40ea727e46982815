/*
 * Compares two safetensors files tensor by tensor.
 *     compare_tensors LIMIT ONE OTHER [norms]
 * Floats may differ by LIMIT times the largest value of the tensor (or, for gradients, by LIMIT² times the
 * largest of all gradients: rounding of what cancels is not an error); integers must be the same. Prints the
 * worst tensor; exit status 1 when a limit is passed or the files hold different tensors.
 *
 * "norms": of gradients alone, or without any of logits and hidden states, ‖difference‖ / ‖tensor‖ of all of
 * them together, which may be LIMIT, of the worst and of the middle tensor, and how many tokens of all layers
 * have other experts: for devices that round.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "formats/safetensors/safetensors.h"

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

// ------------------------------------------------------------------ norms

struct norms {
    double apart, size; // sums of squares
};

static struct norms norms_of(const struct mt_safetensors_tensor *one,
                             const struct mt_safetensors_tensor *other)
{
    struct norms norms = {0};
    for (size_t i = 0; i < count_of(one); i++) {
        double a = value_at(one, i);
        double apart = a - value_at(other, i);
        norms.apart += apart * apart;
        norms.size += a * a;
    }
    return norms;
}

/* Rows of experts.L that do not hold the same ones; they may stand in another order. */
static size_t rerouted(const struct mt_safetensors_tensor *one, const struct mt_safetensors_tensor *other)
{
    size_t slots = one->rank == 2 ? (size_t)one->dim[1] : 1;
    size_t found = 0;
    for (size_t row = 0; slots > 0 && row < count_of(one) / slots; row++) {
        bool same = true;
        for (size_t i = 0; i < slots; i++) {
            bool there = false;
            for (size_t j = 0; j < slots && !there; j++)
                there = value_at(one, row * slots + i) == value_at(other, row * slots + j);
            same = same && there;
        }
        if (!same) found++;
    }
    return found;
}

/* Whether norms are taken of it. */
static bool is_measured(const struct mt_safetensors_tensor *tensor, bool gradients)
{
    if (gradients) return is_gradient(tensor);
    return strcmp(tensor->name, "logits") == 0 || strncmp(tensor->name, "hidden.", strlen("hidden.")) == 0;
}

static int ascending(const void *left, const void *right)
{
    double a = *(const double *)left;
    double b = *(const double *)right;
    return (a > b) - (a < b);
}

static int compare_norms(const struct mt_safetensors *one, const struct mt_safetensors *other, double limit)
{
    struct norms all = {0};
    size_t count = 0;
    size_t tokens = 0;
    size_t otherwise = 0;
    bool gradients = largest_gradient(one) > 0.0;
    double *relative = calloc(one->tensor_count + 1, sizeof *relative);
    if (relative == NULL) return 1;
    for (size_t i = 0; i < one->tensor_count; i++) {
        const struct mt_safetensors_tensor *tensor = &one->tensors[i];
        const struct mt_safetensors_tensor *twin = mt_safetensors_find(other, tensor->name);
        if (!same_shape(tensor, twin)) {
            free(relative);
            printf("%s: missing or of another shape\n", tensor->name);
            return 1;
        }
        if (strncmp(tensor->name, "experts.", strlen("experts.")) == 0) {
            otherwise += rerouted(tensor, twin);
            tokens += (size_t)tensor->dim[0];
        }
        if (!is_measured(tensor, gradients)) continue;
        struct norms norms = norms_of(tensor, twin);
        all.apart += norms.apart;
        all.size += norms.size;
        if (norms.size > 0.0) relative[count++] = sqrt(norms.apart / norms.size);
    }
    qsort(relative, count, sizeof *relative, ascending);
    double together = all.size > 0.0 ? sqrt(all.apart / all.size) : INFINITY;
    printf("%zu %s, together %.5f, worst %.5f, middle %.5f; %zu of %zu tokens go to other experts\n", count,
           gradients ? "gradients" : "tensors", together, count > 0 ? relative[count - 1] : 0.0,
           count > 0 ? relative[count / 2] : 0.0, otherwise, tokens);
    free(relative);
    return together <= limit ? 0 : 1;
}

int main(int argc, char **argv)
{
    struct mt_context ctx;
    struct mt_safetensors one = {0};
    struct mt_safetensors other = {0};
    bool norms = argc == 5 && strcmp(argv[4], "norms") == 0;
    if (argc != 4 && !norms) {
        (void)fprintf(stderr, "usage: compare_tensors LIMIT ONE OTHER [norms]\n");
        return 2;
    }
    mt_context_init(&ctx, NULL);
    enum mt_status status = mt_safetensors_open(&ctx, argv[2], &one);
    if (status == MT_OK) status = mt_safetensors_open(&ctx, argv[3], &other);
    double limit = strtod(argv[1], NULL);
    int failed = 1;
    if (status == MT_OK) failed = norms ? compare_norms(&one, &other, limit) : compare(&one, &other, limit);
    if (status != MT_OK) (void)fprintf(stderr, "compare_tensors: %s\n", ctx.message);
    mt_safetensors_close(&one);
    mt_safetensors_close(&other);
    return failed == 0 ? 0 : 1;
}
