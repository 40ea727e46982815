/* generation_config.json: when to stop, and how the model's authors sample. */
#ifndef MT_FORMATS_HF_GENERATION_H
#define MT_FORMATS_HF_GENERATION_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/arena.h"
#include "metier/context.h"

struct mt_hf_generation {
    struct mt_arena arena; // owns the list
    const int64_t *eos;    // every id that ends a text
    size_t eos_count;
    int64_t bos; // -1: none
    int64_t pad; // -1: none
    bool do_sample;
    double temperature;        // 1 where not given
    double top_p;              // 1 where not given
    int64_t top_k;             // 0: no limit; transformers' own default of 50 where not given
    double repetition_penalty; // 1 where not given
    int64_t max_new_tokens;    // 0: not given
    int64_t max_length;        // 0: not given
};

/*
 * Reads a generation_config.json, or `text` where it is not NULL; `path` then only names it. The caller frees
 * it. After a failure there is nothing to free.
 */
enum mt_status mt_hf_generation_read(struct mt_context *ctx, const char *path, const void *text, size_t bytes,
                                     struct mt_hf_generation *generation);

/* Frees the list; a zeroed struct is allowed. */
void mt_hf_generation_free(struct mt_hf_generation *generation);

#endif
