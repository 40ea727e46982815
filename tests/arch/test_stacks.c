/*
 * Experts that lie together: whichever way round a stack has them, each expert's tensor is where the formula
 * of its layout says, is read as it was written, and the stack is written again to the byte.
 */
#include "arch/published/stacks_write.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "support/cmocka_all.h"
#include "support/every_allocation.h"
#include "support/workplace.h"

#define EXPERTS 3
#define WIDTH   64 // d
#define INNER   34 // I: more than a block of rows that is gathered at a time
#define GROUPS  (WIDTH / 32)

static const char config_text[] =
    "{\"model_type\": \"qwen3_moe\", \"hidden_size\": 64, \"moe_intermediate_size\": 34,"
    " \"intermediate_size\": 8, \"num_experts\": 3, \"num_experts_per_tok\": 1, \"num_hidden_layers\": 2,"
    " \"num_attention_heads\": 2, \"num_key_value_heads\": 2, \"head_dim\": 4, \"vocab_size\": 9, "
    "\"max_position_embeddings\": 16,"
    " \"mlp_only_layers\": [1]}";

/* A config whose architecture has its experts as said. */
struct model {
    struct mt_context ctx;
    struct mt_hf_config config;
    struct mt_arch arch;
};

static enum mt_status open_model(struct model *model, bool transposed, bool interleaved)
{
    enum mt_status status =
        mt_hf_config_read(&model->ctx, "config", config_text, sizeof config_text - 1, &model->config);
    if (status != MT_OK) return status;
    model->arch = *model->config.arch;
    model->arch.stored =
        (struct mt_stored_experts){.stacked = true, .transposed = transposed, .interleaved = interleaved};
    model->config.arch = &model->arch;
    return MT_OK;
}

/* One expert's tensors: the rows of each, and what a row has. */
static const struct {
    const char *name;
    enum mt_safetensors_dtype dtype;
    int rank;
    int64_t dim[3];
} kinds[] = {
    {"gate_proj.weight", MT_SAFETENSORS_F32, 2, {INNER, WIDTH}},
    {"up_proj.weight", MT_SAFETENSORS_F32, 2, {INNER, WIDTH}},
    {"gate_proj.bias", MT_SAFETENSORS_BF16, 1, {INNER}},
    {"up_proj.bias", MT_SAFETENSORS_BF16, 1, {INNER}},
    {"down_proj.weight", MT_SAFETENSORS_BF16, 2, {WIDTH, INNER}},
    {"down_proj.bias", MT_SAFETENSORS_F32, 1, {WIDTH}},
    {"gate_proj.weight_blocks", MT_SAFETENSORS_U8, 3, {INNER, GROUPS, 16}},
    {"gate_proj.weight_scales", MT_SAFETENSORS_U8, 2, {INNER, GROUPS}},
    {"up_proj.weight_blocks", MT_SAFETENSORS_U8, 3, {INNER, GROUPS, 16}},
    {"up_proj.weight_scales", MT_SAFETENSORS_U8, 2, {INNER, GROUPS}},
};
#define KINDS   (sizeof kinds / sizeof kinds[0])
#define FLOATS  6 // of these
#define TENSORS (EXPERTS * KINDS)

/* What is declared and written: the tensors, by expert and kind, between two that lie in no stack. */
struct tensors {
    struct mt_safetensors_spec spec[TENSORS + 2];
    char name[TENSORS][96];
    uint8_t *data[TENSORS + 2];
    size_t bytes[TENSORS + 2];
};

static void fill_tensor(struct tensors *tensors, size_t at)
{
    struct mt_safetensors_spec *spec = &tensors->spec[at];
    tensors->bytes[at] = mt_safetensors_dtype_bytes(spec->dtype);
    for (int axis = 0; axis < spec->rank; axis++) tensors->bytes[at] *= (size_t)spec->dim[axis];
    tensors->data[at] = malloc(tensors->bytes[at]);
    assert_non_null(tensors->data[at]);
    for (size_t i = 0; i < tensors->bytes[at]; i++)
        tensors->data[at][i] = (uint8_t)((at * 131 + i * 7 + i / 256 * 3) % 251);
}

static void make_tensors(struct tensors *tensors)
{
    static const char *const others[] = {"model.embed_tokens.weight", "model.norm.weight"};
    memset(tensors, 0, sizeof *tensors);
    for (size_t i = 0; i < TENSORS; i++) {
        const size_t kind = i % KINDS;
        (void)snprintf(tensors->name[i], sizeof tensors->name[i], "model.layers.0.mlp.experts.%zu.%s",
                       i / KINDS, kinds[kind].name);
        tensors->spec[i] = (struct mt_safetensors_spec){
            .name = tensors->name[i], .dtype = kinds[kind].dtype, .rank = kinds[kind].rank};
        memcpy(tensors->spec[i].dim, kinds[kind].dim, sizeof kinds[kind].dim);
    }
    for (size_t i = TENSORS; i < TENSORS + 2; i++)
        tensors->spec[i] = (struct mt_safetensors_spec){
            .name = others[i - TENSORS], .dtype = MT_SAFETENSORS_F32, .rank = 1, .dim = {5}};
    for (size_t i = 0; i < TENSORS + 2; i++) fill_tensor(tensors, i);
}

