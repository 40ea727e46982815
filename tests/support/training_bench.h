/*
 * Training runs of small models in a workplace: a model with a tokenizer whose vocabulary it shares, a file
 * of a few dozen examples, settings as text, runs in the process.
 */
#ifndef MT_TESTS_TRAINING_BENCH_H
#define MT_TESTS_TRAINING_BENCH_H

#include "support/small_models.h"
#include "train/trainer.h"

#define TRAINING_BENCH_VOCABULARY 440

/* Makes the workplace a model folder with tokenizer.json and data.jsonl; returns 0 on success. */
int training_bench_make(const struct workplace *place, const struct mt_arch *model);

/* Likewise, of a config like those of the small models: one with "vocab_size": 53. */
int training_bench_make_of(const struct workplace *place, const char *config);

/* Zeroed at first; used for one run after the other. */
struct training_run {
    struct mt_context ctx;
    struct mt_arena arena;
    struct mt_train_settings settings;
    const struct mt_allocator *allocator; // NULL: the system's
    struct mt_trainer_options options;    // what the test sets before opening
    struct mt_trainer *trainer;
    struct mt_run_outcome outcome;
};

/*
 * Opens a run of the workplace's model that writes to the folder `out` in it. `words` are settings over
 * the bench's own, "key=value key=value ...", without spaces inside. The caller closes, whatever happens.
 */
enum mt_status training_run_open(struct training_run *run, const struct workplace *place, const char *out,
                                 const char *words);
void training_run_close(struct training_run *run);

/* Opens, runs to its end and closes; a failure's message is in run->ctx. */
enum mt_status training_run_all(struct training_run *run, const struct workplace *place, const char *out,
                                const char *words);

/* Compares two files of the workplace; 0: the same bytes. */
int training_bench_compare(const struct workplace *place, const char *one, const char *other);

/* True when a path inside the workplace is there. */
bool training_bench_has(const struct workplace *place, const char *path);

/* Removes a folder of the workplace with everything below. */
void training_bench_remove(const struct workplace *place, const char *name);

/* False where a method refuses the router of a small model: SparseMixer has no bias, groups no quantile. */
bool training_bench_takes(const struct mt_arch *model, const struct mt_method *method);

#endif
