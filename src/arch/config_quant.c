/*
 * quantization_config of a config.json: which of the formats that are read here the weights are in. Which of
 * the weights are, the files themselves say (published.c): lists of modules that were left out are not
 * needed.
 */
#include <string.h>

#include "arch/blocks.h"
#include "formats/text/printable.h"

#define FP8_BLOCK 128

static const char advice[] =
    "read are fp8 in blocks of 128 x 128, bitsandbytes' nf4 and mxfp4. Take the "
    "model's own bf16 folder; quantize.format stores it in 8 or 4 bits as it is read";

const char *mt_hf_quant_name(enum mt_hf_quant_method method)
{
    static const char *const names[] = {
        [MT_HF_QUANT_NONE] = "none",
        [MT_HF_QUANT_FP8] = "fp8",
        [MT_HF_QUANT_NF4] = "nf4",
        [MT_HF_QUANT_MXFP4] = "mxfp4",
    };
    return names[method];
}

/* "config.json: quantization_config.KEY TEXT; read are ..." */
static enum mt_status refuse(const struct mt_json_node *quant, const char *key, const char *text)
{
    struct mt_json_node node;
    if (!mt_json_member(quant, key, &node)) node = *quant;
    (void)mt_json_fail(&node, "%s; %s", text, advice);
    return MT_ERR_UNSUPPORTED;
}

/* A word that has to be `wanted` where it is given. */
static enum mt_status expect_word(const struct mt_json_node *quant, const char *key, const char *wanted)
{
    const char *text = wanted;
    char said[MT_MESSAGE_BYTES];
    enum mt_status status = mt_json_optional_string(quant, key, &text);
    if (status != MT_OK || strcmp(text, wanted) == 0) return status;
    (void)snprintf(said, sizeof said, "is \"%s\", expected \"%s\"", mt_printable(text).text, wanted);
    return refuse(quant, key, said);
}

static enum mt_status read_fp8(const struct mt_json_node *quant, struct mt_hf_quant *result)
{
    struct mt_json_node block;
    const char *scheme = "dynamic";
    result->method = MT_HF_QUANT_FP8;
    enum mt_status status = expect_word(quant, "fmt", "e4m3");
    if (status == MT_OK) status = expect_word(quant, "expert_dtype", "fp8");
    if (status == MT_OK) status = mt_json_optional_string(quant, "activation_scheme", &scheme);
    if (status != MT_OK) return status;
    if (strcmp(scheme, "dynamic") != 0)
        return refuse(quant, "activation_scheme", "is not dynamic: scales of activations are not read");
    result->activations = true;
    if (!mt_json_member(quant, "weight_block_size", &block)) return MT_OK; // the class's default
    if (mt_json_kind(&block) == MT_JSON_NULL)
        return refuse(quant, "weight_block_size", "is null: one scale for a whole weight is not read");
    status = mt_json_expect_array(&block);
    bool fits = status == MT_OK && mt_json_count(&block) == 2;
    for (size_t i = 0; fits && i < 2; i++) {
        struct mt_json_node side = mt_json_element(&block, i);
        int64_t size = 0;
        status = mt_json_as_integer(&side, 1, MT_HF_WIDTH_MAX, &size);
        fits = status == MT_OK && size == FP8_BLOCK;
    }
    if (status != MT_OK || fits) return status;
    return refuse(quant, "weight_block_size", "is not [128, 128]");
}

static enum mt_status read_bitsandbytes(const struct mt_json_node *quant, struct mt_hf_quant *result)
{
    bool four = false;
    bool eight = false;
    const char *type = "fp4"; // the class's default
    enum mt_status status = mt_json_optional_bool(quant, "load_in_4bit", &four);
    if (status == MT_OK) status = mt_json_optional_bool(quant, "load_in_8bit", &eight);
    if (status == MT_OK) status = mt_json_optional_string(quant, "bnb_4bit_quant_type", &type);
    if (status != MT_OK) return status;
    if (eight) return refuse(quant, "load_in_8bit", "is true: bitsandbytes' 8-bit weights are not read");
    if (!four) return refuse(quant, "load_in_4bit", "is not true: 4-bit weights alone are read");
    if (strcmp(type, "fp4") == 0)
        return refuse(quant, "bnb_4bit_quant_type", "is \"fp4\", bitsandbytes' own, which is not read");
    status = expect_word(quant, "bnb_4bit_quant_type", "nf4");
    if (status == MT_OK) status = expect_word(quant, "bnb_4bit_quant_storage", "uint8");
    result->method = MT_HF_QUANT_NF4;
    return status;
}

enum mt_status mt_hf_read_quant(const struct mt_json_node *root, struct mt_hf_config *config)
{
    struct mt_json_node quant;
    bool present = false;
    const char *method = NULL;
    enum mt_status status = mt_json_optional_object(root, "quantization_config", &quant, &present);
    if (status != MT_OK || !present) return status;
    // Files written before the key existed were bitsandbytes'.
    if (!mt_json_has(&quant, "quant_method") &&
        (mt_json_has(&quant, "load_in_4bit") || mt_json_has(&quant, "load_in_8bit"))) {
        return read_bitsandbytes(&quant, &config->quant);
    }
    status = mt_json_get_string(&quant, "quant_method", &method);
    if (status != MT_OK) return status;
    if (strcmp(method, "bitsandbytes") == 0) return read_bitsandbytes(&quant, &config->quant);
    if (strcmp(method, "fp8") == 0) return read_fp8(&quant, &config->quant);
    if (strcmp(method, "mxfp4") == 0) {
        config->quant.method = MT_HF_QUANT_MXFP4;
        return MT_OK;
    }
    char said[MT_MESSAGE_BYTES];
    (void)snprintf(said, sizeof said, "is \"%s\"", mt_printable(method).text);
    return refuse(&quant, "quant_method", said);
}
