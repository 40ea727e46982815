/*
 * The card of an adapter or a model: README.md, a front matter in YAML that Hugging Face's hub reads, and
 * Markdown. Only names stand in it, of models, files and settings, never the folders they lie in, and never
 * rows of data.
 *
 *     front matter         library_name, base_model, base_model_relation, pipeline_tag, tags
 *     # title              what it is, and which metier made it
 *     <!-- metier -->      below it how it was made; whoever merges the adapter carries this on
 *     <!-- results -->     below it a table of evaluations, a row for each task
 *
 * Figures that the hub shows beside those of others go into .eval_results/TASK.yaml, too.
 */
#ifndef MT_MODEL_CARD_H
#define MT_MODEL_CARD_H

#include "base/arena.h"

#define MT_CARD_FILE           "README.md"
#define MT_CARD_RESULTS_FOLDER ".eval_results"

enum mt_card_kind {
    MT_CARD_ADAPTER,
    MT_CARD_MODEL, // made of the base with all weights, or with an adapter merged
};

struct mt_card {
    enum mt_card_kind kind;
    const char *base; // the base model's folder; NULL: not known
    const char *text; // Markdown on how it was made, whole lines; NULL: nothing is known
};

/* The name of a file or folder without what is above it, fit for a table and for code. In the arena. */
enum mt_status mt_card_name(struct mt_arena *arena, const char *path, const char **name);

/* Writes the card into a folder, over one that is there. */
enum mt_status mt_card_write(struct mt_context *ctx, const char *directory, const struct mt_card *card);

/* Copies the card of a folder, whoever wrote it; where there is none, `card` is written. */
enum mt_status mt_card_carry(struct mt_context *ctx, const char *from, const char *to,
                             const struct mt_card *card);

/* How something was made, by the card that we wrote for it; "": another wrote it, or there is none. In the
 * arena. */
enum mt_status mt_card_story(struct mt_arena *arena, const char *directory, const char **text);

/* A row of the table of evaluations. */
struct mt_card_result {
    const char *task, *metric;
    double value, low, high; // a share, and its interval
    size_t samples, total;   // asked, and there are
    const char *hub_data,
        *hub_task;     // what the hub calls the data set and the task; NULL: it has none, or other questions
    const char *notes; // for the hub
};

/*
 * Puts results into the card of a folder, in place of older ones of the same tasks, and writes .eval_results.
 * Refuses a folder whose card is not ours.
 */
enum mt_status mt_card_add_results(struct mt_context *ctx, const char *directory,
                                   const struct mt_card_result *results, size_t count);

#endif
