/* Settings of a comparison: what the table reads, training's words, the grid's methods, what cannot be. */
#include "compare/settings/settings.h"

#include <string.h>

#define TRAINING "training."

// ------------------------------------------------------------------ the grid

/* One point; an axis without values is left as the method has it. */
static enum mt_status add_point(const struct mt_keys_reader *reader, size_t a, size_t b, size_t g)
{
    struct mt_compare_settings *settings = reader->target;
    const struct mt_compare_grid *grid = &settings->grid;
    struct mt_compare_method *method = &settings->method[settings->methods];
    char name[128];
    if (settings->methods == MT_COMPARE_MOST_METHODS)
        return mt_key_fail(reader, NULL, NULL, "grid makes more than %d methods", MT_COMPARE_MOST_METHODS);
    *method = (struct mt_compare_method){.in_grid = true,
                                         .alpha = grid->alpha.value[a],
                                         .beta = grid->beta.value[b],
                                         .gamma = grid->gamma.value[g]};
    (void)snprintf(name, sizeof name, "grid-%.40s-a%g-b%g-g%g", grid->method, method->alpha, method->beta,
                   method->gamma);
    enum mt_status status = mt_arena_copy_text(reader->arena, name, strlen(name), &method->name);
    if (status == MT_OK) status = mt_compare_set_word(reader->arena, &method->words, "method", grid->method);
    const struct {
        const char *key;
        size_t count;
        double value;
    } axes[] = {{"objective.alpha", grid->alpha.count, method->alpha},
                {"objective.beta", grid->beta.count, method->beta},
                {"objective.gamma", grid->gamma.count, method->gamma}};
    for (size_t i = 0; i < 3 && status == MT_OK; i++) {
        (void)snprintf(name, sizeof name, "%g", axes[i].value);
        if (axes[i].count > 0) status = mt_compare_set_word(reader->arena, &method->words, axes[i].key, name);
    }
    settings->methods++;
    return status;
}

static enum mt_status expand_grid(const struct mt_keys_reader *reader)
{
    const struct mt_compare_grid *grid = &((struct mt_compare_settings *)reader->target)->grid;
    enum mt_status status = MT_OK;
    bool axes = grid->alpha.count + grid->beta.count + grid->gamma.count > 0;
    if (grid->method == NULL && !axes) return MT_OK;
    if (grid->method == NULL || !axes)
        return mt_key_fail(reader, NULL, NULL,
                           "a grid needs grid.method and one of grid.alpha, grid.beta, grid.gamma");
    size_t alphas = grid->alpha.count > 0 ? grid->alpha.count : 1;
    size_t betas = grid->beta.count > 0 ? grid->beta.count : 1;
    size_t gammas = grid->gamma.count > 0 ? grid->gamma.count : 1;
    for (size_t i = 0; i < alphas * betas * gammas && status == MT_OK; i++)
        status = add_point(reader, i / gammas / betas, i / gammas % betas, i % gammas);
    return status;
}

// ------------------------------------------------------------------ the whole

size_t mt_compare_reference(const struct mt_compare_settings *settings)
{
    size_t index = 0;
    while (index < settings->methods && strcmp(settings->method[index].name, settings->reference) != 0)
        index++;
    return index;
}

static enum mt_status check(const struct mt_keys_reader *reader)
{
    struct mt_compare_settings *settings = reader->target;
    const char *missing = NULL;
    if (settings->methods == 0) missing = "methods";
    if (settings->trained == 0) missing = "domains";
    if (settings->out == NULL) missing = "out";
    if (settings->models == 0) missing = "model";
    if (missing != NULL) return mt_key_fail(reader, NULL, NULL, "%s is missing", missing);
    if (settings->reference == NULL) settings->reference = settings->method[0].name;
    if (mt_compare_reference(settings) == settings->methods)
        return mt_key_fail(reader, NULL, NULL, "reference is '%s', which is none of the methods",
                           settings->reference);
    if (settings->agreement && settings->ranks == MT_COMPARE_RANKS_EACH)
        return mt_key_fail(reader, NULL, NULL, "analysis.agreement is not measured with ranks: each");
    return MT_OK;
}

/* Keys of built-in problems mean nothing where every domain has files of its own. */
static enum mt_status check_problems(const struct mt_keys_reader *reader)
{
    const struct mt_compare_settings *settings = reader->target;
    for (size_t d = 0; d < settings->domains; d++) {
        if (settings->domain[d].test == NULL || settings->domain[d].recipe != NULL) return MT_OK;
    }
    for (const struct mt_key_entry *entry = reader->entries; entry != NULL; entry = entry->next) {
        if (strncmp(entry->name, "problems.", strlen("problems.")) != 0) continue;
        return mt_key_fail(reader, entry, NULL,
                           "%s means nothing: no domain is built in, all have files; leave it out",
                           entry->name);
    }
    return MT_OK;
}

