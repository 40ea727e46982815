/*
 * Rows out of a recipe, written as JSONL that training reads:
 *
 *     {"prompt": ..., "completion": ..., "domain": ..., "task": ..., "source": ..., "id": ...}
 *
 * and OUT.json beside them: sources, checksums, seed, counts, what was removed. The same recipe, data, seed
 * and count give the same bytes on every machine. Nothing of it is left where something fails.
 */
#ifndef MT_RECIPE_WRITE_H
#define MT_RECIPE_WRITE_H

#include <stdio.h>

#include "base/log.h"
#include "eval/answerer.h"
#include "formats/data/row_hashes.h"
#include "recipe/recipe.h"

#define MT_RECIPE_WORDS 13 // of a run that is an overlap, unless told otherwise

/* Whoever writes the answers instead of the file. They are kept where the task's judge finds them right. */
struct mt_recipe_teacher {
    struct mt_answerer answerer;       // its likelihoods are not asked for
    const struct mt_code_judge *judge; // NULL: tasks of programs are refused
    const char *settings;              // how it is asked, a line of JSON: other answers are other settings
    int64_t samples;                   // answers to a question at most, until one is right; at least 1
    int64_t max_tokens;                // 0: the task's
    bool fill; // for answers that were wrong other questions are drawn, while there are
};

struct mt_recipe_options {
    const char *tasks;                       // folder of the task files
    const char *data;                        // folder of data: training files and test files
    const char *out;                         // file of the rows; its folder must exist
    const char *overlaps;                    // file that lists rows that were removed; NULL: none
    int64_t count;                           // rows; 0: as the recipe says
    uint64_t seed;                           // of the draw
    int64_t words;                           // of a run that is an overlap; 0: nothing is looked for
    const char *const *against;              // further tasks to look for, NULL-terminated; NULL: none
    const struct mt_row_hashes *exclude;     // rows that are in it are left out; NULL: none
    bool skip_missing;                       // files that are not there are left out, and told of
    const struct mt_recipe_teacher *teacher; // NULL: the file's answers
    bool (*stop)(void *self);                // asked while the teacher is; true: stop. NULL: never
    void *stop_self;                         // borrowed
    FILE *terminal;                          // progress; NULL: none
    const struct mt_log *log;                // NULL: silent
};

/* What became of a source's rows. */
struct mt_recipe_source_report {
    const struct mt_recipe *recipe;
    size_t files, missing; // that were there, and that were not
    int64_t rows;          // in the files, of those the recipe wants
    int64_t unusable;      // that make no sense or have no answer
    int64_t overlapping;   // with a test question: removed
    int64_t excluded;      // known to options.exclude: left out
    int64_t available;     // what is left of them
    int64_t wanted;        // as count and weight say; 0: all
    int64_t drawn;
    int64_t right;       // of these, rows the teacher answered right; without one all
    const char *problem; // what is wrong with the first unusable row; NULL: none is
};

/* What was looked for. */
struct mt_recipe_test_report {
    const char *task; // a name of `against`, or of a source's task
    size_t files, missing;
    int64_t questions;
};

struct mt_recipe_report {
    struct mt_arena *arena; // of all that is here: the caller's
    struct mt_recipe_source_report *sources;
    size_t source_count;
    struct mt_recipe_test_report *tests;
    size_t test_count;
    int64_t *runs;   // [source_count · test_count]: rows that share a run of words with a question
    int64_t *wholes; // the same: rows whose question is one
    int64_t wanted;  // rows in all; 0: all there are
    int64_t written;
    int64_t unanswered; // questions the teacher did not get or answer: asked again next time
    bool stopped;       // the teacher was: nothing is written, and the next call goes on
};

/*
 * Makes the rows. `arena` holds what the report has. A teacher's answers are kept in the folder OUT.teacher:
 * what is there is not asked again, whoever starts with the same command.
 */
enum mt_status mt_recipe_write(struct mt_context *ctx, const struct mt_recipe *recipe,
                               const struct mt_recipe_options *options, struct mt_arena *arena,
                               struct mt_recipe_report *report);

#endif
