/* What a cell is: its name, the settings it is trained with, what it was made from. Running it: cell_run.c.
 */
#include "compare/cell.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/exact.h"
#include "compare/settings/words.h"
#include "model/files/input_files.h"
#include "train/state/inputs.h"

#define PATH_BYTES        4096
#define NUMBER_BYTES      32
#define ARENA_BLOCK_BYTES 16384

static enum mt_status put_path(const struct mt_cell_job *job, const char **path, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

static enum mt_status put_path(const struct mt_cell_job *job, const char **path, const char *format, ...)
{
    char text[PATH_BYTES];
    va_list arguments;
    va_start(arguments, format);
    int length = vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    if (length < 0 || (size_t)length >= sizeof text)
        return mt_fail(job->ctx, MT_ERR_USAGE, "%.100s...: the path is too long", text);
    return mt_arena_copy_text(job->arena, text, (size_t)length, path);
}

enum mt_status mt_cell_agree(const struct mt_cell_job *job, enum mt_status status)
{
    return job->ranks != NULL ? mt_comm_agree(job->ranks, job->ctx, status) : status;
}

enum mt_status mt_cell_name(const struct mt_cell_job *job, struct mt_cell *cell)
{
    const struct mt_compare_settings *settings = job->settings;
    // Of one model it is not named: what is compared may have moved to a model of another name.
    const char *model = settings->models > 1 ? settings->model[cell->model].name : "";
    const char *dash = settings->models > 1 ? "-" : "";
    const char *domain = settings->domain[cell->domain].name;
    enum mt_status status = MT_OK;
    if (cell->base)
        status = put_path(job, &cell->name, "%s%sbase", model, dash);
    else if (cell->start)
        status = put_path(job, &cell->name, "%s%sbase-%s", model, dash, domain);
    else
        status = put_path(job, &cell->name, "%s%s%s-%s-s%" PRIu64, model, dash,
                          settings->method[cell->method].name, domain, settings->seed[cell->seed]);
    if (status != MT_OK) return status;
    return put_path(job, &cell->folder, "%s/cells/%s", settings->out, cell->name);
}

bool mt_cell_asks(const struct mt_cell_job *job, const struct mt_cell *cell, size_t task)
{
    if (cell->start) return false;
    return cell->base || mt_compare_asks(&job->settings->domain[cell->domain], job->tasks->task[task].entry);
}

enum mt_status mt_cell_test_data(const struct mt_cell_job *job, size_t domain, const char **path)
{
    const struct mt_compare_domain *from = &job->settings->domain[domain];
    *path = from->test;
    if (*path != NULL) return MT_OK;
    return put_path(job, path, "%s/data/test-%s.jsonl", job->settings->out, from->name);
}

enum mt_status mt_cell_train_data(const struct mt_cell_job *job, size_t domain, size_t seed,
                                  const char **path)
{
    const struct mt_compare_domain *from = &job->settings->domain[domain];
    // Both parts of what is divided lie in OUT/data.
    *path = mt_compare_divides(from) ? NULL : from->train;
    if (*path != NULL) return MT_OK;
    // No name of a domain has this sign.
    if (job->settings->draw == MT_COMPARE_DRAW_SEED && mt_compare_draws(from))
        return put_path(job, path, "%s/data/train-%s-seed=%" PRIu64 ".jsonl", job->settings->out, from->name,
                        job->settings->seed[seed]);
    return put_path(job, path, "%s/data/train-%s.jsonl", job->settings->out, from->name);
}

// ------------------------------------------------------------------ settings of training

/* What the cell's method says itself. A start has no method: it is the same whichever comes after it. */
static const struct mt_compare_words *own_words(const struct mt_cell_job *job, const struct mt_cell *cell)
{
    static const char *word[] = {"method=none"};
    static const struct mt_compare_words none = {.word = word, .count = 1};
    return cell->start ? &none : &job->settings->method[cell->method].words;
}

/* "data.sources=[{path: "a", weight: 2}, ...]": the parts of a mix. */
static enum mt_status add_sources(const struct mt_cell_job *job, const struct mt_cell *cell,
                                  struct mt_arena *arena, struct mt_compare_words *words)
{
    const struct mt_compare_domain *mix = &job->settings->domain[cell->domain];
    struct mt_byte_list text = {.ctx = job->ctx};
    enum mt_status status = mt_byte_list_append_text(&text, "data.sources=[");
    for (size_t i = 0; i < mix->parts && status == MT_OK; i++) {
        char digits[MT_EXACT_BYTES];
        const char *path = NULL;
        status = mt_cell_train_data(job, mix->part[i], cell->seed, &path);
        if (status == MT_OK) status = mt_byte_list_append_text(&text, i == 0 ? "{path: " : ", {path: ");
        if (status == MT_OK) status = mt_key_append_quoted(path, &text);
        if (status == MT_OK) status = mt_byte_list_append_text(&text, ", weight: ");
        if (status == MT_OK) status = mt_byte_list_append_text(&text, mt_exact_text(mix->weight[i], digits));
        if (status == MT_OK) status = mt_byte_list_append_text(&text, "}");
    }
    if (status == MT_OK) status = mt_byte_list_append(&text, "]", 2); // and its end
    if (status == MT_OK) status = mt_compare_add_word(arena, words, (const char *)text.data);
    mt_byte_list_free(&text);
    return status;
}

static enum mt_status add_data(const struct mt_cell_job *job, const struct mt_cell *cell,
                               struct mt_arena *arena, struct mt_compare_words *words)
{
    const char *path = NULL;
    if (job->settings->domain[cell->domain].mix) return add_sources(job, cell, arena, words);
    enum mt_status status = mt_cell_train_data(job, cell->domain, cell->seed, &path);
    return status == MT_OK ? mt_compare_set_word(arena, words, "data.path", path) : status;
}

/* What a cell is trained with: our defaults, what all have, what the method has, what makes it this cell. */
static enum mt_status collect_words(const struct mt_cell_job *job, const struct mt_cell *cell,
                                    struct mt_arena *arena, struct mt_compare_words *words)
{
    const struct mt_compare_settings *settings = job->settings;
    const struct mt_compare_words *given[] = {&settings->training, own_words(job, cell)};
    char seed[NUMBER_BYTES], threads[NUMBER_BYTES];
    char run[PATH_BYTES];
    enum mt_status status = mt_compare_set_word(arena, words, "log.tensorboard", "false");
    if (status == MT_OK) status = mt_compare_set_word(arena, words, "checkpoint.keep", "1");
    for (size_t g = 0; g < 2; g++) {
        for (size_t i = 0; i < given[g]->count && status == MT_OK; i++)
            status = mt_compare_add_word(arena, words, given[g]->word[i]);
    }
    (void)snprintf(seed, sizeof seed, "%" PRIu64, settings->seed[cell->seed]);
    (void)snprintf(threads, sizeof threads, "%" PRId64, job->threads);
    (void)snprintf(run, sizeof run, "%s/run", cell->folder);
    const char *const ours[][2] = {{"model", settings->model[cell->model].path},
                                   {"out", run},
                                   {"seed", seed},
                                   {"device", job->device},
                                   {"threads", threads},
                                   {"log.every", "1"}};
    for (size_t i = 0; i < sizeof ours / sizeof ours[0] && status == MT_OK; i++)
        status = mt_compare_set_word(arena, words, ours[i][0], ours[i][1]);
    return status == MT_OK ? add_data(job, cell, arena, words) : status;
}

static const char objective_prefix[] = "objective.";

struct key_text {
    char text[2 * NUMBER_BYTES];
};

/* "objective.form" of "objective.form=cosine". */
static struct key_text key_of(const char *word)
{
    struct key_text key;
    (void)snprintf(key.text, sizeof key.text, "%.*s", (int)strcspn(word, "="), word);
    return key;
}

/* Whether the method decides what a word is good for. A figure that is 0 asks for nothing. */
static bool is_of_method(const char *word)
{
    static const char measured[] = "log.measure_every=";
    if (strncmp(word, measured, sizeof measured - 1) == 0)
        return strcmp(word + sizeof measured - 1, "0") != 0;
    return strncmp(word, objective_prefix, sizeof objective_prefix - 1) == 0;
}

static bool has_key_of(const struct mt_compare_words *words, const char *word)
{
    size_t length = strcspn(word, "=") + 1;
    bool found = false;
    for (size_t i = 0; i < words->count; i++) found = found || strncmp(words->word[i], word, length) == 0;
    return found;
}

/* What a cell's words say about its method. */
struct cell_method {
    struct mt_objective_config config;
    bool noise;
    bool known; // false: they cannot be, and are refused where all of them are read
};

static void read_method(const struct mt_cell_job *job, const struct mt_compare_words *words,
                        struct cell_method *method)
{
    size_t prefix = sizeof objective_prefix - 1;
    *method = (struct cell_method){.noise = true, .known = true};
    for (size_t i = 0; i < words->count; i++) {
        if (mt_key_place_of_word("noise=false|noise=no", words->word[i]) >= 0) method->noise = false;
        if (strncmp(words->word[i], "method=", 7) == 0)
            method->known =
                mt_objective_config_method(job->ctx, words->word[i] + 7, &method->config) == MT_OK;
    }
    for (size_t i = 0; i < words->count; i++) {
        struct key_text key = key_of(words->word[i]);
        const char *equals = strchr(words->word[i], '=');
        if (strncmp(key.text, objective_prefix, prefix) == 0 && equals != NULL)
            (void)mt_objective_config_set(job->ctx, &method->config, key.text + prefix, equals + 1);
    }
}

/* Why a key changes nothing under a method; NULL: it does, or nobody can tell. */
static const char *why_idle(const struct cell_method *method, const char *word)
{
    return method->known ? mt_train_key_idle(&method->config, method->noise, key_of(word).text) : NULL;
}

/*
 * Keys of a method that all cells are given are for the methods that have a use for them: those that
 * change nothing under this one's terms are left out. What a method says itself stays, and is refused.
 */
static void drop_idle(const struct mt_cell_job *job, const struct mt_cell *cell,
                      struct mt_compare_words *words)
{
    const struct mt_compare_words *own = own_words(job, cell);
    struct cell_method method;
    size_t kept = 0;
    read_method(job, words, &method);
    for (size_t i = 0; i < words->count; i++) {
        bool idle = why_idle(&method, words->word[i]) != NULL;
        if (!idle || has_key_of(own, words->word[i])) words->word[kept++] = words->word[i];
    }
    words->count = kept;
}

/* Why a key of a method that all cells are given changes nothing in this one; NULL: it does. */
static enum mt_status find_use(const struct mt_cell_job *job, const struct mt_cell *cell, const char *word,
                               const char **why)
{
    struct mt_compare_words words = {0};
    struct cell_method method;
    struct mt_arena arena;
    mt_arena_init(&arena, job->ctx, ARENA_BLOCK_BYTES);
    enum mt_status status = collect_words(job, cell, &arena, &words);
    if (status == MT_OK) read_method(job, &words, &method);
    *why = status == MT_OK ? why_idle(&method, word) : NULL;
    if (has_key_of(&job->settings->method[cell->method].words, word)) *why = "it has its own";
    mt_arena_free(&arena);
    return status;
}

enum mt_status mt_cell_check_shared(const struct mt_cell_job *job, const struct mt_cell *cells, size_t count)
{
    const struct mt_compare_settings *settings = job->settings;
    for (size_t i = 0; i < settings->training.count; i++) {
        const char *word = settings->training.word[i];
        const char *first = NULL; // why the first method has no use for it
        const char *why = "";
        if (!is_of_method(word)) continue;
        // A word methods=... over the file is meant: what the file says for others is then void.
        if (settings->methods_over && !has_key_of(&settings->training_over, word)) continue;
        for (size_t c = 0; c < count && why != NULL; c++) {
            enum mt_status status = find_use(job, &cells[c], word, &why);
            if (status != MT_OK) return status;
            if (c == 0) first = why;
        }
        if (why == NULL) continue;
        return mt_fail(job->ctx, MT_ERR_USAGE,
                       "%s: %.*s under training means nothing: no method uses it (%s: %s); leave it out",
                       settings->file, (int)strcspn(word, "="), word, settings->method[cells[0].method].name,
                       first);
    }
    return MT_OK;
}

enum mt_status mt_cell_training(const struct mt_cell_job *job, const struct mt_cell *cell,
                                struct mt_arena *arena, struct mt_train_settings *training)
{
    struct mt_compare_words words = {0};
    enum mt_status status = collect_words(job, cell, arena, &words);
    if (status == MT_OK) drop_idle(job, cell, &words);
    if (status == MT_OK)
        status = mt_train_settings_read(job->ctx, job->settings->file, "", 0, words.word, words.count, arena,
                                        training);
    // Methods need more or less memory, and are compared on the same micro-batches all the same.
    if (status == MT_OK && training->tokens == 0) training->tokens = mt_train_auto_tokens(training);
    if (status == MT_OK) return MT_OK;
    return mt_fail_within(job->ctx, status, "%s: %s", job->settings->file, cell->name);
}

enum mt_status mt_cell_check(const struct mt_cell_job *job, const struct mt_cell *cell, int64_t *steps)
{
    struct mt_train_settings training;
    struct mt_arena arena;
    mt_arena_init(&arena, job->ctx, ARENA_BLOCK_BYTES);
    enum mt_status status = mt_cell_training(job, cell, &arena, &training);
    *steps = status == MT_OK ? training.steps : 0;
    const struct mt_compare_probes *at = &job->settings->at;
    int64_t last = at->count > 0 ? at->value[at->count - 1] : 0; // they rise
    if (*steps > 0 && last > *steps)
        status = mt_fail(job->ctx, MT_ERR_USAGE,
                         "%s: evaluate_at has step %" PRId64 ", but training has only %" PRId64 "",
                         job->settings->file, last, *steps);
    mt_arena_free(&arena);
    return status;
}

/* Keys that a cell's numbers do not depend on. */
static bool is_elsewhere(const char *word)
{
    static const char *const keys[] = {
        "out=", "data.path=", "data.sources=", "device=", "threads=", "memory.limit=", "quantize.cache="};
    bool found = false;
    for (size_t i = 0; i < sizeof keys / sizeof keys[0]; i++)
        found = found || strncmp(word, keys[i], strlen(keys[i])) == 0;
    return found;
}

/* Of a base: the model, and how conversations are written. */
static bool is_of_base(const char *word)
{
    static const char *const keys[] = {
        "model=", "data.template=", "data.template_options=", "data.template_date="};
    bool found = false;
    for (size_t i = 0; i < sizeof keys / sizeof keys[0]; i++)
        found = found || strncmp(word, keys[i], strlen(keys[i])) == 0;
    return found;
}

/* Whether a word says what a cell is. A start comes before all that a seed decides, but for rows that are
 * drawn by it and choose experts. */
static bool counts_for(const struct mt_compare_settings *settings, const struct mt_cell *cell,
                       const char *word)
{
    bool pruned = settings->prune.count > 0 || settings->pruning.keeps > 0;
    bool seeded = !cell->start || (pruned && settings->draw == MT_COMPARE_DRAW_SEED);
    if (cell->base) return is_of_base(word);
    return !is_elsewhere(word) && (seeded || strncmp(word, "seed=", 5) != 0);
}

/* Nothing where nothing is asked: cells of older versions stay what they are. */
static void add_probes(struct mt_digest *digest, const char *name, const struct mt_compare_probes *probes)
{
    char number[NUMBER_BYTES];
    if (probes->count > 0) mt_digest_add(digest, name, strlen(name));
    for (size_t i = 0; i < probes->count; i++) {
        int length = snprintf(number, sizeof number, " %" PRId64, probes->value[i]);
        mt_digest_add(digest, number, (size_t)length);
    }
}

/* Whether training data of other domains than the cell's own choose experts. */
static bool asks_others(const struct mt_compare_settings *settings)
{
    const struct mt_compare_pruning *pruning = &settings->pruning;
    bool found = false;
    for (size_t i = 0; i < pruning->bys; i++) found = found || pruning->by[i] != MT_COMPARE_BY_OWN;
    return found && pruning->keeps > 0;
}

/* What is asked with fewer experts, and by which rows. */
static void add_askings(struct mt_digest *digest, const struct mt_compare_settings *settings)
{
    const struct mt_compare_pruning *pruning = &settings->pruning;
    for (size_t i = 0; i < mt_compare_askings(settings); i++) {
        struct mt_compare_asking asking = mt_compare_asking(settings, i);
        const char *key = mt_asking_key(asking.kind);
        mt_digest_add(digest, key, strlen(key) + 1);
        mt_digest_add(digest, asking.name, strlen(asking.name) + 1);
    }
    const struct mt_compare_probes rows = {.value = {pruning->rows, pruning->mix_rows}, .count = 2};
    if (pruning->keeps > 0) add_probes(digest, " rows as drawn", &rows);
}

enum mt_status mt_cell_identify(const struct mt_cell_job *job, const struct mt_cell *cell,
                                struct mt_arena *arena, struct mt_digest_text *identity)
{
    const struct mt_compare_settings *settings = job->settings;
    struct mt_compare_words words = {0};
    struct mt_digest *digest = NULL;
    const int64_t numbers[] = {settings->train_problems, settings->test_problems, settings->problem_seed,
                               settings->difficulty,     settings->sample,        settings->neighbours};
    bool of_others = asks_others(settings);
    enum mt_status status = collect_words(job, cell, arena, &words);
    if (status == MT_OK) status = mt_digest_create(job->ctx, &digest);
    if (status != MT_OK) return status;
    for (size_t i = 0; i < words.count; i++) {
        if (counts_for(settings, cell, words.word[i]))
            mt_digest_add(digest, words.word[i], strlen(words.word[i]) + 1);
    }
    for (size_t i = 0; !cell->base && i < sizeof numbers / sizeof numbers[0]; i++) {
        char number[NUMBER_BYTES];
        int length = snprintf(number, sizeof number, " %" PRId64, numbers[i]);
        mt_digest_add(digest, number, (size_t)length);
    }
    if (!cell->base) add_probes(digest, " prune", &settings->prune);
    if (!cell->base) add_probes(digest, " at", &settings->at);
    if (!cell->base) add_askings(digest, settings);
    if (!cell->base && settings->agreement) mt_digest_add(digest, " agreement", 10);
    if (!cell->base && settings->draw == MT_COMPARE_DRAW_SEED) mt_digest_add(digest, " draw seed", 10);
    for (size_t d = 0; !cell->base && d < settings->domains; d++) {
        const struct mt_compare_domain *domain = &settings->domain[d];
        const char *const texts[] = {domain->name, domain->train, domain->recipe, domain->test};
        for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
            if (texts[i] != NULL) mt_digest_add(digest, texts[i], strlen(texts[i]) + 1);
        }
        if (of_others && mt_compare_has_rows(domain)) mt_digest_add(digest, " rows", 5);
        for (size_t i = 0; domain->mix && i < domain->parts; i++) {
            char digits[MT_EXACT_BYTES];
            const char *name = settings->domain[domain->part[i]].name;
            const char *weight = mt_exact_text(domain->weight[i], digits);
            mt_digest_add(digest, name, strlen(name) + 1);
            mt_digest_add(digest, weight, strlen(weight) + 1);
        }
    }
    *identity = mt_digest_finish(digest);
    mt_digest_free(digest);
    return MT_OK;
}

