/* The window of examples that batches are made of, and its arrangement into steps. */
#ifndef MT_TRAIN_WINDOW_H
#define MT_TRAIN_WINDOW_H

#include "train/data/batches.h"

/* An example of the window: where its tokens lie, and which step it went to. */
struct mt_window_example {
    size_t start; // in window ids and labels
    size_t tokens;
    size_t answer_tokens;
    uint32_t order; // as drawn
    uint32_t step;
    uint32_t source; // among those of the batches
};

struct mt_window_step {
    size_t first; // of the examples, once arranged
    size_t count;
    size_t tokens;
};

struct mt_window {
    struct mt_context *ctx; // borrowed
    struct mt_id_list ids;
    struct mt_id_list labels;
    struct mt_window_example *examples;
    size_t example_count;
    size_t example_capacity;
    struct mt_window_step *steps;
    size_t step_count;
    size_t step_capacity;
};

enum mt_status mt_window_add(struct mt_window *window, const struct mt_example *example, uint32_t source);

/* Arranges examples into steps; `stream` is the window's own, for shuffling steps. */
enum mt_status mt_window_arrange(struct mt_window *window, const struct mt_batch_options *options,
                                 uint64_t stream);
void mt_window_clear(struct mt_window *window);
void mt_window_free(struct mt_window *window);

#endif
