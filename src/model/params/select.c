/*
 * What is trained. A pattern is a part's key ("attention"), "all-linear", the name of a tensor or of its
 * module (the name without ".weight" or ".bias"), the end of such names ("q_proj"), a glob on
 * them, in which '*' matches dots too, or a regular expression for whole names of modules: the first of these
 * that matches anything. Frozen wins over selected, and of the routed experts only the chosen ones are
 * trained, where a list is given.
 */
#include <fnmatch.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/nearest.h"
#include "formats/text/printable.h"
#include "formats/tokenizer/regex.h"
#include "model/params/loading.h"

// ------------------------------------------------------------------ words

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

/* True when a tensor's name, or its module's, is the word or ends in it: "q_proj", "self_attn.q_proj". */
static bool word_names(const char *word, const struct mt_model_tensor *tensor)
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

/* Likewise for names transformers has and this checkpoint may not have: "mlp.gate". */
static bool other_word_names(const struct mt_model_desc *desc, const char *word,
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

/* Refuses a word of a list that names nothing, with what there is and what is nearest to it. */
static enum mt_status fail_word(struct mt_context *ctx, const struct mt_params_items *items, bool linear_only,
                                const char *list, const char *word)
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
        "all-linear, globs (model.layers.*.q_proj) and regular expressions on whole names are accepted, too",
        list, mt_printable(word).text, linear_only ? "linear layer" : "tensor", hint[0] != '\0' ? hint : ".",
        part_text, word_text);
}

// ------------------------------------------------------------------ selection

enum list { LIST_FULL, LIST_LORA, LIST_FREEZE, LIST_COUNT };

static const char *const list_names[LIST_COUNT] = {"targets", "targets", "freeze"}; // in settings

struct choice {
    const struct mt_params_item *item;
    bool in[LIST_COUNT];
};

struct choices {
    struct choice *choice; // sorted by the tensor's name
    size_t count;
    const struct mt_model_desc *desc;
    size_t taken; // by the pattern at hand from what would are trained
};

static int compare_choices(const void *left, const void *right)
{
    const struct choice *a = left;
    const struct choice *b = right;
    return strcmp(a->item->tensor.name, b->item->tensor.name);
}

static int compare_name(const void *name, const void *entry)
{
    const struct choice *choice = entry;
    return strcmp(name, choice->item->tensor.name);
}

/* Puts a tensor on a list if it belongs there; the correction bias is no part's and only ever frozen. */
static size_t mark(struct choices *choices, struct choice *choice, enum list list, bool by_part)
{
    if (list == LIST_LORA && !mt_params_is_linear(&choice->item->tensor)) return 0;
    if (choice->item->correction && (by_part || list != LIST_FREEZE)) return 0;
    choice->in[list] = true;
    if (choice->item->correction || choice->in[LIST_FULL] || choice->in[LIST_LORA]) choices->taken++;
    return 1;
}

static size_t mark_part(struct choices *choices, enum list list, enum mt_model_part part)
{
    size_t marked = 0;
    for (size_t i = 0; i < choices->count; i++) {
        if (choices->choice[i].item->tensor.part == part)
            marked += mark(choices, &choices->choice[i], list, true);
    }
    return marked;
}

static size_t mark_name(struct choices *choices, enum list list, const char *pattern)
{
    static const char *const endings[] = {"", ".weight", ".bias"};
    size_t marked = 0;
    char name[MT_PARAMS_NAME_BYTES];
    for (size_t i = 0; i < sizeof endings / sizeof endings[0]; i++) {
        int length = snprintf(name, sizeof name, "%s%s", pattern, endings[i]);
        if (length >= (int)sizeof name) continue; // longer than any tensor's name
        struct choice *found =
            bsearch(name, choices->choice, choices->count, sizeof *choices->choice, compare_name);
        if (found != NULL) marked += mark(choices, found, list, false);
    }
    return marked;
}

static size_t mark_glob(struct choices *choices, enum list list, const char *pattern)
{
    size_t marked = 0;
    for (size_t i = 0; i < choices->count; i++) {
        char module[MT_MODEL_NAME_BYTES];
        const char *name = choices->choice[i].item->tensor.name;
        mt_params_module_name(name, module, sizeof module);
        if (fnmatch(pattern, module, 0) == 0 || fnmatch(pattern, name, 0) == 0) {
            marked += mark(choices, &choices->choice[i], list, false);
        }
    }
    return marked;
}

