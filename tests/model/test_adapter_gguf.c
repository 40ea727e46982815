/* Adapters as llama.cpp's files: what is in them, read by a reader of the test's own. */
#include "model/adapters/adapter_gguf.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/files/file.h"
#include "support/cmocka_all.h"
#include "support/drawn_adapter.h"
#include "support/every_allocation.h"
#include "support/opened_model.h"

#define RANK         3
#define MOST_TENSORS 512
#define NAME_BYTES   128

static const char *const everything[] = {"*", NULL};

struct tensor {
    char name[NAME_BYTES];
    uint32_t rank;
    uint64_t dim[4];
    const float *values;
};

struct gguf {
    struct mt_context *ctx;
    void *bytes;
    size_t size, at;
    char architecture[NAME_BYTES];
    float alpha;
    struct tensor tensor[MOST_TENSORS];
    size_t count;
};

static uint64_t number(struct gguf *file, size_t bytes)
{
    uint64_t value = 0;
    assert_true(file->at + bytes <= file->size);
    memcpy(&value, (char *)file->bytes + file->at, bytes);
    file->at += bytes;
    return value;
}

static void text(struct gguf *file, char name[NAME_BYTES])
{
    size_t length = number(file, 8);
    assert_true(length < NAME_BYTES && file->at + length <= file->size);
    memcpy(name, (char *)file->bytes + file->at, length);
    name[length] = '\0';
    file->at += length;
}

static void read_keys(struct gguf *file, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        char key[NAME_BYTES], value[NAME_BYTES] = "";
        text(file, key);
        uint64_t type = number(file, 4);
        assert_true(type == 8 || type == 6);
        if (type == 8) text(file, value);
        uint32_t bits = type == 6 ? (uint32_t)number(file, 4) : 0;
        if (strcmp(key, "general.type") == 0) assert_string_equal(value, "adapter");
        if (strcmp(key, "adapter.type") == 0) assert_string_equal(value, "lora");
        if (strcmp(key, "general.architecture") == 0)
            (void)snprintf(file->architecture, NAME_BYTES, "%s", value);
        if (strcmp(key, "adapter.lora.alpha") == 0) memcpy(&file->alpha, &bits, sizeof bits);
    }
}

static void read_file(struct mt_context *ctx, const char *path, struct gguf *file)
{
    uint64_t offset[MOST_TENSORS];
    *file = (struct gguf){.ctx = ctx};
    assert_int_equal(mt_file_read_all(ctx, path, 1 << 26, &file->bytes, &file->size), MT_OK);
    assert_int_equal(number(file, 4), 0x46554747); // "GGUF"
    assert_int_equal(number(file, 4), 3);
    file->count = number(file, 8);
    assert_true(file->count <= MOST_TENSORS);
    read_keys(file, number(file, 8));
    for (size_t i = 0; i < file->count; i++) {
        struct tensor *tensor = &file->tensor[i];
        text(file, tensor->name);
        tensor->rank = (uint32_t)number(file, 4);
        for (uint32_t d = 0; d < 4; d++) tensor->dim[d] = d < tensor->rank ? number(file, 8) : 1;
        assert_int_equal(number(file, 4), 0);
        offset[i] = number(file, 8);
        assert_int_equal(offset[i] % 32, 0);
    }
    size_t data = (file->at + 31) / 32 * 32;
    for (size_t i = 0; i < file->count; i++) {
        const uint64_t *dim = file->tensor[i].dim;
        file->tensor[i].values = (const float *)(const void *)((char *)file->bytes + data + offset[i]);
        assert_true(data + offset[i] + dim[0] * dim[1] * dim[2] * dim[3] * sizeof(float) <= file->size);
    }
}

static void close_file(struct gguf *file)
{
    mt_release(file->ctx, file->bytes, file->size);
}

static const struct tensor *find(const struct gguf *file, const char *name)
{
    for (size_t i = 0; i < file->count; i++) {
        if (strcmp(file->tensor[i].name, name) == 0) return &file->tensor[i];
    }
    return NULL;
}

