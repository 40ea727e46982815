/*
 * Words people write for linear layers, from PEFT, TRL and axolotl configs: the end of a module's name
 * ("q_proj", "mlp.gate"), names transformers 5 has and a checkpoint has not, and what is said about a word
 * nobody knows.
 */
#include <stdio.h>
#include <string.h>

#include "base/nearest.h"
#include "formats/text/printable.h"
#include "model/params/params_parts.h"

#define MOST_WORDS 32

/* A name of transformers 5 for what checkpoints may call otherwise. */
enum role {
    ROLE_ROUTER = 1,
    ROLE_GATE = 2, // linear layers of routed experts
    ROLE_UP = 4,
    ROLE_DOWN = 8,
};

static const struct {
    const char *word;
    int roles;
} other_names[] = {
    {"mlp.gate", ROLE_ROUTER},
    {"mlp.router", ROLE_ROUTER},
    {"gate_proj", ROLE_GATE},
    {"up_proj", ROLE_UP},
    {"down_proj", ROLE_DOWN},
    {"gate_up_proj", ROLE_GATE | ROLE_UP},
    {"experts.gate_up_proj", ROLE_GATE | ROLE_UP},
    {"mlp.experts.gate_up_proj", ROLE_GATE | ROLE_UP},
    {"experts.down_proj", ROLE_DOWN},
    {"mlp.experts.down_proj", ROLE_DOWN},
};

static const char *last_word(const char *name)
{
    const char *dot = strrchr(name, '.');
    return dot != NULL ? dot + 1 : name;
}

/* True for the name itself, and for its end behind a dot. */
static bool ends_in(const char *name, const char *word)
{
    size_t length = strlen(name);
    size_t word_length = strlen(word);
    if (word_length > length || strcmp(name + length - word_length, word) != 0) return false;
    return word_length == length || name[length - word_length - 1] == '.';
}

bool mt_params_word_names(const char *word, const struct mt_model_tensor *tensor)
{
    char module[MT_MODEL_NAME_BYTES];
    mt_params_module_name(tensor->name, module, sizeof module);
    return ends_in(module, word) || ends_in(tensor->name, word);
}

static int role_of(const struct mt_model_desc *desc, const struct mt_model_tensor *tensor)
{
    char module[MT_MODEL_NAME_BYTES];
    if (tensor->part == MT_PART_ROUTER && tensor->rank == 2) return ROLE_ROUTER;
    if (tensor->expert < 0) return 0;
    mt_params_module_name(tensor->name, module, sizeof module);
    const char *projection = last_word(module);
    if (strcmp(projection, desc->names.gate) == 0) return ROLE_GATE;
    if (strcmp(projection, desc->names.up) == 0) return ROLE_UP;
    return strcmp(projection, desc->names.down) == 0 ? ROLE_DOWN : 0;
}

bool mt_params_other_word_names(const struct mt_model_desc *desc, const char *word,
                                const struct mt_model_tensor *tensor)
{
    char module[MT_PARAMS_NAME_BYTES];
    mt_params_module_name(word, module, sizeof module);
    for (size_t i = 0; i < sizeof other_names / sizeof other_names[0]; i++) {
        if (strcmp(module, other_names[i].word) == 0)
            return (role_of(desc, tensor) & other_names[i].roles) != 0;
    }
    return false;
}

// ------------------------------------------------------------------ a word nobody knows

struct known {
    char word[MOST_WORDS][MT_MODEL_NAME_BYTES];
    size_t count;
};

static void know(struct known *known, const char *word)
{
    for (size_t i = 0; i < known->count; i++) {
        if (strcmp(known->word[i], word) == 0) return;
    }
    if (known->count < MOST_WORDS)
        (void)snprintf(known->word[known->count++], MT_MODEL_NAME_BYTES, "%s", word);
}

/* Parts and last words of what can be meant, each once. */
static void collect(const struct mt_params_items *items, bool linear_only, struct known *parts,
                    struct known *words)
{
    for (size_t i = 0; i < items->count; i++) {
        const struct mt_model_tensor *tensor = &items->item[i].tensor;
        char module[MT_MODEL_NAME_BYTES];
        if (items->item[i].correction || (linear_only && !mt_params_is_linear(tensor))) continue;
        mt_params_module_name(tensor->name, module, sizeof module);
        know(parts, mt_model_part_key(tensor->part));
        know(words, last_word(module));
    }
}

static void append_list(const struct known *known, char *text, size_t bytes)
{
    text[0] = '\0';
    for (size_t i = 0; i < known->count; i++) {
        size_t used = strlen(text);
        (void)snprintf(text + used, bytes - used, "%s%s", i > 0 ? ", " : "", known->word[i]);
    }
}

static const char *nearest(const struct known *known, const char *word, int *distance)
{
    const char *found = NULL;
    for (size_t i = 0; i < known->count; i++) {
        if (mt_nearer(word, known->word[i], distance)) found = known->word[i];
    }
    return found;
}

enum mt_status mt_params_fail_word(struct mt_context *ctx, const struct mt_params_items *items,
                                   bool linear_only, const char *list, const char *word)
{
    struct known parts = {0};
    struct known words = {0};
    char part_text[256];
    char word_text[400];
    char hint[MT_MODEL_NAME_BYTES + 32] = "";
    bool is_part = false;
    int distance = 2 + (int)strlen(word) / 4;
    collect(items, linear_only, &parts, &words);
    append_list(&parts, part_text, sizeof part_text);
    append_list(&words, word_text, sizeof word_text);
    for (int part = 0; part < MT_MODEL_PART_COUNT; part++)
        is_part = is_part || strcmp(word, mt_model_part_key((enum mt_model_part)part)) == 0;
    const char *near = nearest(&words, word, &distance);
    const char *near_part = nearest(&parts, word, &distance);
    if (near_part != NULL) near = near_part;
    if (near != NULL && !is_part) (void)snprintf(hint, sizeof hint, "; did you mean '%s'?", near);
    return mt_fail(
        ctx, MT_ERR_USAGE,
        "%s: '%s' matches no %s of this model%s It has the parts %s, and names that end in %s; "
        "all-linear, globs (model.layers.*.q_proj) and regular expressions on whole names are taken, too",
        list, mt_printable(word).text, linear_only ? "linear map" : "tensor", hint[0] != '\0' ? hint : ".",
        part_text, word_text);
}
