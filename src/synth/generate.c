/*
 * Items: their numbers and texts; different ones of one domain and split, sub-tasks taking turns; as rows of
 * a file.
 */
#include <assert.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/files/digest.h"
#include "base/files/file.h"
#include "base/rng.h"
#include "formats/text/json_text.h"
#include "synth/item.h"

// Draws in a row without anything new after which a sub-task counts as exhausted. A tenth of the prompts is
// in the smallest split, so most of a space of n items has been seen by then even if only n/500 are missing.
#define MOST_TRIES  5000

#define WRITE_BYTES 65536 // rows are collected until there is so much

static const struct mt_synth_task *const tables[MT_DOMAINS] = {
    [MT_DOMAIN_LANGUAGE] = mt_synth_language_tasks, [MT_DOMAIN_REASONING] = mt_synth_reasoning_tasks,
    [MT_DOMAIN_SCIENCE] = mt_synth_science_tasks,   [MT_DOMAIN_MATH] = mt_synth_math_tasks,
    [MT_DOMAIN_CODE] = mt_synth_code_tasks,
};

#define MOST_TASKS 16 // of a domain

struct mt_synth {
    struct mt_context *ctx; // borrowed
    struct mt_synth_options options;
    const struct mt_synth_task *tasks;
    size_t task_count;
    uint64_t drawn[MOST_TASKS]; // how many draws each sub-task has made
    bool exhausted[MOST_TASKS];
    size_t turn;
    struct mt_row_hashes seen; // all that were drawn, those left out as well
    size_t excluded;           // of them
};

// ------------------------------------------------------------------ one item

int mt_synth_below(struct mt_synth_draw *draw, int bound)
{
    assert(bound > 0);
    return (int)mt_rng_below(draw->seed, draw->stream, draw->index++, (uint64_t)bound);
}

int mt_synth_between(struct mt_synth_draw *draw, int low, int high)
{
    return low + mt_synth_below(draw, high - low + 1);
}

void mt_synth_choose(struct mt_synth_draw *draw, const char *alphabet, int count, char *chosen)
{
    char left[33];
    int letters = (int)strlen(alphabet);
    assert(letters < (int)sizeof left && count <= letters);
    memcpy(left, alphabet, (size_t)letters);
    for (int i = 0; i < count; i++) {
        int at = mt_synth_below(draw, letters - i);
        chosen[i] = left[at];
        left[at] = left[letters - i - 1];
    }
}

void mt_synth_shuffle(struct mt_synth_draw *draw, int *entries, int count)
{
    for (int i = count - 1; i > 0; i--) {
        int other = mt_synth_below(draw, i + 1);
        int kept = entries[i];
        entries[i] = entries[other];
        entries[other] = kept;
    }
}

/* Appends to a text of `bytes` bytes with its NUL; false: it does not fit. */
__attribute__((format(printf, 3, 0))) static bool append(char *text, size_t bytes, const char *format,
                                                         va_list values)
{
    size_t used = strlen(text);
    int written = vsnprintf(text + used, bytes - used, format, values);
    return written >= 0 && (size_t)written < bytes - used;
}

void mt_synth_ask(struct mt_synth_item *item, const char *format, ...)
{
    va_list values;
    va_start(values, format);
    if (!append(item->prompt, sizeof item->prompt, format, values)) item->cut = true;
    va_end(values);
}

void mt_synth_answer(struct mt_synth_item *item, const char *format, ...)
{
    va_list values;
    va_start(values, format);
    if (!append(item->completion, sizeof item->completion, format, values)) item->cut = true;
    va_end(values);
}

// ------------------------------------------------------------------ different ones

const struct mt_synth_task *mt_synth_tasks(enum mt_task_domain domain, size_t *count)
{
    *count = 0;
    while (tables[domain][*count].name != NULL) (*count)++;
    return tables[domain];
}

bool mt_synth_domain(const char *name, enum mt_task_domain *domain)
{
    for (int i = 0; i < MT_DOMAINS; i++) {
        *domain = (enum mt_task_domain)i;
        if (strcmp(mt_domain_name(*domain), name) == 0) return true;
    }
    return false;
}

const char *mt_synth_split_name(enum mt_synth_split split)
{
    static const char *const names[MT_SYNTH_SPLITS] = {"train", "valid", "test"};
    return names[split];
}

uint64_t mt_synth_hash(const char *prompt)
{
    return mt_row_hash(prompt, strlen(prompt));
}

enum mt_synth_split mt_synth_split_of(uint64_t hash)
{
    uint64_t share = hash % 100;
    return share < 80 ? MT_SYNTH_TRAIN : share < 90 ? MT_SYNTH_VALID : MT_SYNTH_TEST;
}

void mt_synth_make(const struct mt_synth_task *task, uint64_t seed, int difficulty, uint64_t number,
                   struct mt_synth_item *item)
{
    size_t count = 0;
    const struct mt_synth_task *first = mt_synth_tasks(task->domain, &count);
    uint64_t place = (uint64_t)task->domain * MOST_TASKS + (uint64_t)(task - first);
    // Number of the draw below, what is drawn above: no two items share a stream.
    struct mt_synth_draw draw = {.seed = seed,
                                 .stream = (place * (MT_SYNTH_HARDEST + 1) + (uint64_t)difficulty) << 48 |
                                           (number & ((UINT64_C(1) << 48) - 1))};
    memset(item, 0, sizeof *item);
    task->make(&draw, difficulty, item);
}