bool mt_compare_asks(const struct mt_compare_domain *domain, const struct mt_compare_entry *entry)
{
    bool asked = domain->tasks == NULL;
    for (size_t i = 0; !asked && domain->tasks[i] != NULL; i++)
        asked = strcmp(domain->tasks[i], entry->name) == 0;
    return asked;
}

/* Benchmarks a domain names must be there, and every benchmark must be asked for by somebody. */
static enum mt_status check_asking(const struct mt_keys_reader *reader)
{
    const struct mt_compare_settings *settings = reader->target;
    bool asked[MT_COMPARE_MOST_TASKS] = {false};
    for (size_t d = 0; d < settings->trained; d++) {
        const struct mt_compare_domain *domain = &settings->domain[d];
        size_t found = 0, named = 0;
        while (domain->tasks != NULL && domain->tasks[named] != NULL) named++;
        for (size_t i = 0; i < settings->entries; i++) {
            bool asks = mt_compare_asks(domain, &settings->entry[i]);
            asked[i] = asked[i] || asks;
            found += asks ? 1 : 0;
        }
        if (domain->tasks != NULL && found != named)
            return mt_key_fail(reader, mt_keys_given(reader, "domains"), NULL,
                               "the domain %s names tasks that are no entries of tasks, or one twice",
                               domain->name);
    }
    for (size_t i = 0; i < settings->entries; i++) {
        if (!asked[i])
            return mt_key_fail(reader, mt_keys_given(reader, "tasks"), NULL,
                               "no domain is evaluated with the task %s; leave it out",
                               settings->entry[i].name);
    }
    return MT_OK;
}

/* So do keys of the evaluation where nothing is evaluated, but for the files that a recipe reads, too. */
static enum mt_status check_evaluation(const struct mt_keys_reader *reader)
{
    const struct mt_compare_settings *settings = reader->target;
    bool recipes = false;
    for (size_t d = 0; d < settings->domains; d++) recipes = recipes || settings->domain[d].recipe != NULL;
    for (const struct mt_key_entry *entry = reader->entries; entry != NULL && settings->entries == 0;
         entry = entry->next) {
        bool files = strcmp(entry->name, "evaluation.data") == 0 ||
                     strcmp(entry->name, "evaluation.skip_missing") == 0;
        if (strncmp(entry->name, "evaluation.", strlen("evaluation.")) == 0 && !(recipes && files))
            return mt_key_fail(reader, entry, NULL, "%s means nothing without tasks; leave it out",
                               entry->name);
    }
    return MT_OK;
}

static bool is_training(const char *word)
{
    return strncmp(word, TRAINING, strlen(TRAINING)) == 0 && strchr(word, '=') != NULL;
}

/* "training.KEY=VALUE" comes over the file's training. */
static enum mt_status add_training(const struct mt_keys_reader *reader, const char *word)
{
    struct mt_compare_settings *settings = reader->target;
    const struct mt_key_entry entry = {.word = word};
    const char *inner = word + strlen(TRAINING);
    enum mt_status status = mt_compare_check_word(reader, &entry, NULL, inner, false);
    if (status == MT_OK) status = mt_compare_add_word(reader->arena, &settings->training, inner);
    return status == MT_OK ? mt_compare_add_word(reader->arena, &settings->training_over, inner) : status;
}

/* Reads the text, or the file where there is none. */
static enum mt_status read_settings(struct mt_keys_reader *reader, const char *text, size_t bytes,
                                    const char *const *words, size_t word_count)
{
    struct mt_compare_settings *settings = reader->target;
    size_t own_count = 0;
    *settings = (struct mt_compare_settings){.file = reader->file, .asking = {.shots = -1}};
    enum mt_status status = MT_OK;
    const char **own = mt_arena_array(reader->arena, word_count + 1, sizeof *own, &status);
    for (size_t i = 0; i < word_count && status == MT_OK; i++) {
        if (!is_training(words[i])) own[own_count++] = words[i];
    }
    if (status == MT_OK) status = mt_keys_read(reader, text, bytes, own, own_count);
    for (size_t i = 0; i < word_count && status == MT_OK; i++) {
        if (is_training(words[i])) status = add_training(reader, words[i]);
    }
    if (status != MT_OK) return status;
    const struct mt_key_entry *methods = mt_keys_given(reader, "methods");
    settings->methods_over = methods != NULL && methods->word != NULL;
    if (settings->seeds == 0) settings->seed[settings->seeds++] = 1;
    status = expand_grid(reader);
    if (status == MT_OK) status = check(reader);
    if (status == MT_OK) status = check_asking(reader);
    if (status == MT_OK) status = check_evaluation(reader);
    return status == MT_OK ? check_problems(reader) : status;
}

enum mt_status mt_compare_settings_read(struct mt_context *ctx, const char *path, const char *text,
                                        size_t bytes, const char *const *words, size_t word_count,
                                        struct mt_arena *arena, struct mt_compare_settings *settings)
{
    struct mt_keys_reader reader = {
        .ctx = ctx, .arena = arena, .file = path, .keys = &mt_compare_keys, .target = settings};
    return read_settings(&reader, text, bytes, words, word_count);
}