/* Every linear layer of the layers, as PEFT's word for it: not the head. */
static size_t mark_linear(struct choices *choices, enum list list)
{
    size_t marked = 0;
    for (size_t i = 0; i < choices->count; i++) {
        const struct mt_model_tensor *tensor = &choices->choice[i].item->tensor;
        if (tensor->layer >= 0 && mt_params_is_linear(tensor))
            marked += mark(choices, &choices->choice[i], list, true);
    }
    return marked;
}

/* The end of names, as lists for PEFT have it; then what transformers calls otherwise than the checkpoint. */
static size_t mark_word(struct choices *choices, enum list list, const char *word)
{
    size_t marked = 0;
    for (int other = 0; other < 2 && marked == 0; other++) {
        for (size_t i = 0; i < choices->count; i++) {
            const struct mt_model_tensor *tensor = &choices->choice[i].item->tensor;
            bool named =
                other == 0 ? word_names(word, tensor) : other_word_names(choices->desc, word, tensor);
            if (named) marked += mark(choices, &choices->choice[i], list, false);
        }
    }
    return marked;
}

static size_t mark_text(struct choices *choices, enum list list, const char *pattern)
{
    for (int part = 0; part < MT_MODEL_PART_COUNT; part++) {
        if (strcmp(pattern, mt_model_part_key((enum mt_model_part)part)) == 0) {
            return mark_part(choices, list, (enum mt_model_part)part);
        }
    }
    // "all" is LLaMA-Factory's word for it; where tensors are trained as they are it could mean more.
    bool all = list == LIST_LORA && strcmp(pattern, "all") == 0;
    if (all || strcmp(pattern, "all-linear") == 0) return mark_linear(choices, list);
    if (strpbrk(pattern, "*?[\\") != NULL) return mark_glob(choices, list, pattern);
    // A plain name is looked up first: adapters name thousands of modules.
    size_t marked = mark_name(choices, list, pattern);
    return marked > 0 ? marked : mark_word(choices, list, pattern);
}

/* Whole names of modules, as PEFT matches a text that is no list. One that cannot be compiled matches none.
 */
static enum mt_status mark_regex(struct mt_context *ctx, struct choices *choices, enum list list,
                                 const char *pattern, size_t *marked)
{
    struct mt_regex *regex = NULL;
    struct mt_regex_matcher *matcher = NULL;
    enum mt_status status = mt_regex_compile(ctx, pattern, false, &regex);
    if (status != MT_OK) return status == MT_ERR_MEMORY ? status : MT_OK;
    status = mt_regex_matcher_create(ctx, &matcher);
    for (size_t i = 0; status == MT_OK && i < choices->count; i++) {
        char module[MT_MODEL_NAME_BYTES];
        struct mt_regex_walk walk = {0};
        bool found = false;
        mt_params_module_name(choices->choice[i].item->tensor.name, module, sizeof module);
        size_t length = strlen(module);
        mt_regex_matcher_begin(matcher, length);
        status = mt_regex_next(matcher, regex, (const uint8_t *)module, length, &walk, &found);
        if (found && walk.start == 0 && walk.end == length)
            *marked += mark(choices, &choices->choice[i], list, false);
    }
    mt_regex_matcher_free(matcher);
    mt_regex_free(regex);
    return status;
}

static enum mt_status mark_list(struct mt_context *ctx, struct choices *choices,
                                const struct mt_params_items *items, enum list list,
                                const char *const *patterns)
{
    enum mt_status status = MT_OK;
    for (; status == MT_OK && patterns != NULL && *patterns != NULL; patterns++) {
        choices->taken = 0;
        size_t marked = mark_text(choices, list, *patterns);
        if (marked == 0 && strpbrk(*patterns, "*?[]\\|()^$+{}") != NULL)
            status = mark_regex(ctx, choices, list, *patterns, &marked);
        if (status == MT_OK && marked == 0)
            status = fail_word(ctx, items, list == LIST_LORA, list_names[list], *patterns);
        if (status == MT_OK && marked > 0 && choices->taken == 0)
            status = mt_fail(ctx, MT_ERR_USAGE, "%s: '%s' selects nothing that is trained: leave it out",
                             list_names[list], mt_printable(*patterns).text);
    }
    return status;
}

// ------------------------------------------------------------------ ESFT

static bool expert_is_trained(const struct mt_train_selection *selection,
                              const struct mt_model_tensor *tensor)
{
    if (selection->experts == NULL || tensor->expert < 0) return true;
    const bool *flags = selection->experts[tensor->layer];
    return flags == NULL || flags[tensor->expert];
}

