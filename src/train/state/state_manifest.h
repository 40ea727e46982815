/* manifest.json of a checkpoint: written, and read back from bytes that may be anything. */
#ifndef MT_TRAIN_STATE_MANIFEST_H
#define MT_TRAIN_STATE_MANIFEST_H

#include "base/arena.h"
#include "base/files/digest.h"
#include "formats/text/json_text.h"
#include "objective/concentration.h"
#include "train/data/batches.h"

#define MT_STATE_VERSION        2 // 1: of one file of tensors
#define MT_STATE_MANIFEST       "manifest.json"
#define MT_STATE_TENSORS        "state.safetensors" // of rank 0; state-1.safetensors of rank 1, and so on
#define MT_STATE_MOST_FILES     65536
#define MT_STATE_MANIFEST_BYTES ((size_t)16 << 20) // at most; nearly all of it may be the settings

/* What a run knows besides tensors. Plain numbers, saved field by field, doubles to the last bit. */
struct mt_run_numbers {
    uint64_t step;                     // optimizer steps done
    struct mt_batch_position position; // where the next step's data begins
    struct mt_batch_counts counts;
    uint64_t tokens;        // trained on so far
    double seconds;         // spent so far
    double best_loss;       // of the held-out data; NaN: none yet
    uint64_t best_step;     // 0: none yet
    uint64_t evaluations;   // done
    uint64_t fruitless;     // evaluations since the best
    uint64_t metrics_bytes; // length of metrics.jsonl at this step: a resumed run cuts it there
    uint64_t steps;         // of the whole run
    uint64_t epoch_draws;   // rows an epoch draws
    uint64_t data_bytes;    // of the files trained on, unpacked
    struct mt_concentration concentration;
    bool finished; // the run ended here
};

/* A file of tensors. */
struct mt_state_file {
    uint64_t bytes;
    struct mt_digest_text sum;
};

struct mt_state_manifest {
    struct mt_run_numbers numbers;
    const char *settings;              // read: in the arena
    const struct mt_state_file *files; // borrowed; read: in the arena
    size_t file_count;
};

/* What the file of a rank is called. */
struct mt_state_name {
    char text[48];
};
struct mt_state_name mt_state_file_name(size_t rank);

/* Appends the manifest's text. */
enum mt_status mt_state_manifest_text(const struct mt_state_manifest *manifest, struct mt_json_text *text);

/* Reads a manifest's text; `file` names it in messages. The settings are copied into the arena. */
enum mt_status mt_state_manifest_parse(struct mt_arena *arena, const char *file, const void *text,
                                       size_t bytes, struct mt_state_manifest *manifest);

#endif
