/* What a config expects against what a checkpoint, or only its index, has. */
#ifndef MT_ARCH_MODEL_CHECK_H
#define MT_ARCH_MODEL_CHECK_H

#include "arch/model_tensors.h"
#include "formats/safetensors/checkpoint.h"

#define MT_MODEL_CHECK_LISTED 20 // so many of a kind are named, the rest counted

struct mt_model_finding {
    const char *name;
    const char *text; // "is BF16 [8, 64], expected [8, 128]"; NULL where the name says it all
};

struct mt_model_findings {
    struct mt_model_finding listed[MT_MODEL_CHECK_LISTED];
    size_t count; // of all, also those not listed
};

struct mt_model_check {
    struct mt_arena arena; // owns the texts
    struct mt_model_findings missing;
    struct mt_model_findings unexpected;
    size_t unread; // present and known to be of no use here: prediction layers, rotary tables, a tied head
    struct mt_model_findings wrong; // another shape, or a type that is not a number to compute with
    size_t expected;
    // of the expected, those stored in the format the config names
    size_t quantised;
    int64_t quantised_elements;
    uint64_t quantised_bytes; // of codes and scales
};

/* Names, shapes and types. The caller frees the result. */
enum mt_status mt_model_check_checkpoint(struct mt_context *ctx, const struct mt_hf_config *config,
                                         const struct mt_checkpoint *checkpoint,
                                         struct mt_model_check *check);

/* Names only. The caller frees the result. */
enum mt_status mt_model_check_index(struct mt_context *ctx, const struct mt_hf_config *config,
                                    const struct mt_checkpoint_index *index, struct mt_model_check *check);

/* Frees the texts; a zeroed struct is allowed. */
void mt_model_check_free(struct mt_model_check *check);

#endif
