/* A file with holes for a model's weights, and random numbers in their place on the device. */
#include "hollow_model.h"

#include <inttypes.h>
#include <stdio.h>
#include <unistd.h>

#include "base/rng.h"
#include "metier/ops.h"
#include "tensor/dtype.h"

enum { PATH_BYTES = 4096, PIECE = 1 << 22 };

static enum mt_status copy_config(struct mt_context *ctx, const char *config, const char *folder)
{
    char path[PATH_BYTES];
    char piece[65536];
    (void)snprintf(path, sizeof path, "%s/config.json", folder);
    FILE *from = fopen(config, "rb");
    FILE *to = fopen(path, "wb");
    size_t count = from != NULL && to != NULL ? fread(piece, 1, sizeof piece, from) : 0;
    bool whole = count > 0 && count < sizeof piece && fwrite(piece, 1, count, to) == count;
    if (from != NULL) (void)fclose(from);
    if (to != NULL && fclose(to) != 0) whole = false;
    return whole ? MT_OK : mt_fail(ctx, MT_ERR_IO, "cannot copy %s to %s", config, path);
}

/* The header's JSON text into `file`, after room for its length; returns the bytes of all tensors. */
static int64_t print_header(FILE *file, const struct mt_hf_config *config)
{
    struct mt_model_tensors walk = mt_model_tensors_begin(config);
    struct mt_model_tensor tensor;
    int64_t offset = 0;
    const char *comma = "";
    (void)fprintf(file, "{");
    while (mt_model_tensors_next(&walk, &tensor)) {
        int64_t bytes = 2 * mt_model_tensor_count(&tensor);
        (void)fprintf(file, "%s\"%s\":{\"dtype\":\"BF16\",\"shape\":[%" PRId64, comma, tensor.name,
                      tensor.dim[0]);
        if (tensor.rank == 2) (void)fprintf(file, ",%" PRId64, tensor.dim[1]);
        (void)fprintf(file, "],\"data_offsets\":[%" PRId64 ",%" PRId64 "]}", offset, offset + bytes);
        offset += bytes;
        comma = ",";
    }
    (void)fprintf(file, "}");
    return offset;
}

enum mt_status hollow_model_write(struct mt_context *ctx, const char *config, const char *folder,
                                  bool *shared)
{
    struct mt_hf_config parsed;
    char path[PATH_BYTES];
    enum mt_status status = copy_config(ctx, config, folder);
    if (status == MT_OK) status = mt_hf_config_read(ctx, config, NULL, 0, &parsed);
    if (status != MT_OK) return status;
    (void)snprintf(path, sizeof path, "%s/model.safetensors", folder);
    FILE *file = fopen(path, "wb");
    bool whole = file != NULL;
    if (whole) {
        uint64_t length = 0;
        whole = fwrite(&length, sizeof length, 1, file) == 1; // its place
        int64_t data = print_header(file, &parsed);
        while (ftell(file) % 8 != 0) (void)fputc(' ', file);
        int64_t end = ftell(file);
        length = (uint64_t)end - sizeof length;
        whole = whole && fseek(file, 0, SEEK_SET) == 0 && fwrite(&length, sizeof length, 1, file) == 1;
        whole = whole && fflush(file) == 0 && ftruncate(fileno(file), end + data) == 0;
        whole = fclose(file) == 0 && whole;
    }
    *shared = parsed.shared_experts > 0;
    mt_hf_config_free(&parsed);
    return whole ? MT_OK : mt_fail(ctx, MT_ERR_IO, "cannot write %s", path);
}

/* The device's own copies of frozen weights, bf16 all of them: one drawn piece, then copies of it. */
enum mt_status hollow_model_fill(struct mt_model *model)
{
    struct mt_device *device = mt_model_device(model);
    struct mt_context *ctx = mt_device_context(device);
    const struct mt_buffer *copies = &mt_model_params(model)->copies;
    int64_t count = (int64_t)(copies->bytes / sizeof(uint16_t));
    struct mt_tensor all = mt_tensor_1d(copies->data, MT_BF16, count);
    int64_t drawn = count < PIECE ? count : PIECE;
    void *memory = NULL;
    enum mt_status status = mt_allocate_array(ctx, PIECE, sizeof(uint16_t), &memory);
    if (status != MT_OK) return status;
    uint16_t *piece = memory;
    for (int64_t i = 0; i < drawn; i++) piece[i] = mt_float_to_bf16(0.02f * mt_rng_normal(1, 2, (uint64_t)i));
    status = mt_device_upload(device, all.data, piece, (size_t)drawn * sizeof *piece);
    mt_release(ctx, memory, PIECE * sizeof *piece);
    for (int64_t first = drawn; first < count && status == MT_OK; first += drawn) {
        int64_t left = count - first < drawn ? count - first : drawn;
        status = mt_copy(device, &(struct mt_copy_args){.x = mt_tensor_rows(&all, 0, left),
                                                        .y = mt_tensor_rows(&all, first, left)});
    }
    return status;
}
