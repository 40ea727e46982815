/* The files of a model folder that are not weights, on their way into a new one. */
#ifndef MT_MODEL_CARRIED_FILES_H
#define MT_MODEL_CARRIED_FILES_H

#include "arch/config.h"
#include "formats/text/json_text.h"

#define MT_CHAT_TEMPLATE_FILE    "chat_template.jinja"
#define MT_MORE_TEMPLATES_FOLDER "additional_chat_templates"

/* What becomes another in config.json. */
struct mt_config_change {
    enum mt_hf_float dtype;   // the type of the weights; unknown: as it is
    const char *quantisation; // quantization_config, as JSON; NULL: as it is, "": there is none
};

/* The text of a config.json with these changes, appended. */
enum mt_status mt_config_changed(struct mt_context *ctx, const char *text, size_t bytes,
                                 const struct mt_config_change *change, struct mt_json_text *out);

/*
 * Copies every regular file of up to 64 MB that is not hidden and holds no weights: config, with these
 * changes, tokenizer, generation, templates (also those in additional_chat_templates), code.
 */
enum mt_status mt_model_carry_files(struct mt_context *ctx, const char *from, const char *to,
                                    const struct mt_config_change *change, size_t *count);

/*
 * Copies the chat template of a folder, where it has one as a file: an adapter brings along what it was
 * trained with, and what is made of the adapter is talked to in the same way. A template that is there
 * already makes way.
 */
enum mt_status mt_model_carry_template(struct mt_context *ctx, const char *from, const char *to);

/* Writes a chat template beside the weights, where transformers looks first; NULL: does nothing. */
enum mt_status mt_model_write_template(struct mt_context *ctx, const char *directory, const char *text);

#endif
