/* Decoders: reading. */
#include "formats/text/printable.h"
#include "formats/text/utf8.h"
#include "formats/tokenizer/decode.h"

#define MAX_NESTING 8

static enum mt_status read_replace(const struct mt_json_node *node, struct mt_decoder_step *step)
{
    const char *content = NULL;
    enum mt_status status = mt_pattern_read(node, &step->regex);
    if (status == MT_OK) status = mt_json_get_string(node, "content", &content);
    return status == MT_OK ? mt_byte_list_append_text(&step->content, content) : status;
}

static enum mt_status read_strip(const struct mt_json_node *node, struct mt_decoder_step *step)
{
    const char *content = NULL;
    int64_t start = 0;
    int64_t stop = 0;
    enum mt_status status = mt_json_get_string(node, "content", &content);
    if (status == MT_OK) status = mt_json_get_integer(node, "start", 0, INT32_MAX, &start);
    if (status == MT_OK) status = mt_json_get_integer(node, "stop", 0, INT32_MAX, &stop);
    if (status != MT_OK) return status;
    size_t length = strlen(content);
    if (length == 0 || length != mt_utf8_length((uint8_t)content[0])) {
        return mt_json_fail(node, "has the content '%s', expected one character", mt_printable(content).text);
    }
    memcpy(step->metaspace.replacement, content, length);
    step->metaspace.replacement_bytes = length;
    step->strip_start = (size_t)start;
    step->strip_stop = (size_t)stop;
    return MT_OK;
}

static enum mt_status read_metaspace(const struct mt_json_node *node, struct mt_decoder_step *step)
{
    return mt_metaspace_read(node, &step->metaspace);
}

static enum mt_status read_step(const struct mt_json_node *node, const char *type, struct mt_decoder *decoder)
{
    static const struct {
        const char *name;
        enum mt_decoder_kind kind;
        enum mt_status (*read)(const struct mt_json_node *node, struct mt_decoder_step *step); // or NULL
    } kinds[] = {
        {"ByteLevel", MT_DECODER_BYTE_LEVEL, NULL},       {"Replace", MT_DECODER_REPLACE, read_replace},
        {"ByteFallback", MT_DECODER_BYTE_FALLBACK, NULL}, {"Fuse", MT_DECODER_FUSE, NULL},
        {"Strip", MT_DECODER_STRIP, read_strip},          {"Metaspace", MT_DECODER_METASPACE, read_metaspace},
    };
    if (decoder->count == MT_MAX_STEPS) return mt_json_fail(node, "has more than %d steps", MT_MAX_STEPS);
    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++) {
        if (strcmp(type, kinds[i].name) != 0) continue;
        struct mt_decoder_step *step = &decoder->steps[decoder->count++];
        *step = (struct mt_decoder_step){.kind = kinds[i].kind, .content.ctx = node->ctx};
        return kinds[i].read != NULL ? kinds[i].read(node, step) : MT_OK;
    }
    return mt_fail(node->ctx, MT_ERR_UNSUPPORTED, "%s: the decoder type '%s' is not supported", node->file,
                   mt_printable(type).text);
}

static enum mt_status read_node(const struct mt_json_node *node, int depth, struct mt_decoder *decoder)
{
    const char *type = NULL;
    enum mt_status status = mt_json_expect_object(node);
    if (status == MT_OK) status = mt_json_get_string(node, "type", &type);
    if (status != MT_OK) return status;
    if (strcmp(type, "Sequence") != 0) return read_step(node, type, decoder);
    if (depth == MAX_NESTING) return mt_json_fail(node, "nests too deeply");
    struct mt_json_node list;
    status = mt_json_get_array(node, "decoders", &list);
    for (size_t i = 0; status == MT_OK && i < mt_json_count(&list); i++) {
        struct mt_json_node element = mt_json_element(&list, i);
        status = read_node(&element, depth + 1, decoder);
    }
    return status;
}

enum mt_status mt_decoder_read(const struct mt_json_node *node, struct mt_decoder *decoder)
{
    *decoder = (struct mt_decoder){.ctx = node->ctx};
    if (mt_json_kind(node) != MT_JSON_NULL) return read_node(node, 0, decoder);
    decoder->steps[0] = (struct mt_decoder_step){.kind = MT_DECODER_JOIN_SPACES, .content.ctx = node->ctx};
    decoder->count = 1;
    return MT_OK;
}

void mt_decoder_free(struct mt_decoder *decoder)
{
    for (size_t i = 0; i < decoder->count; i++) {
        mt_regex_free(decoder->steps[i].regex);
        mt_byte_list_free(&decoder->steps[i].content);
    }
    decoder->count = 0;
}
