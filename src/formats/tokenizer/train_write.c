/* A learnt tokenizer as tokenizer.json, and the tokenizer_config.json that goes with it. */
#include "formats/text/utf8.h"
#include "formats/tokenizer/bpe.h"
#include "formats/tokenizer/train_private.h"

static const char *const specials[MT_TOKENIZER_SPECIALS] = {"<pad>", "<bos>", "<eos>"};

/* The bytes of a token as characters of the byte-level alphabet; `out` has two bytes for each. */
static size_t spell(const struct mt_tokenizer_trainer *trainer, int32_t token, uint8_t *out)
{
    const struct mt_trained_token *wanted = &trainer->tokens[token];
    size_t length = 0;
    for (size_t i = 0; i < wanted->bytes; i++) {
        uint8_t character[4];
        uint8_t byte = trainer->token_text.data[wanted->start + i];
        size_t bytes = mt_utf8_encode(mt_byte_level_character(byte), character);
        memcpy(out + length, character, bytes);
        length += bytes;
    }
    return length;
}

static void write_head(struct mt_json_text *json)
{
    mt_json_text_format(json, "{\n \"version\": \"1.0\",\n \"truncation\": null,\n \"padding\": null,\n");
    mt_json_text_format(json, " \"added_tokens\": [");
    for (int i = 0; i < MT_TOKENIZER_SPECIALS; i++) {
        mt_json_text_format(json,
                            "%s\n  {\"id\": %d, \"content\": \"%s\", \"single_word\": false, "
                            "\"lstrip\": false, \"rstrip\": false, \"normalized\": false, \"special\": true}",
                            i == 0 ? "" : ",", i, specials[i]);
    }
    mt_json_text_format(json, "\n ],\n \"normalizer\": null,\n \"pre_tokenizer\": ");
    mt_json_text_format(json, "%s", MT_TRAINED_PRE_TOKENIZER);
    mt_json_text_format(json, ",\n \"post_processor\": {\"type\": \"TemplateProcessing\",\n  \"single\": [");
    mt_json_text_format(json, "{\"SpecialToken\": {\"id\": \"<bos>\", \"type_id\": 0}}, "
                              "{\"Sequence\": {\"id\": \"A\", \"type_id\": 0}}],\n  \"pair\": [");
    mt_json_text_format(json, "{\"SpecialToken\": {\"id\": \"<bos>\", \"type_id\": 0}}, "
                              "{\"Sequence\": {\"id\": \"A\", \"type_id\": 0}}, "
                              "{\"Sequence\": {\"id\": \"B\", \"type_id\": 1}}],\n");
    mt_json_text_format(json, "  \"special_tokens\": {\"<bos>\": {\"id\": \"<bos>\", \"ids\": [1], "
                              "\"tokens\": [\"<bos>\"]}}},\n");
    mt_json_text_format(json, " \"decoder\": {\"type\": \"ByteLevel\", \"add_prefix_space\": true, "
                              "\"trim_offsets\": true, \"use_regex\": true},\n");
    mt_json_text_format(json, " \"model\": {\"type\": \"BPE\", \"dropout\": null, \"unk_token\": null, "
                              "\"continuing_subword_prefix\": null, \"end_of_word_suffix\": null, "
                              "\"fuse_unk\": false, \"byte_fallback\": false, \"ignore_merges\": false,\n");
}

enum mt_status mt_tokenizer_trainer_write(const struct mt_tokenizer_trainer *trainer,
                                          struct mt_json_text *json)
{
    uint8_t text[4 * MT_TOKENIZER_LONGEST_LEARNT + 1]; // two tokens of a merge and the space between
    write_head(json);
    mt_json_text_format(json, "  \"vocab\": {");
    for (int i = 0; i < MT_TOKENIZER_SPECIALS; i++)
        mt_json_text_format(json, "%s\n   \"%s\": %d", i == 0 ? "" : ",", specials[i], i);
    for (size_t i = 0; i < trainer->token_count; i++) {
        mt_json_text_format(json, ",\n   ");
        mt_json_text_bytes(json, text, spell(trainer, (int32_t)i, text));
        mt_json_text_format(json, ": %zu", i + MT_TOKENIZER_SPECIALS);
    }
    mt_json_text_format(json, "},\n  \"merges\": [");
    for (size_t i = 256; i < trainer->token_count; i++) {
        size_t length = spell(trainer, trainer->tokens[i].left, text);
        text[length++] = ' ';
        length += spell(trainer, trainer->tokens[i].right, text + length);
        mt_json_text_format(json, "%s\n   ", i == 256 ? "" : ",");
        mt_json_text_bytes(json, text, length);
    }
    return mt_json_text_format(json, "]}\n}\n");
}

enum mt_status mt_tokenizer_config_write(struct mt_json_text *json)
{
    return mt_json_text_format(
        json, "{\n  \"tokenizer_class\": \"PreTrainedTokenizerFast\",\n  \"bos_token\": \"<bos>\",\n"
              "  \"eos_token\": \"<eos>\",\n  \"pad_token\": \"<pad>\",\n  \"add_bos_token\": true,\n"
              "  \"add_eos_token\": false,\n  \"clean_up_tokenization_spaces\": false\n}\n");
}
