/*
 * What an adapter is, and what is wrong with it: anybody's, also one that mt_adapter_open refuses. Every pair
 * of the file is held against the base model, and its numbers are looked at:
 *
 *     mt_checked_open(ctx, directory, model, &checked);
 *     mt_checked_find(&checked, &findings);         // findings.c: a row for each thing that can be wrong
 *     mt_checked_readers(&checked, index, ...);     // readers.c: a row for each thing that a program leaves
 * out mt_checked_repair(&checked, out);             // repair.c: writes it again, mended
 *     mt_checked_close(&checked);
 *
 * The stacks of transformers 5 are described in adapter_fused.c. Two programs have written them otherwise:
 *
 *     PEFT before 0.19 took in for out: A [n·R, out], B [in, R·n], and ΔW = Aᵀ Bᵀ
 *     Unsloth until September 2026 has expert e's columns of B side by side: column e·R + k instead of k·n +
 * e
 */
#ifndef MT_MODEL_ADAPTERS_CHECK_H
#define MT_MODEL_ADAPTERS_CHECK_H

#include "model/adapters/adapter.h"

/* What a pair is for. */
enum mt_checked_kind {
    MT_CHECKED_LINEAR,  // one linear layer
    MT_CHECKED_GATE_UP, // a stack: gate and up of all experts of a layer
    MT_CHECKED_DOWN,    // a stack: down of all experts of a layer
    MT_CHECKED_NOWHERE, // nothing in the base
};

/* In which order the columns of a stack's B lie. */
enum mt_column_order {
    MT_COLUMNS_UNKNOWN,
    MT_COLUMNS_BY_RANK,   // k·n + e: PEFT's
    MT_COLUMNS_BY_EXPERT, // e·R + k
};

/* What the numbers of a pair look like. */
struct mt_checked_numbers {
    size_t not_finite;       // elements
    double change;           // Frobenius norm of scale · B · A, over all experts of a stack
    double weight;           // of the weight it is added to, estimated; 0: unknown
    int64_t learning;        // experts (of a linear layer: 1) whose A is not zero
    int64_t still;           // of these, those whose B is all zero
    int64_t rows, zero_rows; // of B, where its A is not zero; those that are zero
    bool zero;               // A or B is zero everywhere
};

struct mt_checked_pair {
    const char *name;                          // of the module, as the file has it
    const struct mt_safetensors_tensor *a, *b; // NULL: missing
    enum mt_checked_kind kind;
    const char *module; // in the base; of a stack, its first expert's; NULL: none
    enum mt_model_part part;
    int64_t layer, expert; // -1: of none
    int64_t experts;       // n of a stack, else 1
    int64_t out, in;       // of the base's weight; 2I for gate_up
    bool renamed;          // the base has it under another name
    bool twice;            // another pair of the file is for the same
    bool fits;             // shapes are right, or `swapped`
    bool swapped;          // a stack with in and out exchanged
    int64_t rank;          // R of one expert, from the shapes; 0: they have none
    int64_t config_rank;
    double scale; // alpha / r
    struct mt_checked_numbers numbers;
    enum mt_column_order order; // of a stack, from its structure
    double alike[2]; // mean cos² of the columns of one expert, read by rank and by expert; 0: not measured
    size_t alike_count;
};

/* The adapter in a folder, and the model it is said to be for. */
struct mt_checked_adapter {
    struct mt_context *ctx; // borrowed
    const char *directory;  // borrowed, as is the model's
    const char *model;
    struct mt_hf_config config;
    struct mt_model_desc desc;
    struct mt_checkpoint checkpoint;
    struct mt_adapter read;       // its numbers, patterns and file; no pairs
    bool *pattern_used;           // [ranks, then alphas]: it fits some pair
    struct mt_checked_pair *pair; // sorted by name
    size_t pair_count;
    const char **stray; // tensors that are no half of a pair, in the arena of `read`
    size_t stray_count;
    bool biases;              // it has router_bias.safetensors
    const char *writer;       // "metier", "Unsloth with PEFT 0.18.1"
    const char *unsupported;  // what the config has that metier cannot read; NULL: nothing
    const char *asks_experts; // a target of the config that the routed experts have; NULL: none
    const char *refused;      // what mt_adapter_open says; NULL: it opens
    enum mt_adapter_layout layout;
    enum mt_column_order order; // of all stacks together
    bool order_certain;         // from their structure; else from how alike columns are
};

/* Reads everything. Fails for what cannot be read at all: a file that is missing, or is not what its name
 * says. The caller closes. */
enum mt_status mt_checked_open(struct mt_context *ctx, const char *directory, const char *model,
                               struct mt_checked_adapter *checked);
void mt_checked_close(struct mt_checked_adapter *checked); // a zeroed struct is allowed

#define MT_FINDINGS_MOST      24
#define MT_FINDING_TEXT_BYTES 640

struct mt_finding {
    const char *name; // "expert-order"
    char text[MT_FINDING_TEXT_BYTES];
    const char *affected; // who reads it wrongly
    const char *fix;
    bool mends; // mt_checked_repair does
};

struct mt_findings {
    struct mt_finding finding[MT_FINDINGS_MOST];
    int count;
};

/* Everything that is wrong. */
void mt_checked_find(const struct mt_checked_adapter *checked, struct mt_findings *findings);

/* What some program leaves out or refuses of this adapter, although nothing is wrong with it: program and
 * sentence number `index`; false past the last. */
bool mt_checked_reader(const struct mt_checked_adapter *checked, int index, const char **program,
                       const char **sentence);

/* Linear layers of a part that have a pair. */
size_t mt_checked_layers(const struct mt_checked_pair *pair);

/*
 * Writes the adapter again with its findings mended: names the base has, stacks as PEFT 0.19 and later have
 * them. Values stay as they are to the bit. Refuses an adapter with a finding that cannot be mended with
 * certainty. `directory` must exist; it is filled with config, weights and the other small files.
 */
enum mt_status mt_checked_repair(const struct mt_checked_adapter *checked, const char *directory);

#endif