enum mt_status mt_cell_read(const struct mt_cell_job *job, struct mt_cell *cell)
{
    struct mt_digest_text identity;
    struct mt_arena arena;
    mt_arena_init(&arena, job->ctx, ARENA_BLOCK_BYTES);
    enum mt_status status = mt_cell_identify(job, cell, &arena, &identity);
    if (status == MT_OK) status = mt_cell_file_read(job, cell, identity.digits);
    mt_arena_free(&arena);
    return status;
}

// ------------------------------------------------------------------ what its files hold

/* The task files of the benchmarks; of their questions each is compared by itself (eval/run/results.h). */
static enum mt_status add_tasks(const struct mt_cell_job *job, struct mt_fingerprint *inputs)
{
    enum mt_status status = MT_OK;
    for (size_t t = 0; t < job->tasks->count; t++) {
        const struct mt_task_list *list = &job->tasks->task[t].list;
        for (size_t i = 0; i < list->count && status == MT_OK; i++)
            status = mt_fingerprint_add(inputs, list->tasks[i].file);
    }
    return status;
}

enum mt_status mt_cell_add_inputs(const struct mt_cell_job *job, const struct mt_cell *cell,
                                  const struct mt_train_settings *training, struct mt_fingerprint *inputs)
{
    const struct mt_compare_settings *settings = job->settings;
    enum mt_status status = MT_OK;
    if (cell->base) {
        status = mt_input_files_model(inputs, training->model);
        if (status == MT_OK) status = mt_input_files_tokenizer(inputs, training->model);
        return status == MT_OK ? add_tasks(job, inputs) : status;
    }
    status = mt_train_inputs(inputs, training, job->templates);
    if (status == MT_OK) status = add_tasks(job, inputs);
    for (size_t d = 0; d < settings->domains && status == MT_OK; d++) {
        const char *path = NULL;
        if (settings->domain[d].mix) continue;
        status = mt_cell_test_data(job, d, &path);
        if (status == MT_OK) status = mt_fingerprint_add(inputs, path);
        bool parted = mt_compare_divides(&settings->domain[d]) && settings->domain[d].train != NULL;
        if (status == MT_OK && parted) status = mt_fingerprint_add(inputs, settings->domain[d].train);
        if (status != MT_OK || !asks_others(settings) || !mt_compare_has_rows(&settings->domain[d])) continue;
        status = mt_cell_train_data(job, d, cell->seed, &path);
        if (status == MT_OK) status = mt_fingerprint_add(inputs, path);
    }
    return status;
}

enum mt_status mt_cell_check_inputs(const struct mt_cell_job *job, const struct mt_cell *cell,
                                    struct mt_fingerprint *inputs, bool *known)
{
    static const struct mt_fingerprint_words words = {.since = "cells of this comparison were made",
                                                      .cure = "put it back to go on, or choose another out"};
    struct mt_train_settings training;
    struct mt_arena arena;
    char *path = NULL;
    mt_arena_init(&arena, job->ctx, ARENA_BLOCK_BYTES);
    enum mt_status status = mt_cell_training(job, cell, &arena, &training);
    if (status == MT_OK) status = mt_cell_add_inputs(job, cell, &training, inputs);
    if (status == MT_OK) status = mt_path_join(job->ctx, cell->folder, MT_FINGERPRINT_FILE, &path);
    if (status == MT_OK) status = mt_fingerprint_compare(inputs, path, &words, true, job->log, known);
    mt_path_release(job->ctx, path);
    mt_arena_free(&arena);
    return status;
}
