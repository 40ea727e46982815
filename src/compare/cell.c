/* A cell from its settings to cell.json. */
#include "compare/cell.h"

#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/compare.h"
#include "base/exact.h"
#include "base/files/file.h"
#include "base/files/folder.h"
#include "base/files/folder_lock.h"
#include "base/interrupt.h"
#include "compare/asking/probes.h"
#include "compare/measure.h"
#include "compare/settings/words.h"
#include "model/files/input_files.h"
#include "report/run.h"
#include "train/state/inputs.h"
#include "train/trainer.h"

#define PATH_BYTES        4096
#define NUMBER_BYTES      32
#define ARENA_BLOCK_BYTES 16384
#define MOST_TIMED        1024 // steps

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

static bool is_first(const struct mt_cell_job *job)
{
    return job->ranks == NULL || mt_comm_rank(job->ranks) == 0;
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
        return mt_fail(
            job->ctx, MT_ERR_USAGE,
            "%s: %.*s under training means nothing: no method has a use for it (%s: %s); leave it out",
            settings->file, (int)strcspn(word, "="), word, settings->method[cells[0].method].name, first);
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
        status =
            mt_fail(job->ctx, MT_ERR_USAGE, "%s: evaluate_at has %" PRId64 ", and training %" PRId64 " steps",
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

/* A checksum of all that was said about the cell; what the files named in it hold is noted beside it. How
 * benchmarks are asked is noted with each of them. */
static enum mt_status identify(const struct mt_cell_job *job, const struct mt_cell *cell,
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
    enum mt_status status = identify(job, cell, &arena, &identity);
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

/* Everything the cell is trained on, what its experts are chosen by, and what it is measured on. */
static enum mt_status add_inputs(const struct mt_cell_job *job, const struct mt_cell *cell,
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
    if (status == MT_OK) status = add_inputs(job, cell, &training, inputs);
    if (status == MT_OK) status = mt_path_join(job->ctx, cell->folder, MT_FINGERPRINT_FILE, &path);
    if (status == MT_OK) status = mt_fingerprint_compare(inputs, path, &words, true, job->log, known);
    mt_path_release(job->ctx, path);
    mt_arena_free(&arena);
    return status;
}

static enum mt_status write_inputs(const struct mt_cell_job *job, const struct mt_cell *cell,
                                   const struct mt_fingerprint *inputs)
{
    char *path = NULL;
    enum mt_status status = mt_path_join(job->ctx, cell->folder, MT_FINGERPRINT_FILE, &path);
    if (status == MT_OK) status = mt_fingerprint_write(inputs, path);
    mt_path_release(job->ctx, path);
    return status;
}

// ------------------------------------------------------------------ training

static enum mt_status make_folders(const struct mt_cell_job *job, const struct mt_cell *cell)
{
    char cells[PATH_BYTES];
    (void)snprintf(cells, sizeof cells, "%s/cells", job->settings->out);
    enum mt_status status = mt_folder_make(job->ctx, cells);
    return status == MT_OK ? mt_folder_make(job->ctx, cell->folder) : status;
}

/* Sorts; NaN of nothing. */
static double median(double *values, size_t count)
{
    if (count == 0) return (double)NAN;
    qsort(values, count, sizeof *values, mt_by_number);
    return count % 2 == 1 ? values[count / 2] : 0.5 * (values[count / 2 - 1] + values[count / 2]);
}

/* Counts what steps take of the processors, on their way to whoever asked to be told of them; asks problems
 * after those that settings name. */
struct step_clock {
    const struct mt_cell_job *job;
    struct mt_cell *cell;
    const struct mt_train_settings *training;
    struct mt_trainer *trainer;
    enum mt_status asked;       // the first failure of asking
    double last;                // processor time at the end of the step before; negative: none
    double seconds[MOST_TIMED]; // of the first so many steps
    size_t count;
};

static double processor_seconds(void)
{
    struct timespec now;
    if (clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now) != 0) return (double)NAN;
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

/* Asks where this step is one to be asked after. */
static void ask_after(struct step_clock *clock, uint64_t step)
{
    const struct mt_compare_probes *at = &clock->job->settings->at;
    for (size_t i = 0; i < at->count && clock->asked == MT_OK; i++) {
        if ((uint64_t)at->value[i] == step)
            clock->asked = mt_cell_ask(clock->job, clock->cell, clock->training,
                                       mt_trainer_model(clock->trainer), &clock->cell->result.at[i]);
    }
}

static void count_step(void *self, uint64_t step, uint64_t steps)
{
    struct step_clock *clock = self;
    double now = processor_seconds();
    if (clock->last >= 0.0 && clock->count < MOST_TIMED) clock->seconds[clock->count++] = now - clock->last;
    ask_after(clock, step);
    clock->last = processor_seconds();
    if (clock->job->stepped != NULL) clock->job->stepped(clock->job->self, step, steps);
}

/*
 * Opens the run for training. One that has finished, without having been measured, is trained again: what is
 * measured is the model at hand, and what its steps took of the processors is in no file.
 */
static enum mt_status open_trainer(const struct mt_cell_job *job, const struct mt_train_settings *training,
                                   struct step_clock *clock, struct mt_trainer **trainer)
{
    const struct mt_trainer_options options = {.settings = training,
                                               .templates = job->templates,
                                               .log = job->log,
                                               .signals = job->signals,
                                               .comm = job->ranks,
                                               .stop_after = job->stop_after,
                                               .stepped = count_step,
                                               .self = clock};
    enum mt_status status = mt_trainer_open(job->ctx, &options, trainer);
    if (status != MT_OK || mt_trainer_model(*trainer) != NULL) return status;
    mt_trainer_close(*trainer);
    *trainer = NULL;
    if (is_first(job)) status = mt_folder_remove(job->ctx, training->out);
    status = mt_cell_agree(job, status);
    return status == MT_OK ? mt_trainer_open(job->ctx, &options, trainer) : status;
}

/* What a run that goes on was asked before is nowhere: where problems are asked on the way, it begins anew.
 */
static enum mt_status begin_anew(const struct mt_cell_job *job, const struct mt_train_settings *training)
{
    enum mt_status status = MT_OK;
    if (job->settings->at.count == 0) return MT_OK;
    if (is_first(job) && access(training->out, F_OK) == 0) status = mt_folder_remove(job->ctx, training->out);
    return mt_cell_agree(job, status);
}

/* The curves and the time of training, out of its log. */
static enum mt_status read_log(const struct mt_cell_job *job, const char *folder,
                               struct mt_cell_result *result)
{
    struct mt_run run = {0};
    void *seconds = NULL;
    enum mt_status status = mt_run_read(job->ctx, folder, &run);
    size_t steps = status == MT_OK ? run.log.steps : 0;
    result->maxvio = mt_arena_array(job->arena, steps + 1, sizeof *result->maxvio, &status);
    result->training_loss = mt_arena_array(job->arena, steps + 1, sizeof *result->training_loss, &status);
    if (status == MT_OK) status = mt_allocate_array(job->ctx, steps + 1, sizeof(double), &seconds);
    if (status == MT_OK) {
        result->steps = steps;
        for (size_t i = 0; i < steps; i++) result->maxvio[i] = mt_run_at(&run, i, MT_RUN_MAX_VIOLATION);
        for (size_t i = 0; i < steps; i++) result->training_loss[i] = mt_run_at(&run, i, MT_RUN_TASK);
        double *took = seconds;
        for (size_t i = 1; i < steps; i++)
            took[i - 1] = mt_run_at(&run, i, MT_RUN_SECONDS) - mt_run_at(&run, i - 1, MT_RUN_SECONDS);
        result->figure[MT_COMPARE_SECONDS] = median(took, steps > 0 ? steps - 1 : 0);
    }
    mt_release(job->ctx, seconds, (steps + 1) * sizeof(double));
    mt_run_free(&run);
    return status;
}

/*
 * The most memory that was held while training: what this process allocated, weights that it mapped, and the
 * memory of a device that has its own, which nobody else should be using.
 */
static double peak_memory(const struct mt_cell_job *job, struct mt_trainer *trainer, size_t before)
{
    struct mt_run_outline outline = {0};
    struct mt_memory_room room = {0};
    mt_trainer_outline(trainer, &outline);
    double bytes = (double)(job->ctx->peak_bytes - before);
    if (mt_device_on_host(outline.device)) return bytes + (double)outline.model.mapped;
    mt_device_room(outline.device, &room);
    return bytes + (double)(room.total - room.free);
}

static enum mt_status train_and_measure(const struct mt_cell_job *job, struct mt_cell *cell,
                                        const struct mt_train_settings *training, bool *interrupted,
                                        int *signal)
{
    struct mt_trainer *trainer = NULL;
    struct mt_run_outcome outcome = {0};
    struct step_clock clock = {.job = job, .cell = cell, .training = training, .last = -1.0};
    size_t before = job->ctx->live_bytes;
    job->ctx->peak_bytes = before;
    enum mt_status status = begin_anew(job, training);
    if (status == MT_OK) status = open_trainer(job, training, &clock, &trainer);
    clock.trainer = trainer;
    if (status == MT_OK) ask_after(&clock, 0);
    if (status == MT_OK) status = mt_trainer_run(trainer, &outcome);
    if (status == MT_OK) status = clock.asked;
    if (status == MT_OK) cell->result.figure[MT_COMPARE_MEMORY] = peak_memory(job, trainer, before);
    *interrupted = status == MT_OK && outcome.end == MT_RUN_INTERRUPTED;
    *signal = outcome.signal;
    if (status == MT_OK && !*interrupted)
        status = mt_cell_measure(job, cell, training, mt_trainer_model(trainer), &cell->result);
    if (status == MT_OK && !*interrupted)
        status = mt_cell_ask_more(job, cell, training, mt_trainer_model(trainer), &cell->result);
    mt_trainer_close(trainer);
    if (status != MT_OK || *interrupted) return status;
    cell->result.figure[MT_COMPARE_PROCESSOR] = median(clock.seconds, clock.count);
    return read_log(job, training->out, &cell->result);
}

/* The model before the first step. It is opened for training as the cells' are, and never trained. */
static enum mt_status measure_start(const struct mt_cell_job *job, struct mt_cell *cell,
                                    const struct mt_train_settings *training, bool *interrupted, int *signal)
{
    struct mt_trainer *trainer = NULL;
    struct mt_interrupt interrupt = {0};
    const struct mt_trainer_options options = {
        .settings = training, .templates = job->templates, .log = job->log, .comm = job->ranks};
    if (job->signals) mt_interrupt_begin(&interrupt, NULL, "");
    enum mt_status status = mt_trainer_open(job->ctx, &options, &trainer);
    if (status == MT_OK)
        status = mt_cell_measure(job, cell, training, mt_trainer_model(trainer), &cell->result);
    if (status == MT_OK)
        status = mt_cell_ask_more(job, cell, training, mt_trainer_model(trainer), &cell->result);
    const struct mt_compare_probes *at = &job->settings->at;
    if (at->count > 0 && at->value[0] == 0)
        cell->result.at[0] = (struct mt_cell_probe){cell->result.figure[MT_COMPARE_ACCURACY],
                                                    cell->result.figure[MT_COMPARE_LOSS]};
    mt_trainer_close(trainer);
    *signal = mt_interrupt_seen(&interrupt);
    *interrupted = *signal != 0;
    mt_interrupt_end(&interrupt);
    status = mt_cell_agree(job, status);
    if (is_first(job) && access(training->out, F_OK) == 0) {
        enum mt_status removed = mt_folder_remove(job->ctx, training->out);
        if (status == MT_OK) status = removed;
    }
    return status;
}

/* The part of a cell that is trained and measured; nothing of a base is. */
static enum mt_status make(const struct mt_cell_job *job, struct mt_cell *cell,
                           const struct mt_train_settings *training, bool *interrupted, int *signal)
{
    if (cell->result.known) return MT_OK;
    cell->result = (struct mt_cell_result){0};
    for (int i = 0; i < MT_COMPARE_FIGURES; i++) cell->result.figure[i] = (double)NAN;
    for (int d = 0; d < MT_COMPARE_MOST_DOMAINS; d++)
        cell->result.accuracy[d] = cell->result.loss[d] = (double)NAN;
    for (size_t i = 0; i < MT_COMPARE_MOST_PROBES; i++)
        cell->result.at[i] = cell->result.pruned[i] = (struct mt_cell_probe){(double)NAN, (double)NAN};
    if (cell->base) return MT_OK;
    double start = mt_clock_seconds();
    enum mt_status status = is_first(job) ? mt_folder_sweep(job->ctx, training->out) : MT_OK;
    status = mt_cell_agree(job, status);
    if (status == MT_OK && cell->start) status = measure_start(job, cell, training, interrupted, signal);
    if (status == MT_OK && !cell->start) status = train_and_measure(job, cell, training, interrupted, signal);
    cell->result.took = mt_clock_seconds() - start;
    return status;
}

/* What was made is written down, and asked the benchmarks. */
static enum mt_status finish(const struct mt_cell_job *job, struct mt_cell *cell,
                             const struct mt_train_settings *training, const struct mt_fingerprint *inputs,
                             const char *identity, bool *interrupted, int *signal)
{
    enum mt_status status = mt_folder_check(job->ctx, job->settings->out, job->held);
    if (status == MT_OK) status = write_inputs(job, cell, inputs);
    if (status == MT_OK) status = mt_cell_file_write(job, cell, identity);
    if (status == MT_OK && !*interrupted)
        status = mt_cell_evaluate(job, cell, training, identity, interrupted, signal);
    if (status != MT_OK || *interrupted || cell->base || cell->start ||
        job->settings->keep == MT_COMPARE_KEEP_RUNS)
        return status;
    return mt_folder_remove(job->ctx, training->out);
}

/* A signal may have reached the first rank alone, while it evaluated. */
static void share_interruption(const struct mt_cell_job *job, bool *interrupted, int *signal)
{
    int64_t ended[2] = {*interrupted ? 1 : 0, *signal};
    if (job->ranks == NULL) return;
    mt_comm_max_i64(job->ranks, ended, 2);
    *interrupted = ended[0] != 0;
    *signal = (int)ended[1];
}

enum mt_status mt_cell_run(const struct mt_cell_job *job, struct mt_cell *cell, bool *interrupted,
                           int *signal)
{
    struct mt_train_settings training;
    struct mt_digest_text identity;
    struct mt_fingerprint inputs;
    struct mt_arena arena;
    *interrupted = false;
    *signal = 0;
    mt_arena_init(&arena, job->ctx, ARENA_BLOCK_BYTES);
    mt_fingerprint_init(job->ctx, &inputs);
    enum mt_status status = mt_cell_training(job, cell, &arena, &training);
    if (status == MT_OK) status = identify(job, cell, &arena, &identity);
    if (status == MT_OK && is_first(job)) status = add_inputs(job, cell, &training, &inputs);
    if (status == MT_OK && is_first(job)) status = make_folders(job, cell);
    status = mt_cell_agree(job, status);
    if (status == MT_OK) status = make(job, cell, &training, interrupted, signal);
    status = mt_cell_agree(job, status);
    // A start is measured whole, whenever a signal came.
    if (status == MT_OK && (!*interrupted || cell->start) && is_first(job))
        status = finish(job, cell, &training, &inputs, identity.digits, interrupted, signal);
    status = mt_cell_agree(job, status);
    if (status == MT_OK) share_interruption(job, interrupted, signal);
    // What is shown is what the file says, whether it was made now or before.
    if (status == MT_OK && !*interrupted) status = mt_cell_file_read(job, cell, identity.digits);
    status = mt_cell_agree(job, status);
    mt_fingerprint_release(&inputs);
    mt_arena_free(&arena);
    return status;
}