/* Makes a model and an adapter with pairs everywhere, the parameters still loaded. */
static void make(const struct workplace *place, const struct mt_arch *arch, const char *const *targets,
                 struct opened_model *opened)
{
    struct mt_train_selection selection = {.lora = targets, .lora_rank = RANK, .lora_alpha = 7.0};
    assert_int_equal(opened_model_make(place, arch, MT_HF_FLOAT32, opened), 0);
    assert_int_equal(opened_model_load(opened, &selection), MT_OK);
    drawn_adapter_fill(&opened->params, 0.5f);
    workplace_remove_folder(place, "adapter");
    assert_int_equal(
        drawn_adapter_write(place, "adapter", &opened->params, &opened->desc, &selection, MT_ADAPTER_AUTO),
        MT_OK);
}

/* The workplace empties files alone. */
static void leave(const struct workplace *place, struct opened_model *opened)
{
    workplace_remove_folder(place, "adapter");
    assert_int_equal(opened_model_close(place, opened), 0);
}

static enum mt_status write(struct mt_context *ctx, const struct workplace *place, bool drop)
{
    char adapter[160], path[160];
    struct mt_adapter_gguf_options options = {
        .adapter = workplace_path(place, "adapter", adapter, sizeof adapter),
        .model = place->directory,
        .path = workplace_path(place, "adapter.gguf", path, sizeof path),
        .drop = drop};
    return mt_adapter_to_gguf(ctx, &options);
}

/* The numbers of a parameter, as the file has them. */
static const float *expect_tensor(const struct gguf *file, const struct mt_param *param, const char *name,
                                  char letter, int experts)
{
    char whole[NAME_BYTES];
    (void)snprintf(whole, sizeof whole, "blk.%d.%s.weight.lora_%c", (int)param->layer, name, letter);
    const struct tensor *tensor = find(file, whole);
    if (tensor == NULL) fail_msg("there is no %s", whole);
    assert_int_equal(tensor->dim[0], param->value.dim[1]);
    assert_int_equal(tensor->dim[1], param->value.dim[0]);
    assert_int_equal(tensor->rank, experts > 0 ? 3 : 2);
    assert_int_equal(tensor->dim[2], experts > 0 ? experts : 1);
    return tensor->values + (param->expert > 0 ? param->expert * mt_tensor_count(&param->value) : 0);
}

/* Every architecture: a tensor for each map of an expert, an expert's numbers in its place. */
static void stacks(void **state)
{
    const struct workplace *place = *state;
    for (size_t at = 0; at < MT_ARCH_COUNT; at++) {
        struct opened_model opened;
        struct gguf file;
        char path[160];
        if (mt_archs[at]->loaders.llama == NULL) continue;
        make(place, mt_archs[at], everything, &opened);
        assert_int_equal(write(&opened.ctx, place, true), MT_OK);
        read_file(&opened.ctx, workplace_path(place, "adapter.gguf", path, sizeof path), &file);
        assert_string_equal(file.architecture, mt_archs[at]->loaders.llama);
        assert_true(file.alpha == 7.0f);
        size_t compared = 0;
        for (size_t i = 0; i < opened.params.trained_count; i++) {
            const struct mt_param *param = &opened.params.trained[i];
            if (param->expert < 0) continue;
            char ending[NAME_BYTES];
            (void)snprintf(ending, sizeof ending, ".%s.lora_", opened.desc.names.down);
            bool down = strstr(param->name, ending) != NULL;
            (void)snprintf(ending, sizeof ending, ".%s.lora_", opened.desc.names.up);
            const char *name = down ? "ffn_down_exps" : "ffn_gate_exps";
            if (strstr(param->name, ending) != NULL) name = "ffn_up_exps";
            char letter = strstr(param->name, ".lora_A.") != NULL ? 'a' : 'b';
            const float *values = expect_tensor(&file, param, name, letter, opened.desc.experts);
            size_t bytes = (size_t)mt_tensor_count(&param->value) * sizeof(float);
            assert_memory_equal(values, param->value.data, bytes);
            compared++;
        }
        assert_true(compared > 0);
        close_file(&file);
        leave(place, &opened);
    }
}

