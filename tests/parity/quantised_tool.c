/*
 * Quantised matrices for quantised_parity.py:
 *
 *   quantised_tool quantise FORMAT double|single OUT IN < f32 numbers > codes, scales, nested scales and
 * offset quantised_tool dequantise FORMAT double|single OUT IN < the same, and the map behind it > f32
 * numbers quantised_tool map > the 256 f32 numbers of nested codes
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tensor/quantised.h"

static int fail(const char *text)
{
    (void)fprintf(stderr, "quantised_tool: %s\n", text);
    return 2;
}

static size_t bytes_of(const struct mt_tensor *tensor)
{
    return (size_t)mt_tensor_count(tensor) * mt_dtype_bytes(tensor->dtype);
}

/* Its tensors one after the other, all there or of no bytes: read or written. */
static bool move_parts(struct mt_quantised *matrix, bool reads, int count)
{
    struct mt_tensor *parts[MT_QUANTISED_TENSORS];
    mt_quantised_each(matrix, parts);
    for (int i = 0; i < count; i++) {
        size_t bytes = bytes_of(parts[i]);
        if (bytes == 0) continue;
        size_t moved =
            reads ? fread(parts[i]->data, 1, bytes, stdin) : fwrite(parts[i]->data, 1, bytes, stdout);
        if (moved != bytes) return false;
    }
    return true;
}

static int run(bool quantises, struct mt_quantised *matrix, float *values, size_t count)
{
    if (!quantises) {
        if (!move_parts(matrix, true, MT_QUANTISED_TENSORS)) return fail("input ends early");
        mt_dequantise(matrix, MT_F32, values);
        return fwrite(values, sizeof *values, count, stdout) == count ? 0 : fail("cannot write");
    }
    if (fread(values, sizeof *values, count, stdin) != count) return fail("input ends early");
    if (matrix->nested_map.data != NULL) mt_nf4_nested_map(matrix->nested_map.data);
    if (!mt_quantise(MT_F32, values, matrix)) return fail("a number is not finite");
    return move_parts(matrix, false, MT_QUANTISED_TENSORS - 1) ? 0 : fail("cannot write");
}

int main(int argc, char **argv)
{
    if (argc == 2 && strcmp(argv[1], "map") == 0) {
        float map[MT_NF4_NESTED_CODES];
        mt_nf4_nested_map(map);
        return fwrite(map, sizeof map, 1, stdout) == 1 ? 0 : fail("cannot write");
    }
    if (argc != 6) return fail("expected quantise|dequantise FORMAT double|single OUT IN");
    int format = 0;
    while (format < MT_QUANTISED_FORMATS &&
           strcmp(mt_quantised_name((enum mt_quantised_format)format), argv[2]) != 0)
        format++;
    if (format == MT_QUANTISED_FORMATS) return fail("no such format");
    bool nested = strcmp(argv[3], "double") == 0;
    struct mt_quantised matrix = mt_quantised_shape((enum mt_quantised_format)format, nested,
                                                    strtoll(argv[4], NULL, 10), strtoll(argv[5], NULL, 10));
    struct mt_tensor *parts[MT_QUANTISED_TENSORS];
    mt_quantised_each(&matrix, parts);
    for (int i = 0; i < MT_QUANTISED_TENSORS; i++) {
        if (bytes_of(parts[i]) > 0) parts[i]->data = calloc(1, bytes_of(parts[i]));
    }
    size_t count = (size_t)(matrix.out * matrix.in);
    float *values = calloc(count, sizeof *values);
    int status = values != NULL ? run(strcmp(argv[1], "quantise") == 0, &matrix, values, count) : 2;
    for (int i = 0; i < MT_QUANTISED_TENSORS; i++) free(parts[i]->data);
    free(values);
    return status;
}
