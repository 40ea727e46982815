/* tokenizer_config.json: which special tokens are added to a text, and the chat templates. */
#ifndef MT_FORMATS_HF_TOKENIZER_CONFIG_H
#define MT_FORMATS_HF_TOKENIZER_CONFIG_H

#include <stdbool.h>
#include <stddef.h>

#include "base/arena.h"
#include "metier/context.h"

struct mt_hf_template {
    const char *name; // "default" when the file gives a single one
    const char *text; // Jinja
};

struct mt_hf_tokenizer_config {
    struct mt_arena arena;       // owns every text
    const char *tokenizer_class; // NULL: not given
    const char *bos_token;       // NULL: none
    const char *eos_token;
    const char *pad_token;
    const char *unk_token;
    bool has_add_bos; // the file says whether to; otherwise the kind of tokenizer decides
    bool add_bos;
    bool has_add_eos;
    bool add_eos;
    double model_max_length; // 0: not given; files write 1e30 for "no limit"
    struct mt_hf_template *templates;
    size_t template_count;
};

/*
 * Reads a tokenizer_config.json, or `text` where it is not NULL; `path` then only names it. The caller frees
 * it. After a failure there is nothing to free.
 */
enum mt_status mt_hf_tokenizer_config_read(struct mt_context *ctx, const char *path, const void *text,
                                           size_t bytes, struct mt_hf_tokenizer_config *config);

/* Frees the texts; a zeroed struct is allowed. */
void mt_hf_tokenizer_config_free(struct mt_hf_tokenizer_config *config);

/* The template of that name, or NULL. */
const char *mt_hf_tokenizer_config_template(const struct mt_hf_tokenizer_config *config, const char *name);

#endif