static void free_tensors(struct tensors *tensors)
{
    for (size_t i = 0; i < TENSORS + 2; i++) free(tensors->data[i]);
}

/* Codes and scales in turns, as a matrix in codes is written, behind all others in their own order. */
static void order_of(struct model *model, const struct tensors *tensors, size_t order[TENSORS + 2])
{
    const char *names[TENSORS + 2];
    size_t all[TENSORS + 2];
    size_t used = 0;
    for (size_t i = 0; i < TENSORS + 2; i++) names[i] = tensors->spec[i].name;
    assert_int_equal(mt_stacks_order(&model->ctx, &model->config, true, names, TENSORS + 2, all), MT_OK);
    for (size_t i = 0; i < TENSORS + 2; i++) {
        bool codes = all[i] < TENSORS && all[i] % KINDS >= FLOATS;
        if (!codes) order[used++] = all[i];
    }
    for (size_t i = 0; i < TENSORS; i++) {
        if (i % KINDS >= FLOATS) order[used++] = i;
    }
    assert_int_equal(used, TENSORS + 2);
}

static enum mt_status write_tensors(struct model *model, const char *directory, const struct tensors *tensors,
                                    const size_t *order, size_t piece)
{
    struct mt_safetensors_spec specs[TENSORS + 2];
    struct mt_stacks_writer writer;
    for (size_t i = 0; i < TENSORS + 2; i++) specs[i] = tensors->spec[order[i]];
    enum mt_status status = mt_stacks_writer_open(&model->ctx, directory, &model->config, true, specs,
                                                  TENSORS + 2, MT_CHECKPOINT_SHARD_BYTES, &writer);
    if (status != MT_OK) return status;
    for (size_t i = 0; i < TENSORS + 2 && status == MT_OK; i++) {
        size_t at = order[i];
        for (size_t done = 0; done < tensors->bytes[at] && status == MT_OK; done += piece) {
            size_t bytes = tensors->bytes[at] - done < piece ? tensors->bytes[at] - done : piece;
            status = mt_stacks_writer_write(&writer, tensors->data[at] + done, bytes);
        }
    }
    if (status == MT_OK) status = mt_stacks_writer_finish(&writer);
    mt_stacks_writer_abandon(&writer);
    return status;
}

/* Byte offset of expert e's element [row, column] in a stack [n, ...]. */
static size_t place_of(const struct model *model, size_t kind, size_t e, int64_t row, int64_t column,
                       int64_t columns)
{
    const struct mt_stored_experts *stored = &model->arch.stored;
    size_t item = mt_safetensors_dtype_bytes(kinds[kind].dtype);
    int64_t rows = kinds[kind].dim[0];
    bool down = strncmp(kinds[kind].name, "down", 4) == 0;
    bool up = strncmp(kinds[kind].name, "up", 2) == 0;
    int64_t parts = down ? 1 : 2;
    int64_t line = down ? row : stored->interleaved ? 2 * row + (up ? 1 : 0) : row + (up ? rows : 0);
    bool transposed = stored->transposed && kinds[kind].rank == 2 && kind < FLOATS;
    int64_t place = transposed ? column * parts * rows + line : line * columns + column;
    return ((size_t)(place) + e * (size_t)(parts * rows * columns)) * item;
}

static void expect_places(const struct model *model, const struct mt_checkpoint *raw,
                          const struct tensors *tensors)
{
    assert_int_equal(raw->tensor_count, 8);
    for (size_t i = 0; i < TENSORS; i++) {
        const size_t kind = i % KINDS;
        struct mt_stack_member member;
        assert_true(mt_stack_member_of(&model->config, tensors->name[i], &member));
        const struct mt_safetensors_tensor *stack = mt_checkpoint_find(raw, member.stack);
        assert_non_null(stack);
        assert_int_equal(stack->rank, kinds[kind].rank + 1);
        assert_int_equal(stack->dim[0], EXPERTS);
        size_t item = mt_safetensors_dtype_bytes(kinds[kind].dtype);
        int64_t columns = (int64_t)(tensors->bytes[i] / item) / kinds[kind].dim[0];
        for (int64_t row = 0; row < kinds[kind].dim[0]; row++) {
            for (int64_t column = 0; column < columns; column++) {
                const char *at =
                    (const char *)stack->data + place_of(model, kind, i / KINDS, row, column, columns);
                assert_memory_equal(at, tensors->data[i] + (size_t)(row * columns + column) * item, item);
            }
        }
    }
}

