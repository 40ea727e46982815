/* Which of a model's matrices are stored in fewer bits, and how. The formats: metier/ops_quantised.h. */
#ifndef MT_ARCH_QUANTISE_H
#define MT_ARCH_QUANTISE_H

#include "arch/model_tensors.h"
#include "metier/context.h"
#include "tensor/quantised.h"

struct mt_quantise_options {
    bool on; // false: weights stay as they are
    enum mt_quantised_format format;
    bool nested;                    // nf4: scales are quantised, too
    bool part[MT_MODEL_PART_COUNT]; // whose matrices
    bool cache;                     // codes are kept beside the model (model/params/codes_cache.h)
};

/* Words of a setting for formats: none, and those of mt_quantised_name in their order. */
#define MT_QUANTISE_FORMATS "none|fp8|int8|nf4|mxfp4"

/*
 * Reads a format's word and a NULL-terminated list of parts; NULL or empty: the routed experts. What cannot
 * be is refused with a sentence.
 */
enum mt_status mt_quantise_read(struct mt_context *ctx, const char *format, bool nested,
                                const char *const *parts, struct mt_quantise_options *options);

/*
 * The same as one text, for options of verbs and adapters' files: a format, "single" for nf4 whose scales
 * stay f32, "cache", and parts, with commas: "nf4", "nf4,single", "fp8,cache,routed_experts,attention".
 */
enum mt_status mt_quantise_parse(struct mt_context *ctx, const char *text,
                                 struct mt_quantise_options *options);

/* Writes that text, without "cache", which changes no number; returns it. */
#define MT_QUANTISE_TEXT_BYTES 96
const char *mt_quantise_text(const struct mt_quantise_options *options, char text[MT_QUANTISE_TEXT_BYTES]);

/* Removes "cache" from such a text; returns it. */
const char *mt_quantise_strip_cache(const char *text, char stripped[MT_QUANTISE_TEXT_BYTES]);

/* Refuses "cache" where no model is loaded. */
enum mt_status mt_quantise_refuse_cache(struct mt_context *ctx, const struct mt_quantise_options *options);

/*
 * The options that store a model as its published folder does, as far as a config tells: every linear layer
 * of the layers but the router's, or, in mxfp4, the routed experts. Off where the folder is in floats.
 */
void mt_quantise_as_published(const struct mt_hf_config *config, struct mt_quantise_options *options);

/* True for the matrices that are to be quantised: of its parts, but no gate of one row. */
bool mt_quantise_takes(const struct mt_quantise_options *options, const struct mt_model_tensor *tensor);

/* Bytes that a matrix takes as it is stored. */
int64_t mt_quantise_bytes(const struct mt_quantise_options *options, const struct mt_model_tensor *tensor);

#endif