/* A list of experts that changes nothing is a mistake of whoever wrote it. */
static enum mt_status check_experts(struct mt_context *ctx, const struct mt_model_desc *desc,
                                    const struct mt_train_selection *selection, const struct choices *choices)
{
    if (selection->experts == NULL) return MT_OK;
    for (int64_t layer = 0; layer < desc->layers; layer++) {
        const bool *flags = selection->experts[layer];
        if (mt_model_layer_is_moe(desc, layer) || flags == NULL) continue;
        return mt_fail(ctx, MT_ERR_USAGE, "experts are chosen in layer %lld, which has none",
                       (long long)layer);
    }
    for (size_t i = 0; i < choices->count; i++) {
        const struct choice *choice = &choices->choice[i];
        bool selected = choice->in[LIST_FULL] || choice->in[LIST_LORA];
        if (choice->item->tensor.expert >= 0 && selected && !choice->in[LIST_FREEZE]) return MT_OK;
    }
    return mt_fail(ctx, MT_ERR_USAGE, "experts are chosen, but the targets have no routed expert among them");
}

// ------------------------------------------------------------------ numbers and result

static enum mt_status check_numbers(struct mt_context *ctx, const struct mt_train_selection *selection)
{
    if (selection->lora == NULL || selection->lora[0] == NULL) return MT_OK;
    if (selection->lora_rank < 1) {
        return mt_fail(ctx, MT_ERR_USAGE, "the LoRA rank is %d, expected at least 1", selection->lora_rank);
    }
    if (!(selection->lora_alpha > 0.0 && selection->lora_alpha <= 1e9)) {
        return mt_fail(ctx, MT_ERR_USAGE, "LoRA's alpha is %g, expected a number above 0",
                       selection->lora_alpha);
    }
    if (!(selection->lora_dropout >= 0.0 && selection->lora_dropout < 1.0)) {
        return mt_fail(ctx, MT_ERR_USAGE, "LoRA's dropout is %g, expected 0 or more and less than 1",
                       selection->lora_dropout);
    }
    return MT_OK;
}

static enum mt_status decide(struct mt_context *ctx, const struct mt_train_selection *selection,
                             const struct choice *choice, enum mt_trainable *trainable)
{
    *trainable = MT_TRAINABLE_NONE;
    if (choice->in[LIST_FREEZE] || !expert_is_trained(selection, &choice->item->tensor)) return MT_OK;
    if (choice->in[LIST_FULL] && choice->in[LIST_LORA]) {
        return mt_fail(ctx, MT_ERR_USAGE, "%s is selected both for full training and for LoRA",
                       choice->item->tensor.name);
    }
    if (choice->in[LIST_FULL]) *trainable = MT_TRAINABLE_FULL;
    if (choice->in[LIST_LORA]) *trainable = MT_TRAINABLE_LORA;
    return MT_OK;
}

static enum mt_status select_marked(struct mt_context *ctx, const struct mt_model_desc *desc,
                                    const struct mt_train_selection *selection, struct choices *choices,
                                    struct mt_params_items *items, struct mt_params *params)
{
    enum mt_status status = check_numbers(ctx, selection);
    if (status == MT_OK) status = mark_list(ctx, choices, items, LIST_FULL, selection->full);
    if (status == MT_OK) status = mark_list(ctx, choices, items, LIST_LORA, selection->lora);
    if (status == MT_OK) status = mark_list(ctx, choices, items, LIST_FREEZE, selection->freeze);
    if (status == MT_OK) status = check_experts(ctx, desc, selection, choices);
    for (size_t i = 0; status == MT_OK && i < choices->count; i++) {
        const struct choice *choice = &choices->choice[i];
        struct mt_params_item *item = &items->item[choice->item - items->item];
        status = decide(ctx, selection, choice, &item->trainable);
        if (item->correction) {
            params->layer[item->tensor.layer].correction_frozen = choice->in[LIST_FREEZE];
        }
    }
    return status;
}

enum mt_status mt_params_select(struct mt_context *ctx, const struct mt_model_desc *desc,
                                const struct mt_train_selection *selection, struct mt_params_items *items,
                                struct mt_params *params)
{
    void *memory = NULL;
    enum mt_status status = mt_allocate_array(ctx, items->count, sizeof(struct choice), &memory);
    if (status != MT_OK) return status;
    struct choices choices = {.choice = memory, .count = items->count, .desc = desc};
    for (size_t i = 0; i < items->count; i++) choices.choice[i].item = &items->item[i];
    qsort(choices.choice, choices.count, sizeof *choices.choice, compare_choices);
    status = select_marked(ctx, desc, selection, &choices, items, params);
    mt_release(ctx, memory, items->count * sizeof *choices.choice);
    return status;
}
