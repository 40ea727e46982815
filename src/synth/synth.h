/*
 * Built-in tasks: procedural problems with short prompts and exact answers, so that a small model can be
 * trained and measured without a download. Five domains, several sub-tasks each (docs/synth.md shows them
 * all).
 *
 * An item is a function of (seed, difficulty, sub-task, number of the draw). Which split it belongs to is a
 * function of its prompt alone: a hash decides, so train, valid and test share no prompt, whatever the seeds,
 * difficulties and domains they were made with.
 */
#ifndef MT_SYNTH_SYNTH_H
#define MT_SYNTH_SYNTH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "eval/tasks/task.h"
#include "formats/data/row_hashes.h"
#include "metier/context.h"

#define MT_SYNTH_PROMPT_BYTES 64 // with the NUL
#define MT_SYNTH_ANSWER_BYTES 32
#define MT_SYNTH_HARDEST      5 // difficulties are 1 ... 5
#define MT_SYNTH_STANDARD     3

/* A problem. Both texts are printable ASCII, NUL-terminated. */
struct mt_synth_item {
    char prompt[MT_SYNTH_PROMPT_BYTES];
    char completion[MT_SYNTH_ANSWER_BYTES];
    bool cut; // a text did not fit: the sub-task is broken
};

struct mt_synth_draw; // where random numbers come from (synth/item.h)

/* One kind of problem. */
struct mt_synth_task {
    const char *name;
    const char *meaning; // one line, for lists
    enum mt_task_domain domain;
    void (*make)(struct mt_synth_draw *draw, int difficulty, struct mt_synth_item *item);
};

/* The sub-tasks of a domain, in a fixed order; they live forever. */
const struct mt_synth_task *mt_synth_tasks(enum mt_task_domain domain, size_t *count);

/* The domain of a name; false: there is none. */
bool mt_synth_domain(const char *name, enum mt_task_domain *domain);

enum mt_synth_split {
    MT_SYNTH_TRAIN, // 80 of 100 prompts
    MT_SYNTH_VALID, // 10
    MT_SYNTH_TEST,  // 10
    MT_SYNTH_SPLITS
};

const char *mt_synth_split_name(enum mt_synth_split split);

/* A prompt's number, the same on every machine: names an item and decides its split. It is the row's hash
 * (formats/data/row_hashes.h): prompts are in the form that is compared. */
uint64_t mt_synth_hash(const char *prompt);
enum mt_synth_split mt_synth_split_of(uint64_t hash);

/* Item `number` of a sub-task's endless row of draws, of any split, repetitions included. */
void mt_synth_make(const struct mt_synth_task *task, uint64_t seed, int difficulty, uint64_t number,
                   struct mt_synth_item *item);

struct mt_synth; // opaque: a row of different items of one domain and one split

struct mt_synth_options {
    enum mt_task_domain domain;
    enum mt_synth_split split;
    uint64_t seed;
    int difficulty;                      // 1 ... 5
    const struct mt_row_hashes *exclude; // items whose prompts are in it are left out; borrowed; NULL: none
};

/* The caller frees. */
enum mt_status mt_synth_create(struct mt_context *ctx, const struct mt_synth_options *options,
                               struct mt_synth **synth);
void mt_synth_free(struct mt_synth *synth); // NULL is allowed

/*
 * The next item and the sub-task it is of. Sub-tasks take turns; one that brings nothing new any more is left
 * out. Fails with a sentence when no sub-task does: then there are no more different items.
 */
enum mt_status mt_synth_next(struct mt_synth *synth, struct mt_synth_item *item,
                             const struct mt_synth_task **task);

/* How many different items were drawn so far and left out because they are excluded. */
size_t mt_synth_excluded(const struct mt_synth *synth);

struct mt_file_writer;

/* Writes `count` items, the sources taking turns, as rows {"prompt", "completion", "domain", "task", "id"}.
 */
enum mt_status mt_synth_write_rows(struct mt_context *ctx, struct mt_synth *const *sources,
                                   size_t source_count, int64_t count, struct mt_file_writer *writer);

#endif