enum mt_status mt_synth_create(struct mt_context *ctx, const struct mt_synth_options *options,
                               struct mt_synth **synth)
{
    void *memory = NULL;
    *synth = NULL;
    if (options->difficulty < 1 || options->difficulty > MT_SYNTH_HARDEST) {
        return mt_fail(ctx, MT_ERR_USAGE, "the difficulty is %d, expected 1 to %d", options->difficulty,
                       MT_SYNTH_HARDEST);
    }
    enum mt_status status = mt_allocate_array(ctx, 1, sizeof **synth, &memory);
    if (status != MT_OK) return status;
    struct mt_synth *made = memory;
    made->ctx = ctx;
    made->options = *options;
    made->tasks = mt_synth_tasks(options->domain, &made->task_count);
    made->seen.ctx = ctx;
    *synth = made;
    return MT_OK;
}

void mt_synth_free(struct mt_synth *synth)
{
    if (synth == NULL) return;
    mt_row_hashes_free(&synth->seen);
    mt_release(synth->ctx, synth, sizeof *synth);
}

size_t mt_synth_excluded(const struct mt_synth *synth)
{
    return synth->excluded;
}

/* Draws until there is an item of the split that was not there before, and is not excluded; *found says
 * whether. */
static enum mt_status draw_new(struct mt_synth *synth, size_t task, struct mt_synth_item *item, bool *found)
{
    const struct mt_row_hashes *exclude = synth->options.exclude;
    *found = false;
    for (int tries = 0; tries < MOST_TRIES; tries++) {
        mt_synth_make(&synth->tasks[task], synth->options.seed, synth->options.difficulty,
                      synth->drawn[task]++, item);
        if (item->cut) {
            return mt_fail(synth->ctx, MT_ERR_INTERNAL, "synth: an item of %s does not fit: %s",
                           synth->tasks[task].name, item->prompt);
        }
        uint64_t hash = mt_synth_hash(item->prompt);
        if (mt_synth_split_of(hash) != synth->options.split) continue;
        bool fresh = false;
        enum mt_status status = mt_row_hashes_add(&synth->seen, hash, &fresh);
        if (status != MT_OK) return status;
        if (!fresh) continue;
        *found = exclude == NULL || !mt_row_hashes_has(exclude, hash);
        if (*found) return MT_OK;
        synth->excluded++;
    }
    return MT_OK;
}

enum mt_status mt_synth_next(struct mt_synth *synth, struct mt_synth_item *item,
                             const struct mt_synth_task **task)
{
    enum mt_status status = MT_OK;
    char without[64] = "";
    for (size_t asked = 0; asked < synth->task_count && status == MT_OK; asked++) {
        size_t turn = synth->turn;
        bool found = false;
        synth->turn = (turn + 1) % synth->task_count;
        if (synth->exhausted[turn]) continue;
        status = draw_new(synth, turn, item, &found);
        if (status != MT_OK) return status;
        if (found) {
            *task = &synth->tasks[turn];
            return MT_OK;
        }
        synth->exhausted[turn] = true;
    }
    if (synth->excluded > 0)
        (void)snprintf(without, sizeof without, ", without %zu that are excluded", synth->excluded);
    return mt_fail(
        synth->ctx, MT_ERR_USAGE,
        "%s has only %zu different items in the split %s at difficulty %d%s: ask for fewer, or for "
        "another difficulty",
        mt_domain_name(synth->options.domain), synth->seen.count - synth->excluded,
        mt_synth_split_name(synth->options.split), synth->options.difficulty, without);
}

// ------------------------------------------------------------------ rows

static enum mt_status append_item(struct mt_json_text *text, const struct mt_synth_item *item,
                                  const struct mt_synth_task *task)
{
    enum mt_status status = mt_json_text_format(text, "{\"prompt\": ");
    if (status == MT_OK) status = mt_json_text_string(text, item->prompt);
    if (status == MT_OK) status = mt_json_text_format(text, ", \"completion\": ");
    if (status == MT_OK) status = mt_json_text_string(text, item->completion);
    if (status != MT_OK) return status;
    return mt_json_text_format(text, ", \"domain\": \"%s\", \"task\": \"%s\", \"id\": \"%016" PRIx64 "\"}\n",
                               mt_domain_name(task->domain), task->name, mt_synth_hash(item->prompt));
}

enum mt_status mt_synth_write_rows(struct mt_context *ctx, struct mt_synth *const *sources,
                                   size_t source_count, int64_t count, struct mt_file_writer *writer)
{
    struct mt_json_text text;
    enum mt_status status = MT_OK;
    mt_json_text_init(&text, ctx);
    for (int64_t i = 0; i < count && status == MT_OK; i++) {
        struct mt_synth_item item;
        const struct mt_synth_task *task = NULL;
        status = mt_synth_next(sources[(size_t)i % source_count], &item, &task);
        if (status == MT_OK) status = append_item(&text, &item, task);
        if (status == MT_OK && (text.length >= WRITE_BYTES || i + 1 == count)) {
            status = mt_file_writer_write(writer, text.bytes, text.length);
            text.length = 0;
        }
    }
    mt_json_text_free(&text);
    return status;
}
