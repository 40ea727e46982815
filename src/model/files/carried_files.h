/* The files of a model folder that are not weights, on their way into a new one. */
#ifndef MT_MODEL_CARRIED_FILES_H
#define MT_MODEL_CARRIED_FILES_H

#include "arch/arch.h"
#include "formats/data/row_hashes.h"
#include "formats/text/json_text.h"

#define MT_CHAT_TEMPLATE_FILE    "chat_template.jinja"
#define MT_MORE_TEMPLATES_FOLDER "additional_chat_templates"

/* A number at the top of config.json. */
struct mt_config_number {
    const char *key;
    int64_t value;
    bool new_key; // also where the file does not have the key
};

/* What becomes another in config.json. */
struct mt_config_change {
    enum mt_hf_float dtype;                // the type of the weights; unknown: as it is
    const char *quantisation;              // quantization_config, as JSON; NULL: as it is, "": there is none
    const struct mt_config_number *number; // borrowed
    size_t number_count;
    const char *renumbered; // what modules of experts are called, "mlp.experts", where their numbers change:
                            // a quantization_config that names one of them is refused. NULL: they do not
};

/* The text of a config.json with these changes, appended. */
enum mt_status mt_config_changed(struct mt_context *ctx, const char *text, size_t bytes,
                                 const struct mt_config_change *change, struct mt_json_text *out);

/*
 * Copies every regular file of up to 64 MB that is not hidden and holds no weights: config, with these
 * changes, tokenizer, generation, templates (also those in additional_chat_templates), code. The record of
 * the rows that a model has read (MT_ROWS_READ_FILE) goes along however large it is.
 */
enum mt_status mt_model_carry_files(struct mt_context *ctx, const char *from, const char *to,
                                    const struct mt_config_change *change, size_t *count);

/*
 * Copies the chat template of a folder, where it has one as a file, and the record of the form it was trained
 * in: an adapter brings along what it was trained with, and what is made of the adapter is talked to in the
 * same way. What is there already makes way: a record goes, also where the adapter has none.
 */
enum mt_status mt_model_carry_trained(struct mt_context *ctx, const char *from, const char *to);

/* How texts were written out that a model or adapter was trained on. */
struct mt_trained_texts {
    const char *chat_template;        // its text; NULL: none, or the model's own, which is carried over
    const char *form;                 // text of the record (text/text_form.h); NULL: none
    const char *card;                 // how it was trained, for its card (card.h); NULL: nothing is known
    const struct mt_row_hashes *rows; // that a model has read; borrowed; NULL: what is carried over stays
};

/* Writes them into a folder, over what is there. */
enum mt_status mt_model_write_trained(struct mt_context *ctx, const char *directory,
                                      const struct mt_trained_texts *trained);

#endif
