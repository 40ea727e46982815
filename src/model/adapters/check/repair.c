/* An adapter written again: every tensor as it is, but for names, and stacks whose values lie elsewhere. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/compare.h"
#include "base/files/file.h"
#include "formats/safetensors/safetensors_writer.h"
#include "model/adapters/check/check_parts.h"
#include "model/adapters/router_bias.h"
#include "model/files/carried_files.h"

#define MOST_BIAS_BYTES ((size_t)1 << 30)

/* One tensor of the result. */
struct mended {
    const struct mt_safetensors_tensor *stored;
    const struct mt_checked_pair *pair; // NULL: no half of one
    bool is_a;
};

/* Whether the values of a pair lie elsewhere in the result. */
static bool moves(const struct mt_checked_adapter *checked, const struct mt_checked_pair *pair)
{
    return mt_checked_is_stack(pair) && (pair->swapped || checked->order == MT_COLUMNS_BY_EXPERT);
}

static const struct mt_checked_pair *pair_of(const struct mt_checked_adapter *checked,
                                             const struct mt_safetensors_tensor *stored)
{
    for (size_t i = 0; i < checked->pair_count; i++) {
        if (checked->pair[i].a == stored || checked->pair[i].b == stored) return &checked->pair[i];
    }
    return NULL;
}

static enum mt_status name_tensor(const struct mended *mended, struct mt_arena *arena, const char **name)
{
    char text[MT_PARAMS_NAME_BYTES + 64];
    const struct mt_checked_pair *pair = mended->pair;
    *name = mended->stored->name;
    if (pair == NULL || !pair->renamed) return MT_OK;
    char letter = mended->is_a ? 'A' : 'B';
    int length = 0;
    if (mt_checked_is_stack(pair)) {
        bool inner = mt_ends_with(pair->name, ".base_layer");
        length = snprintf(text, sizeof text,
                          MT_ADAPTER_NAME_PREFIX "model.layers.%lld.mlp.experts%s.lora_%c.weight",
                          (long long)pair->layer, inner ? ".base_layer" : "", letter);
    } else {
        length =
            snprintf(text, sizeof text, MT_ADAPTER_NAME_PREFIX "%s.lora_%c.weight", pair->module, letter);
    }
    return mt_arena_copy_text(arena, text, (size_t)length, name);
}

static void shape_tensor(const struct mended *mended, struct mt_safetensors_spec *spec)
{
    spec->dtype = mended->stored->dtype;
    spec->rank = mended->stored->rank;
    memcpy(spec->dim, mended->stored->dim, sizeof spec->dim);
    if (mended->pair == NULL || !mended->pair->swapped) return;
    const struct mt_checked_pair *pair = mended->pair;
    spec->dtype = mended->is_a ? pair->b->dtype : pair->a->dtype;
    spec->dim[0] = mended->is_a ? pair->experts * pair->rank : pair->out;
    spec->dim[1] = mended->is_a ? pair->in : pair->experts * pair->rank;
}

/* The values of a stack's A or B as PEFT 0.19 has them, from where they lie: `to` is as large as the result.
 */
static void move_values(const struct mt_checked_adapter *checked, const struct mended *mended, char *to)
{
    const struct mt_checked_pair *pair = mended->pair;
    const struct mt_safetensors_tensor *from = mended->is_a == pair->swapped ? pair->b : pair->a;
    size_t size = mt_safetensors_dtype_bytes(from->dtype);
    int64_t ranks = pair->experts * pair->rank;
    int64_t width = mended->is_a ? pair->in : pair->out;
    bool by_expert = checked->order == MT_COLUMNS_BY_EXPERT;
    for (int64_t e = 0; e < pair->experts; e++) {
        for (int64_t k = 0; k < pair->rank; k++) {
            int64_t row = e * pair->rank + k; // of A
            int64_t column = k * pair->experts + e;
            int64_t stored = by_expert ? row : column; // of B
            for (int64_t i = 0; i < width; i++) {
                int64_t source = from == pair->a ? row * width + i : i * ranks + stored;
                int64_t target = mended->is_a ? row * width + i : i * ranks + column;
                memcpy(to + (size_t)target * size, (const char *)from->data + (size_t)source * size, size);
            }
        }
    }
}

