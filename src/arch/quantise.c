/* Which matrices are quantised: words of settings, and the answer for each tensor. */
#include "arch/quantise.h"

#include <stdio.h>
#include <string.h>

#include "formats/text/printable.h"

static bool may_be_quantised(enum mt_model_part part)
{
    return part == MT_PART_EXPERTS || part == MT_PART_SHARED || part == MT_PART_DENSE ||
           part == MT_PART_ATTENTION;
}

static enum mt_status add_part(struct mt_context *ctx, const char *word, struct mt_quantise_options *options)
{
    for (int part = 0; part < MT_MODEL_PART_COUNT; part++) {
        if (strcmp(word, mt_model_part_key((enum mt_model_part)part)) != 0) continue;
        if (!may_be_quantised((enum mt_model_part)part))
            return mt_fail(ctx, MT_ERR_USAGE,
                           "%s cannot be quantised: it stays as it is stored; quantize.parts may name "
                           "routed_experts, shared_experts, dense_mlp and attention",
                           word);
        options->part[part] = true;
        return MT_OK;
    }
    return mt_fail(
        ctx, MT_ERR_USAGE,
        "quantize.parts names '%s', expected routed_experts, shared_experts, dense_mlp or attention",
        mt_printable(word).text);
}

enum mt_status mt_quantise_read(struct mt_context *ctx, const char *format, bool nested,
                                const char *const *parts, struct mt_quantise_options *options)
{
    *options = (struct mt_quantise_options){0};
    int number = 0;
    while (number < MT_QUANTISED_FORMATS &&
           strcmp(mt_quantised_name((enum mt_quantised_format)number), format) != 0)
        number++;
    options->on = number < MT_QUANTISED_FORMATS;
    if (!options->on && strcmp(format, "none") != 0)
        return mt_fail(ctx, MT_ERR_USAGE, "'%s' is not a format: expected none, fp8, int8, nf4 or mxfp4",
                       mt_printable(format).text);
    if (!options->on) return MT_OK;
    options->format = (enum mt_quantised_format)number;
    options->nested = nested && options->format == MT_QUANTISED_NF4;
    if (parts == NULL || parts[0] == NULL) options->part[MT_PART_EXPERTS] = true;
    enum mt_status status = MT_OK;
    for (; parts != NULL && *parts != NULL && status == MT_OK; parts++)
        status = add_part(ctx, *parts, options);
    return status;
}

#define CACHE "cache"
#define WORDS 8 // of a text: one more than there can be

enum mt_status mt_quantise_parse(struct mt_context *ctx, const char *text,
                                 struct mt_quantise_options *options)
{
    char copy[MT_QUANTISE_TEXT_BYTES];
    const char *parts[WORDS + 1] = {NULL};
    size_t count = 0;
    bool single = false;
    bool cache = false;
    *options = (struct mt_quantise_options){0};
    if (snprintf(copy, sizeof copy, "%s", text) >= (int)sizeof copy)
        return mt_fail(ctx, MT_ERR_USAGE,
                       "'%s' is not valid: expected a format and parts, separated by commas",
                       mt_printable(text).text);
    char *rest = NULL;
    const char *format = strtok_r(copy, ",", &rest);
    for (char *word = strtok_r(NULL, ",", &rest); word != NULL; word = strtok_r(NULL, ",", &rest)) {
        if (strcmp(word, "single") == 0)
            single = true;
        else if (strcmp(word, CACHE) == 0)
            cache = true;
        else if (count < WORDS)
            parts[count++] = word;
    }
    if (single && (format == NULL || strcmp(format, "nf4") != 0))
        return mt_fail(ctx, MT_ERR_USAGE, "'%s': single can only be used with nf4", mt_printable(text).text);
    enum mt_status status = mt_quantise_read(ctx, format != NULL ? format : "", !single, parts, options);
    options->cache = cache && options->on;
    return status;
}

const char *mt_quantise_strip_cache(const char *text, char stripped[MT_QUANTISE_TEXT_BYTES])
{
    (void)snprintf(stripped, MT_QUANTISE_TEXT_BYTES, "%s", text);
    for (char *found = strstr(stripped, "," CACHE); found != NULL; found = strstr(stripped, "," CACHE))
        memmove(found, found + strlen("," CACHE), strlen(found + strlen("," CACHE)) + 1);
    return stripped;
}

enum mt_status mt_quantise_refuse_cache(struct mt_context *ctx, const struct mt_quantise_options *options)
{
    if (!options->cache) return MT_OK;
    return mt_fail(ctx, MT_ERR_USAGE, CACHE " means nothing here: no model is loaded");
}

const char *mt_quantise_text(const struct mt_quantise_options *options, char text[MT_QUANTISE_TEXT_BYTES])
{
    int used = snprintf(
        text, MT_QUANTISE_TEXT_BYTES, "%s%s", options->on ? mt_quantised_name(options->format) : "none",
        options->on && options->format == MT_QUANTISED_NF4 && !options->nested ? ",single" : "");
    for (int part = 0; part < MT_MODEL_PART_COUNT && options->on; part++) {
        if (!options->part[part]) continue;
        used += snprintf(text + used, MT_QUANTISE_TEXT_BYTES - (size_t)used, ",%s",
                         mt_model_part_key((enum mt_model_part)part));
    }
    return text;
}

void mt_quantise_as_published(const struct mt_hf_config *config, struct mt_quantise_options *options)
{
    static const enum mt_quantised_format formats[] = {
        [MT_HF_QUANT_FP8] = MT_QUANTISED_FP8,
        [MT_HF_QUANT_NF4] = MT_QUANTISED_NF4,
        [MT_HF_QUANT_MXFP4] = MT_QUANTISED_MXFP4,
    };
    enum mt_hf_quant_method method = config->quant.method;
    *options = (struct mt_quantise_options){.on = method != MT_HF_QUANT_NONE};
    if (!options->on) return;
    options->format = formats[method];
    for (int part = 0; part < MT_MODEL_PART_COUNT; part++) {
        bool all = method != MT_HF_QUANT_MXFP4 && may_be_quantised((enum mt_model_part)part);
        options->part[part] = all || part == MT_PART_EXPERTS;
    }
}

bool mt_quantise_takes(const struct mt_quantise_options *options, const struct mt_model_tensor *tensor)
{
    return options->on && options->part[tensor->part] && tensor->rank == 2 && tensor->dim[0] > 1;
}

int64_t mt_quantise_bytes(const struct mt_quantise_options *options, const struct mt_model_tensor *tensor)
{
    struct mt_quantised matrix =
        mt_quantised_shape(options->format, options->nested, tensor->dim[0], tensor->dim[1]);
    return (int64_t)mt_quantised_bytes(&matrix);
}

#define COPY_BYTES 2.0 // bf16