static void expect_read(const struct mt_checkpoint *opened, const struct tensors *tensors)
{
    assert_true(opened->stacked);
    assert_int_equal(opened->tensor_count, TENSORS + 2);
    for (size_t i = 0; i < TENSORS + 2; i++) {
        const struct mt_safetensors_tensor *found = mt_checkpoint_find(opened, tensors->spec[i].name);
        assert_non_null(found);
        assert_int_equal(found->rank, tensors->spec[i].rank);
        assert_int_equal(found->bytes, tensors->bytes[i]);
        for (int axis = 0; axis < found->rank; axis++)
            assert_int_equal(found->dim[axis], tensors->spec[i].dim[axis]);
        size_t item = mt_safetensors_dtype_bytes(found->dtype);
        int64_t count = (int64_t)(tensors->bytes[i] / item);
        uint8_t *read = malloc(tensors->bytes[i]);
        assert_non_null(read);
        for (int64_t piece = 1; piece <= count; piece = 3 * piece + 2) { // across rows, and within them
            for (int64_t first = 0; first < count; first += piece)
                mt_safetensors_read(found, first, count - first < piece ? count - first : piece,
                                    read + (size_t)first * item);
            assert_memory_equal(read, tensors->data[i], tensors->bytes[i]);
            memset(read, 0, tensors->bytes[i]);
        }
        free(read);
    }
}

static void written_and_read(void **state)
{
    static struct tensors tensors;
    const struct workplace *place = *state;
    static const size_t pieces[] = {1 << 20, 4, 36};
    make_tensors(&tensors);
    for (int way = 0; way < 4; way++) {
        struct model model = {0};
        struct mt_checkpoint raw;
        struct mt_checkpoint opened;
        size_t order[TENSORS + 2];
        mt_context_init(&model.ctx, NULL);
        assert_int_equal(open_model(&model, way % 2 == 1, way / 2 == 1), MT_OK);
        order_of(&model, &tensors, order);
        for (size_t i = 0; i < sizeof pieces / sizeof pieces[0]; i++) {
            workplace_clear(place);
            if (write_tensors(&model, place->directory, &tensors, order, pieces[i]) != MT_OK)
                fail_msg("%s", model.ctx.message);
            assert_int_equal(mt_checkpoint_open(&model.ctx, place->directory, &raw), MT_OK);
            expect_places(&model, &raw, &tensors);
            mt_checkpoint_close(&raw);
            if (mt_stacks_open(&model.ctx, place->directory, &model.config, &opened) != MT_OK)
                fail_msg("%s", model.ctx.message);
            expect_read(&opened, &tensors);
            mt_checkpoint_close(&opened);
        }
        mt_hf_config_free(&model.config);
        assert_int_equal(model.ctx.live_bytes, 0);
    }
    free_tensors(&tensors);
    workplace_clear(place);
}

// ------------------------------------------------------------------ refusals

static void write_raw(const struct workplace *place, const struct mt_safetensors_spec *specs, size_t count)
{
    static const uint8_t zeros[65536];
    struct mt_context ctx;
    struct mt_checkpoint_writer writer;
    mt_context_init(&ctx, NULL);
    workplace_clear(place);
    assert_int_equal(
        mt_checkpoint_writer_open(&ctx, place->directory, specs, count, MT_CHECKPOINT_SHARD_BYTES, &writer),
        MT_OK);
    for (size_t i = 0; i < count; i++) {
        size_t bytes = mt_safetensors_dtype_bytes(specs[i].dtype);
        for (int axis = 0; axis < specs[i].rank; axis++) bytes *= (size_t)specs[i].dim[axis];
        assert_true(bytes <= sizeof zeros);
        if (bytes > 0) assert_int_equal(mt_checkpoint_writer_write(&writer, zeros, bytes), MT_OK);
    }
    assert_int_equal(mt_checkpoint_writer_finish(&writer), MT_OK);
}

#define STACK "model.layers.0.mlp.experts.gate_up_proj"