static enum mt_status write_one(const struct mt_checked_adapter *checked, const struct mended *mended,
                                struct mt_safetensors_writer *writer)
{
    if (mended->pair == NULL || !moves(checked, mended->pair))
        return mt_safetensors_writer_write(writer, mended->stored->data, mended->stored->bytes);
    const struct mt_checked_pair *pair = mended->pair;
    const struct mt_safetensors_tensor *from = mended->is_a == pair->swapped ? pair->b : pair->a;
    void *memory = NULL;
    enum mt_status status = mt_allocate(checked->ctx, from->bytes, &memory);
    if (status != MT_OK) return status;
    move_values(checked, mended, memory);
    status = mt_safetensors_writer_write(writer, memory, from->bytes);
    mt_release(checked->ctx, memory, from->bytes);
    return status;
}

static enum mt_status write_weights(const struct mt_checked_adapter *checked, struct mt_arena *arena,
                                    const char *path)
{
    const struct mt_safetensors *file = &checked->read.file;
    struct mt_safetensors_writer writer = {0};
    enum mt_status status = MT_OK;
    struct mended *mended = mt_arena_array(arena, file->tensor_count, sizeof *mended, &status);
    struct mt_safetensors_spec *specs = mt_arena_array(arena, file->tensor_count, sizeof *specs, &status);
    for (size_t i = 0; i < file->tensor_count && status == MT_OK; i++) {
        const struct mt_safetensors_tensor *stored = &file->tensors[i];
        const struct mt_checked_pair *pair = pair_of(checked, stored);
        mended[i] =
            (struct mended){.stored = stored, .pair = pair, .is_a = pair != NULL && pair->a == stored};
        shape_tensor(&mended[i], &specs[i]);
        status = name_tensor(&mended[i], arena, &specs[i].name);
    }
    if (status == MT_OK)
        status = mt_safetensors_writer_open(checked->ctx, path, specs, file->tensor_count, file->metadata,
                                            file->metadata_count, &writer);
    for (size_t i = 0; i < file->tensor_count && status == MT_OK; i++)
        status = write_one(checked, &mended[i], &writer);
    if (status == MT_OK) status = mt_safetensors_writer_finish(&writer);
    mt_safetensors_writer_abandon(&writer);
    return status;
}

static enum mt_status copy_biases(const struct mt_checked_adapter *checked, const char *directory)
{
    struct mt_context *ctx = checked->ctx;
    char *from = NULL;
    char *to = NULL;
    void *bytes = NULL;
    size_t count = 0;
    if (!checked->biases) return MT_OK;
    enum mt_status status = mt_path_join(ctx, checked->directory, MT_ROUTER_BIAS_OF_ADAPTER, &from);
    if (status == MT_OK) status = mt_path_join(ctx, directory, MT_ROUTER_BIAS_OF_ADAPTER, &to);
    if (status == MT_OK) status = mt_file_read_all(ctx, from, MOST_BIAS_BYTES, &bytes, &count);
    if (status == MT_OK) status = mt_file_write_all(ctx, to, bytes, count);
    mt_release(ctx, bytes, count);
    mt_path_release(ctx, from);
    mt_path_release(ctx, to);
    return status;
}

/* Refuses what cannot be mended. */
static enum mt_status check_findings(const struct mt_checked_adapter *checked)
{
    struct mt_findings findings;
    mt_checked_find(checked, &findings);
    for (int i = 0; i < findings.count; i++) {
        const struct mt_finding *finding = &findings.finding[i];
        if (finding->mends) continue;
        return mt_fail(checked->ctx, MT_ERR_UNSUPPORTED, "%s: metier cannot be sure how to repair %s: %s",
                       checked->directory, finding->name, finding->text);
    }
    return MT_OK;
}

enum mt_status mt_checked_repair(const struct mt_checked_adapter *checked, const char *directory)
{
    static const struct mt_config_change unchanged = {0};
    struct mt_context *ctx = checked->ctx;
    struct mt_arena arena;
    char *path = NULL;
    size_t count = 0;
    mt_arena_init(&arena, ctx, 65536);
    enum mt_status status = check_findings(checked);
    if (status == MT_OK)
        status = mt_model_carry_files(ctx, checked->directory, directory, &unchanged, &count);
    if (status == MT_OK) status = copy_biases(checked, directory);
    if (status == MT_OK) status = mt_path_join(ctx, directory, MT_ADAPTER_WEIGHTS, &path);
    if (status == MT_OK) status = write_weights(checked, &arena, path);
    mt_path_release(ctx, path);
    mt_arena_free(&arena);
    return status;
}
