/*
 * The file of experts: which routed experts of a model are chosen, in every layer. All that choose or read
 * experts share it: `metier analyze --select-experts` writes it; in training (key `experts`) the chosen ones
 * learn and no other; `metier eval --prune` takes away all others; `metier prune --experts` keeps the chosen.
 *
 *     {"experts": 64, "layers": 26, "score": "reap", "data": ["math.jsonl"], "share": 0.71,
 *      "unused": {"1": 2},
 *      "keep": {"1": [0, 5, 17], ...}}
 *
 * experts and layers say what it was made for: experts of a layer, layers that have any. keep: by the layer's
 * number in the model, counted from 0. The others tell where it comes from and are not read.
 */
#ifndef MT_MODEL_CHOSEN_EXPERTS_H
#define MT_MODEL_CHOSEN_EXPERTS_H

#include "arch/desc.h"
#include "base/arena.h"

/*
 * Reads the file into flags: [desc->layers] arrays of n flags, in the arena; NULL of a layer without experts.
 * Refused: another number of experts or layers, a layer without experts, an expert there is not or twice, no
 * expert at all. A layer that is not named has no chosen expert.
 */
enum mt_status mt_chosen_experts_read(struct mt_context *ctx, const char *path,
                                      const struct mt_model_desc *desc, struct mt_arena *arena,
                                      const bool *const **experts);

/* The same where all other experts go: besides, every layer with experts must keep as many as a token has. */
enum mt_status mt_kept_experts_read(struct mt_context *ctx, const char *path,
                                    const struct mt_model_desc *desc, struct mt_arena *arena,
                                    const bool *const **kept);

/* The experts that are not chosen, as mt_pruning_begin wants them; in the arena. */
enum mt_status mt_chosen_experts_others(const struct mt_model_desc *desc, const bool *const *experts,
                                        struct mt_arena *arena, const bool *const **others);

/* What is written: a choice in every layer with experts, and where it comes from. All is borrowed. */
struct mt_chosen_experts {
    int experts;           // n
    int layers;            // with experts
    const int64_t *number; // [layers]: in the model
    const bool *chosen;    // [layers,n]
    const char *score;     // what they were chosen by; NULL: nothing is said
    const char *const *data;
    size_t data_count;     // 0: nothing is said
    double share;          // of the data's slots that the chosen serve; NaN: nothing is said
    const int32_t *unused; // [layers]: of the chosen those that served no token of it; NULL: nothing is said
};
enum mt_status mt_chosen_experts_write(struct mt_context *ctx, const struct mt_chosen_experts *chosen,
                                       const char *path);

#endif
