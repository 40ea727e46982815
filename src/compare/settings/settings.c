/* Settings of a comparison: what the table reads, training's words, the grid's methods, what cannot be. */
#include "compare/settings/settings.h"

#include <string.h>

#include "base/exact.h"
#include "compare/settings/settings_read.h"
#include "formats/text/printable.h"

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
        char digits[MT_EXACT_BYTES];
        const char *value = mt_exact_text(axes[i].value, digits);
        if (axes[i].count > 0)
            status = mt_compare_set_word(reader->arena, &method->words, axes[i].key, value);
    }
    // Names have six digits: two values that differ further behind would share a folder.
    for (size_t i = 0; i < settings->methods && status == MT_OK; i++) {
        if (strcmp(settings->method[i].name, method->name) == 0)
            status = mt_key_fail(reader, NULL, NULL, "two methods of the grid are called %s", method->name);
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
        return mt_key_fail(reader, NULL, NULL, "reference is '%s', which is not one of the methods",
                           mt_printable(settings->reference).text);
    if (settings->agreement && settings->ranks == MT_COMPARE_RANKS_EACH)
        return mt_key_fail(reader, NULL, NULL, "analysis.agreement is not measured with ranks: each");
    return MT_OK;
}

/* A word over the file. */
static bool is_over(const struct mt_keys_reader *reader, const char *key)
{
    const struct mt_key_entry *entry = mt_keys_given(reader, key);
    return entry != NULL && entry->word != NULL;
}

/* Keys of problems that no domain has a use for. A word domains=... over the file is meant: what the file
 * says about problems is then void. */
static enum mt_status check_problems(const struct mt_keys_reader *reader)
{
    const struct mt_compare_settings *settings = reader->target;
    bool over = is_over(reader, "domains") || is_over(reader, "others");
    bool made = false, recipes = false, trained = false, held_out = settings->prune.count > 0;
    for (size_t d = 0; d < settings->domains; d++) {
        const struct mt_compare_domain *domain = &settings->domain[d];
        if (domain->mix) continue;
        bool built_in = domain->train == NULL && domain->recipe == NULL && domain->test == NULL;
        made = made || built_in;
        trained = trained || (built_in && domain->trained);
        recipes = recipes || domain->recipe != NULL;
        held_out = held_out || domain->test == NULL;
    }
    const struct {
        const char *key;
        bool used;
        const char *why;
    } rules[] = {
        {"problems.train", trained || recipes, "no domain is trained on built-in problems or a recipe"},
        {"problems.test", held_out, "every domain has a test file"},
        {"problems.seed", made || recipes, "no domain is built in or has a recipe"},
        {"problems.difficulty", made, "no domain is built in"},
        {"problems.draw", trained || recipes, "no domain is trained on built-in problems or a recipe"},
    };
    for (size_t i = 0; i < sizeof rules / sizeof rules[0]; i++) {
        const struct mt_key_entry *entry = mt_keys_given(reader, rules[i].key);
        if (rules[i].used || entry == NULL || (over && entry->word == NULL)) continue;
        return mt_key_fail(reader, entry, NULL, "%s means nothing: %s; leave it out", rules[i].key,
                           rules[i].why);
    }
    return MT_OK;
}

/* The value of a key of metier train that a method's cells have; "": nobody said. */
static const char *training_value(const struct mt_compare_settings *settings, size_t method, const char *key)
{
    const struct mt_compare_words *given[] = {&settings->method[method].words, &settings->training};
    size_t length = strlen(key);
    for (size_t g = 0; g < 2; g++) {
        for (size_t i = 0; i < given[g]->count; i++) {
            const char *word = given[g]->word[i];
            if (strncmp(word, key, length) == 0 && word[length] == '=') return word + length + 1;
        }
    }
    return "";
}

static enum mt_status check_agreement(const struct mt_keys_reader *reader)
{
    const struct mt_compare_settings *settings = reader->target;
    bool quantised = false;
    for (size_t i = 0; i < settings->methods; i++) {
        const char *format = training_value(settings, i, "quantize.format");
        bool lora = strcmp(training_value(settings, i, "train"), "full") != 0;
        quantised = quantised || (lora && format[0] != '\0' && strcmp(format, "none") != 0);
    }
    bool meant = settings->methods_over && !is_over(reader, "analysis.agreement");
    if (!settings->agreement || quantised || meant) return MT_OK;
    return mt_key_fail(reader, mt_keys_given(reader, "analysis.agreement"), NULL,
                       "analysis.agreement means nothing: no method trains LoRA on quantised weights "
                       "(quantize.format); leave it out");
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
    settings->methods_over = is_over(reader, "methods");
    if (settings->seeds == 0) settings->seed[settings->seeds++] = 1;
    status = mt_compare_arrange_domains(reader);
    if (status == MT_OK) status = expand_grid(reader);
    if (status == MT_OK) status = check(reader);
    if (status == MT_OK) status = check_asking(reader);
    if (status == MT_OK) status = check_evaluation(reader);
    if (status == MT_OK) status = check_agreement(reader);
    if (status == MT_OK) status = mt_compare_check_asked(reader);
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