static void refusals(void **state)
{
    const struct workplace *place = *state;
    static const struct {
        struct mt_safetensors_spec spec[2];
        size_t count;
        const char *said; // NULL: no stack, or one whose matrices are looked at later
    } cases[] = {
        {{{STACK, MT_SAFETENSORS_F32, 3, {4, 6, 2}}},
         1,
         "gate_up_proj is [4, 6, 2], which does not fit gate and up of 3"},
        {{{STACK, MT_SAFETENSORS_F32, 1, {3}}},
         1,
         "gate_up_proj is [3], which does not fit gate and up of 3 experts"},
        {{{STACK, MT_SAFETENSORS_F32, 3, {3, 7, 2}}},
         1,
         "is [3, 7, 2], which does not fit gate and up of 3 experts"},
        {{{STACK "_blocks", MT_SAFETENSORS_U8, 4, {3, 7, 2, 16}}},
         1,
         "is [3, 7, 2, 16], which does not fit gate and up"},
        {{{STACK, MT_SAFETENSORS_F32, 2, {3, 6}},
          {"model.layers.0.mlp.experts.2.up_proj.weight", MT_SAFETENSORS_F32, 1, {3}}},
         2,
         "model.layers.0.mlp.experts.2.up_proj.weight is stored twice: as a tensor of its own, and"},
        {{{STACK, MT_SAFETENSORS_F32, 3, {3, 0, 2}}}, 1, NULL},
        {{{STACK, MT_SAFETENSORS_F32, 5, {3, 4, 1, 2, 1}}}, 1, NULL},
        {{{"model.layers.1.mlp.experts.gate_up_proj", MT_SAFETENSORS_F32, 1, {7}}}, 1, NULL}, // it is dense
        {{{"model.layers.00.mlp.experts.gate_up_proj", MT_SAFETENSORS_F32, 1, {7}}}, 1, NULL},
        {{{"model.layers.9.mlp.experts.gate_up_proj", MT_SAFETENSORS_F32, 1, {7}}}, 1, NULL},
        {{{STACK "_other", MT_SAFETENSORS_F32, 1, {7}}}, 1, NULL},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct model model = {0};
        struct mt_checkpoint opened = {0};
        mt_context_init(&model.ctx, NULL);
        assert_int_equal(open_model(&model, false, i % 2 == 1), MT_OK);
        write_raw(place, cases[i].spec, cases[i].count);
        enum mt_status status = mt_stacks_open(&model.ctx, place->directory, &model.config, &opened);
        assert_int_equal(status == MT_OK, cases[i].said == NULL);
        if (cases[i].said != NULL && strstr(model.ctx.message, cases[i].said) == NULL)
            fail_msg("case %zu: %s", i, model.ctx.message);
        mt_checkpoint_close(&opened);
        mt_hf_config_free(&model.config);
        assert_int_equal(model.ctx.live_bytes, 0);
    }
    workplace_clear(place);
}

/* A stack with a gap, or of unlike members, cannot be declared. */
static void gaps(void **state)
{
    const struct workplace *place = *state;
    struct mt_safetensors_spec specs[] = {
        {"model.layers.0.mlp.experts.0.down_proj.weight", MT_SAFETENSORS_F32, 2, {2, 2}},
        {"model.layers.0.mlp.experts.1.down_proj.weight", MT_SAFETENSORS_F32, 2, {2, 2}},
    };
    for (int i = 0; i < 2; i++) {
        struct model model = {0};
        struct mt_stacks_writer writer;
        mt_context_init(&model.ctx, NULL);
        assert_int_equal(open_model(&model, true, true), MT_OK);
        specs[1].name = i == 0 ? "model.layers.0.mlp.experts.2.down_proj.weight" : specs[1].name;
        specs[1].dtype = i == 0 ? MT_SAFETENSORS_F32 : MT_SAFETENSORS_BF16;
        assert_int_equal(mt_stacks_writer_open(&model.ctx, place->directory, &model.config, true, specs, 2,
                                               MT_CHECKPOINT_SHARD_BYTES, &writer),
                         MT_ERR_UNSUPPORTED);
        assert_non_null(strstr(model.ctx.message, "is stacked with the layer's other experts"));
        mt_hf_config_free(&model.config);
        assert_int_equal(model.ctx.live_bytes, 0);
        assert_int_equal(workplace_entries(place), 0);
        specs[1].name = "model.layers.0.mlp.experts.1.down_proj.weight";
    }
}

static enum mt_status open_once(struct mt_context *ctx, const void *self)
{
    const struct workplace *place = self;
    struct mt_checkpoint opened = {0};
    struct mt_hf_config config = {0};
    enum mt_status status = mt_hf_config_read(ctx, "config", config_text, sizeof config_text - 1, &config);
    if (status == MT_OK) status = mt_stacks_open(ctx, place->directory, &config, &opened);
    mt_checkpoint_close(&opened);
    mt_hf_config_free(&config);
    return status;
}

static void every_allocation_may_fail(void **state)
{
    const struct mt_safetensors_spec spec = {STACK, MT_SAFETENSORS_F32, 3, {3, 4, 2}};
    write_raw(*state, &spec, 1);
    assert_every_allocation_may_fail(open_once, *state, 6);
    workplace_clear(*state);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(written_and_read, workplace_open, workplace_close),
        cmocka_unit_test_setup_teardown(refusals, workplace_open, workplace_close),
        cmocka_unit_test_setup_teardown(gaps, workplace_open, workplace_close),
        cmocka_unit_test_setup_teardown(every_allocation_may_fail, workplace_open, workplace_close),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
