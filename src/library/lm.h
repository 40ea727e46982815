/* Inside a public model (metier/model.h): what the files of this folder keep together. */
#ifndef MT_LIBRARY_LM_H
#define MT_LIBRARY_LM_H

#include "base/arena.h"
#include "base/given.h"
#include "metier/model.h"
#include "model/files/carried_files.h"
#include "model/model.h"
#include "text/text_form.h"

/* Reading texts; opened by the first that is encoded. */
struct mt_lm_texts {
    struct mt_tokenizer *tokenizer; // NULL: not opened yet
    struct mt_token_scratch *scratch;
    struct mt_special_ids special;
    struct mt_id_list ids; // kept between calls
    struct mt_byte_list text;
    // Of rows; opened by the first of them.
    struct mt_chat_template *template;
    struct mt_form_record form; // of the rows that were encoded; no name: none were
    const char *form_name;      // of the template
    uint64_t answers, spaced;   // of them, answers, and those that begin with a space
    struct mt_example_maker *maker;
    struct mt_example example;
    struct mt_row row;
};

struct mt_lm {
    struct mt_context *ctx;   // borrowed
    struct mt_device *device; // borrowed
    struct mt_arena arena;    // of the texts and arrays below
    const char *folder;
    const char *template_name;
    const char *templates; // folder of those that come along; NULL: none
    struct mt_model *model;
    struct mt_train_selection selection; // its numbers; what it pointed to is gone
    enum mt_lm_training training;
    struct mt_objective_config method; // where the model has an objective
    int64_t *moe_layers;               // [moe_count]: their numbers
    int moe_count;
    uint64_t forwards;   // so far, for noise
    int64_t tokens;      // of the last forward; 0: there was none
    bool backward_ready; // it had labels, and no backward followed
    bool logits_ready;   // no backward followed
    double *loads; // [moe_count,n + mt_selection_measures]: slots served in this step, and what the rules
                   // that move biases measured; NULL: none do
    float *bias;   // [n]
    struct mt_lm_texts texts;
};

/*
 * The folder of chat templates that come along, share/metier/templates beside the library; NULL: there is
 * none. The text lives in the arena.
 */
enum mt_status mt_library_templates(struct mt_arena *arena, const char **folder);

/* The context of a model for a sentence; NULL where there is no model. */
static inline struct mt_context *mt_lm_context(const struct mt_lm *lm)
{
    return lm != NULL ? lm->ctx : NULL;
}

void mt_lm_texts_init(struct mt_lm *lm);
void mt_lm_texts_close(struct mt_lm *lm);

/* How the rows were written out that were encoded so far, for what is saved; in the arena. */
enum mt_status mt_lm_describe_form(struct mt_lm *lm, struct mt_trained_texts *trained);

/* After an optimizer step: biases of routers, where the method moves them; loads begin anew. */
enum mt_status mt_lm_move_biases(struct mt_lm *lm);

#endif