/* Queries of Mixtral: rows j and j + D/2 of a head, which turn together, come side by side. */
static void neighbours(void **state)
{
    static const char *const targets[] = {"q_proj", "v_proj", NULL};
    const struct workplace *place = *state;
    struct opened_model opened;
    struct gguf file;
    char path[160];
    make(place, &mt_arch_mixtral, targets, &opened);
    assert_int_equal(write(&opened.ctx, place, false), MT_OK);
    read_file(&opened.ctx, workplace_path(place, "adapter.gguf", path, sizeof path), &file);
    for (size_t i = 0; i < opened.params.trained_count; i++) {
        const struct mt_param *param = &opened.params.trained[i];
        const float *own = param->value.data;
        bool queries = strstr(param->name, ".q_proj.") != NULL;
        bool is_b = strstr(param->name, ".lora_B.") != NULL;
        const float *values = expect_tensor(&file, param, queries ? "attn_q" : "attn_v", is_b ? 'b' : 'a', 0);
        int64_t columns = param->value.dim[1];
        int64_t half = opened.desc.head_width / 2;
        for (int64_t row = 0; row < param->value.dim[0]; row++) {
            int64_t inside = row % (2 * half);
            int64_t to = row - inside + (inside < half ? 2 * inside : 2 * (inside - half) + 1);
            if (!queries || !is_b) to = row;
            assert_memory_equal(values + to * columns, own + row * columns, (size_t)columns * sizeof *own);
        }
    }
    close_file(&file);
    leave(place, &opened);
}

/* What llama.cpp leaves out is named, refused, and left out if asked. */
static void lacks(void **state)
{
    static const char *const only[] = {"kv_b_proj", NULL};
    const struct workplace *place = *state;
    struct opened_model opened;
    struct gguf file;
    char path[160];
    make(place, &mt_arch_deepseek_v2, everything, &opened);
    assert_int_equal(write(&opened.ctx, place, false), MT_ERR_UNSUPPORTED);
    assert_non_null(strstr(opened.ctx.message, "self_attn.kv_b_proj"));
    assert_non_null(strstr(opened.ctx.message, "lm_head"));
    assert_null(strstr(opened.ctx.message, "o_proj"));
    assert_int_equal(write(&opened.ctx, place, true), MT_OK);
    read_file(&opened.ctx, workplace_path(place, "adapter.gguf", path, sizeof path), &file);
    assert_non_null(find(&file, "blk.0.attn_output.weight.lora_a"));
    assert_null(find(&file, "blk.0.attn_q.weight.lora_a"));
    assert_null(find(&file, "output.weight.lora_a"));
    close_file(&file);
    leave(place, &opened);
    make(place, &mt_arch_deepseek_v2, only, &opened);
    assert_int_equal(write(&opened.ctx, place, true), MT_ERR_UNSUPPORTED);
    assert_non_null(strstr(opened.ctx.message, "applies none"));
    leave(place, &opened);
}

/* Selection biases: those of the base are llama.cpp's, too; others are not. */
static void biases(void **state)
{
    static const char *const targets[] = {"routed_experts", NULL};
    const struct workplace *place = *state;
    struct opened_model opened;
    struct mt_train_selection selection = {.lora = targets, .lora_rank = RANK, .lora_alpha = 7.0};
    make(place, &mt_arch_deepseek_v3, targets, &opened);
    assert_int_equal(write(&opened.ctx, place, false), MT_OK);
    for (int64_t layer = 0; layer < opened.desc.layers; layer++) {
        struct mt_tensor *correction = &opened.params.layer[layer].correction;
        if (!mt_tensor_present(correction)) continue;
        float moved = 0.25f;
        assert_int_equal(mt_device_upload(opened.device, correction->data, &moved, sizeof moved), MT_OK);
    }
    workplace_remove_folder(place, "adapter");
    assert_int_equal(
        drawn_adapter_write(place, "adapter", &opened.params, &opened.desc, &selection, MT_ADAPTER_AUTO),
        MT_OK);
    assert_int_equal(write(&opened.ctx, place, false), MT_ERR_UNSUPPORTED);
    assert_non_null(strstr(opened.ctx.message, "router_bias.safetensors"));
    assert_int_equal(write(&opened.ctx, place, true), MT_OK);
    leave(place, &opened);
}

static enum mt_status run(struct mt_context *ctx, const void *self)
{
    return write(ctx, self, true);
}

static void memory(void **state)
{
    struct opened_model opened;
    make(*state, &mt_arch_deepseek_v2, everything, &opened);
    assert_every_allocation_may_fail(run, *state, 20);
    leave(*state, &opened);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(stacks, workplace_open, workplace_close),
        cmocka_unit_test_setup_teardown(neighbours, workplace_open, workplace_close),
        cmocka_unit_test_setup_teardown(lacks, workplace_open, workplace_close),
        cmocka_unit_test_setup_teardown(biases, workplace_open, workplace_close),
        cmocka_unit_test_setup_teardown(memory, workplace_open, workplace_close),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
