/* Streams of random numbers and views of memory, for all layers. */
#include "model/pass.h"

#include <assert.h>

#include "metier/ops.h"
#include "model/layers/cache.h"
#include "model/replay.h"

#define PURPOSE_SHIFT 40                    // layers stay far below 2^40
#define GOLDEN        0x9E3779B97F4A7C15ull // 2^64 / golden ratio: neighbouring numbers end far apart

/* A bijection that leaves no pattern of its input (Stafford's thirteenth variant of the murmur finaliser). */
static uint64_t scramble(uint64_t value)
{
    value = (value ^ (value >> 30)) * 0xBF58476D1CE4E5B9ull;
    value = (value ^ (value >> 27)) * 0x94D049BB133111EBull;
    return value ^ (value >> 31);
}

static uint64_t stream_of_step(uint64_t step, uint64_t stream)
{
    return scramble(stream + scramble(step + GOLDEN));
}

static uint64_t stream_of_layer(enum mt_pass_stream purpose, int64_t layer)
{
    return scramble(((uint64_t)purpose << PURPOSE_SHIFT) + (uint64_t)layer + GOLDEN);
}

bool mt_pass_needs(const struct mt_pass *pass, enum mt_term_needs what)
{
    return pass->moe.method != NULL && (mt_objective_needs(pass->moe.method) & (int)what) != 0;
}

uint64_t mt_pass_stream_now(const struct mt_pass *pass, uint64_t stream)
{
    return stream_of_step(pass->step, stream);
}

uint64_t mt_pass_layer_stream(const struct mt_pass *pass, enum mt_pass_stream purpose, int64_t layer)
{
    return stream_of_step(pass->step, stream_of_layer(purpose, layer));
}

uint64_t mt_pass_sequence_stream(const struct mt_pass *pass, enum mt_pass_stream purpose, int64_t layer)
{
    return stream_of_step(pass->moe.whole_step, stream_of_layer(purpose, layer));
}

struct mt_tensor mt_pass_view(const struct mt_tensor *flat, int64_t rows, int64_t columns)
{
    assert(rows * columns <= mt_tensor_count(flat));
    return mt_tensor_2d(flat->data, flat->dtype, rows, columns);
}

bool mt_pass_is_short(const struct mt_pass *pass)
{
    return pass->cached.sequence != NULL && pass->tokens <= MT_REPLAY_TOKENS &&
           pass->cached.prompt_tokens == 0 && !pass->training;
}

struct mt_tensor mt_pass_heads(const struct mt_tensor *x, int64_t heads)
{
    assert(x->rank == 2 && mt_tensor_is_contiguous(x) && x->dim[1] % heads == 0);
    return mt_tensor_3d(x->data, x->dtype, x->dim[0], heads, x->dim[1] / heads);
}

enum mt_status mt_pass_remember(const struct mt_pass *pass, const struct mt_tensor *rows,
                                const struct mt_tensor *cache)
{
    return mt_copy(pass->device,
                   &(struct mt_copy_args){.x = *rows, .y = *cache, .place = pass->cached.places});
}

enum mt_status mt_pass_rotate(const struct mt_pass *pass, const struct mt_tensor *x, int64_t first,
                              bool inverse, const struct mt_tensor *y)
{
    return mt_rope(pass->device,
                   &(struct mt_rope_args){.x = *x,
                                          .y = *y,
                                          .positions = mt_tensor_rows(&pass->positions, first, x->dim[0]),
                                          .cosine = pass->cosine,
                                          .sine = pass->sine,
                                          .layout = pass->desc->rope_layout,
                                          .inverse = inverse});
}
