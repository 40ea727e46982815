/* Between the files of metier forward: what was asked, the ids, what came out. */
#ifndef MT_CLI_FORWARD_H
#define MT_CLI_FORWARD_H

#include "cli/cli.h"
#include "formats/text/lists.h"
#include "model/model.h"

struct forward_settings {
    const char *directory;
    const char *ids;      // "1,2,3"
    const char *ids_file; // one sequence per line
    const char *out;      // NULL: only the summary
    const char *choices;  // a file of choices (train/data/choices.h); NULL: routers choose
    const char *method;   // NULL: the task's loss alone
    const char **keys;    // "key=value", borrowed
    int key_count;
    const char *adapter;
    const char *save_adapter;   // NULL: none is written
    const char *adapter_layout; // "per-expert" or "fused"
    const char *train;          // "full", "lora" or NULL: full, unless there is an adapter
    const char *targets;        // "a,b,c"; NULL: everything
    const char *recompute;      // "none", "moe", "full"
    const char *activations;    // "auto", "f32", "bf16"
    const char *quantise;       // NULL: as the adapter was trained
    const char *device;
    int64_t rank;
    double alpha;
    double lora_b_deviation;
    int64_t seed;
    int64_t threads;
    bool grads, training, json;
};

/* Packed sequences of ids. */
struct forward_ids {
    struct mt_id_list ids;     // [T]
    struct mt_id_list offsets; // [B+1]
    struct mt_id_list labels;  // [T]: the next id of the same sequence, -1 for its last
    int64_t longest;
};

/* Reads --ids or --ids-file; the caller frees, after a failure too. */
enum mt_status cli_forward_ids_read(struct mt_context *ctx, const struct forward_settings *settings,
                                    struct forward_ids *ids);
void cli_forward_ids_free(struct forward_ids *ids);

/* Refuses an id the vocabulary does not have. */
enum mt_status cli_forward_ids_check(struct mt_context *ctx, const struct forward_ids *ids,
                                     int64_t vocabulary);

struct forward_results {
    struct mt_model *model; // after forward, and backward if it was asked for
    struct mt_model_loss loss;
    int moe_layers;
    double seconds;
};

/* Writes everything there is to --out. */
enum mt_status cli_forward_write(struct mt_context *ctx, const struct forward_settings *settings,
                                 const struct forward_ids *ids, const struct forward_results *results);

/* Prints the summary, for people or with --json for scripts. */
enum mt_status cli_forward_report(struct mt_context *ctx, const struct forward_settings *settings,
                                  const struct forward_ids *ids, const struct forward_results *results);

#endif
