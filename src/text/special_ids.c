/* Special tokens, by the names a tokenizer's config gives them. */
#include "text/special_ids.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "formats/hf/hf_tokenizer_config.h"

static int32_t id_of(const struct mt_tokenizer *tokenizer, const char *token, int64_t otherwise)
{
    int32_t id = token != NULL ? mt_tokenizer_id(tokenizer, token, strlen(token)) : -1;
    if (id >= 0) return id;
    return otherwise >= 0 && otherwise <= INT32_MAX ? (int32_t)otherwise : -1;
}

/* tokenizer_config.json beside the tokenizer, as a path; false when there is none. */
static bool find_tokenizer_config(const char *tokenizer, char *path, size_t bytes)
{
    int length = snprintf(path, bytes, "%s/tokenizer_config.json", tokenizer);
    if (length > 0 && (size_t)length < bytes && access(path, R_OK) == 0) return true;
    const char *slash = strrchr(tokenizer, '/');
    int folder = slash != NULL ? (int)(slash - tokenizer) : 1;
    length = snprintf(path, bytes, "%.*s/tokenizer_config.json", folder, slash != NULL ? tokenizer : ".");
    return length > 0 && (size_t)length < bytes && access(path, R_OK) == 0;
}

enum mt_status mt_special_ids_find(struct mt_context *ctx, const struct mt_tokenizer *tokenizer,
                                   const char *path, const struct mt_hf_config *config,
                                   struct mt_special_ids *special)
{
    char file[4096];
    struct mt_hf_tokenizer_config said = {0};
    if (find_tokenizer_config(path, file, sizeof file)) {
        enum mt_status status = mt_hf_tokenizer_config_read(ctx, file, &said);
        if (status != MT_OK) return status;
    }
    special->bos = id_of(tokenizer, said.bos_token, config->bos);
    special->eos = id_of(tokenizer, said.eos_token, config->eos_count > 0 ? config->eos[0] : -1);
    special->pad = id_of(tokenizer, said.pad_token, config->pad);
    special->asks_bos = said.has_add_bos && said.add_bos;
    mt_hf_tokenizer_config_free(&said);
    return MT_OK;
}
