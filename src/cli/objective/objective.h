/* What metier objective read and computed, for the files that read, print and write it. */
#ifndef MT_CLI_OBJECTIVE_H
#define MT_CLI_OBJECTIVE_H

#include "formats/safetensors/safetensors.h"
#include "metier/buffer.h"
#include "metier/objective.h"

#define OBJECTIVE_TEXT_BYTES 2048

/* IN, checked. The arrays point into the mapped file, or into what is owned here. */
struct objective_record {
    struct mt_context *ctx; // borrowed
    const char *path;       // borrowed
    struct mt_safetensors file;
    struct mt_objective_arrays arrays;
    struct mt_buffer copies[4]; // of tensors whose address in the file does not suit their type
    int copy_count;
    int32_t *mask;     // owned, [N], 0 or 1; NULL when the file has none
    int32_t *sequence; // owned, [N]; NULL when the file has none
    int64_t counted;   // tokens the mask keeps
};

/* What was asked for. */
struct objective_question {
    struct mt_objective_config config;
    struct mt_router_config router;
    const char *router_name;
    const char *record_path;
    const char *out_path; // NULL: nothing is written
    const char *device_name;
    int threads;
};

/* What came out; all arrays in `results` are owned here. */
struct objective_answer {
    struct mt_context *ctx; // borrowed
    struct mt_objective_results results;
    float *bias;                      // [n]: the router's bias after this step; NULL without a bias rule
    double *memory;                   // what the bias rule keeps, zeros before
    int64_t dropped;                  // slots of unmasked tokens that no expert serves
    char notes[OBJECTIVE_TEXT_BYTES]; // one per line, "" when there is none
    char warnings[OBJECTIVE_TEXT_BYTES];
    char device[128]; // who computed, for people
};

/*
 * Reads and checks IN for k slots. Whatever the outcome, the caller frees it. What a term needs and the file
 * lacks is not judged here: mt_objective_evaluate knows.
 */
enum mt_status cli_objective_record_read(struct mt_context *ctx, const char *path, int slots,
                                         struct objective_record *record);
void cli_objective_record_free(struct objective_record *record);

/* Names, separated by ", ", of tensors in the file that mean nothing here; "" when there is none. */
void cli_objective_record_unused(const struct objective_record *record, char *text, size_t bytes);

/* Evaluates the question on the record. `answer` is zeroed but for its context; the caller frees it, always.
 */
enum mt_status cli_objective_compute(struct mt_context *ctx, const struct objective_question *question,
                                     const struct objective_record *record, struct objective_answer *answer);
void cli_objective_answer_free(const struct objective_question *question,
                               const struct objective_record *record, struct objective_answer *answer);

/* Writes OUT, atomically. */
enum mt_status cli_objective_write(struct mt_context *ctx, const struct objective_question *question,
                                   const struct objective_record *record,
                                   const struct objective_answer *answer);

/* What a term's gradient norm is a norm of: "logits", "expert_outputs" or "router_weight". */
const char *cli_objective_gradient_of(enum mt_term term);

/* The answer on standard output, for people and as one JSON object. */
enum mt_status cli_objective_print_text(struct mt_context *ctx, const struct objective_question *question,
                                        const struct objective_record *record,
                                        const struct objective_answer *answer);
enum mt_status cli_objective_print_json(struct mt_context *ctx, const struct objective_question *question,
                                        const struct objective_record *record,
                                        const struct objective_answer *answer);

/* --methods and --keys. */
enum mt_status cli_objective_print_methods(struct mt_context *ctx, bool json);
enum mt_status cli_objective_print_keys(struct mt_context *ctx, bool json);

/* Refuses the first of some key=value words whose key changes nothing under the configuration they made.
 * noiseless: why nothing is drawn or dropped; NULL: it is. */
enum mt_status cli_refuse_idle_keys(struct mt_context *ctx, const struct mt_objective_config *config,
                                    const char *noiseless, const char *const *words, int count);

#endif
