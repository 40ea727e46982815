/*
 * The weights of a quantised folder as it was published: which tensors of the files make up one weight, and
 * whether they fit together. Numbers are not changed on the way: whoever loads a weight takes its codes and
 * scales as they lie.
 *
 *     fp8     X.weight F8_E4M3 [out,in], X.weight_scale_inv [out/128, in/128] in F32, BF16 or F8_E8M0
 *     nf4     X.weight U8 [out*in/2, 1], two codes a byte, the first in the upper half; X.weight.absmax, one
 *             for each 64, in F32, or U8 with nested_absmax F32, one for each 256, and nested_quant_map;
 *             X.weight.quant_map; X.weight.quant_state.bitsandbytes__nf4, a JSON text in bytes
 *     mxfp4   X.weight_blocks U8 [out, in/32, 16], two codes a byte, the first in the lower half, and
 *             X.weight_scales U8 [out, in/32]; gpt-oss has all experts of a layer together (stacks.h)
 *
 * A weight that is none of these is stored as floats.
 */
#ifndef MT_ARCH_PUBLISHED_H
#define MT_ARCH_PUBLISHED_H

#include "arch/model_tensors.h"
#include "formats/safetensors/checkpoint.h"
#include "tensor/quantised.h"

enum mt_published_part {
    MT_PUBLISHED_CODES,
    MT_PUBLISHED_SCALES,
    MT_PUBLISHED_NESTED_SCALES, // this and the rest: nf4 only
    MT_PUBLISHED_NESTED_MAP,
    MT_PUBLISHED_MAP,
    MT_PUBLISHED_STATE,
    MT_PUBLISHED_PARTS
};

#define MT_PUBLISHED_NAME_BYTES (MT_MODEL_NAME_BYTES + 96)

/* What the parts of a weight are called; an empty text: the format has no such part. */
struct mt_published_names {
    char text[MT_PUBLISHED_PARTS][MT_PUBLISHED_NAME_BYTES];
};

struct mt_published {
    bool quantised;                                               // false: floats
    const struct mt_safetensors_tensor *part[MT_PUBLISHED_PARTS]; // borrowed; NULL: it has no such part
    float offset;                                                 // nf4's nested_offset
    enum mt_hf_float dtype; // nf4: what it was in floats, and is again in bitsandbytes
    struct mt_quantised
        matrix; // shapes; data where the file has it as it is read, NULL where it must be made
};

/* The names of a weight's parts in this format, where `name` is that of the weight in floats. */
void mt_published_names(enum mt_hf_quant_method method, const char *name, struct mt_published_names *names);

/*
 * The parts of a weight, all there and fitting each other: names, shapes, types, and what nf4's state says.
 * MT_ERR_FORMAT, with a sentence that begins after the weight's name, where they are not. Of a weight that
 * is not there at all no part is found.
 */
enum mt_status mt_published_find(const struct mt_hf_config *config, const struct mt_checkpoint *checkpoint,
                                 const struct mt_model_tensor *tensor, struct mt_published *published);

/* Refuses scales that are negative or no numbers; reads them all. */
enum mt_status mt_published_check_values(struct mt_context *ctx, const struct mt_published *published);

/* Tensor `which` of the matrix (mt_quantised_each), as it is read, into memory of its size. */
void mt_published_copy(const struct mt_published *published, int which, void *target);

// ------------------------------------------------------------------ whole matrices, on the host

/* A published matrix with all its data; what the file does not hold as it is read lies in memory of its own.
 */
struct mt_published_matrix {
    struct mt_quantised matrix;
    void *memory;
    size_t bytes;
};

/* Checks the values, too. The caller closes; after a failure there is nothing to close. */
enum mt_status mt_published_matrix_open(struct mt_context *ctx, const struct mt_published *published,
                                        struct mt_published_matrix *matrix);
void mt_published_matrix_close(struct mt_context *ctx, struct mt_published_matrix *matrix);

#endif
