/*
 * A LoRA adapter as PEFT saves it: adapter_config.json and adapter_model.safetensors. docs/adapters.md
 * describes the layouts, which differ in the routed experts and in nothing a model computes:
 *
 *     per-expert   "base_model.model.MODULE.lora_A.weight" and ".lora_B.weight" for every map, names as in
 *                  the checkpoint
 *     fused        PEFT's target_parameters on transformers' stacked experts: one pair of matrices for all
 *                  experts of a layer
 *     vllm         per-expert, with zeros for the routed experts' maps that have no pair
 *
 * Beside an adapted head PEFT also saves the head itself, which must then be the model's. An adapter may have
 * a third file of ours, router_bias.safetensors: the routers' biases as they were after training
 * (router_bias.h).
 *
 * An adapter says by itself which maps have a pair, of which rank and scale:
 *
 *     mt_adapter_open(ctx, directory, &desc, &adapter);
 *     mt_adapter_select(&adapter, &selection);
 *     mt_params_load(device, &desc, &checkpoint, &selection, &params);
 *     mt_adapter_apply(&adapter, &params);
 *     mt_adapter_close(&adapter);
 */
#ifndef MT_MODEL_ADAPTER_H
#define MT_MODEL_ADAPTER_H

#include "base/log.h"
#include "formats/safetensors/safetensors.h"
#include "model/files/carried_files.h"
#include "model/params/params.h"

#define MT_ADAPTER_CONFIG      "adapter_config.json"
#define MT_ADAPTER_WEIGHTS     "adapter_model.safetensors"
#define MT_ADAPTER_NAME_PREFIX "base_model.model." // of every tensor

// Metadata of adapter_model.safetensors, which PEFT does not look at.
#define MT_ADAPTER_LAYOUT_KEY   "metier.layout"
#define MT_ADAPTER_DROPOUT_KEY  "metier.lora_dropout"
#define MT_ADAPTER_QUANTISE_KEY "metier.quantize" // how the weights it was trained beside are quantised

enum mt_adapter_layout {
    MT_ADAPTER_AUTO, // the one PEFT with the current transformers loads right; only for writing
    MT_ADAPTER_PER_EXPERT,
    MT_ADAPTER_FUSED,
    MT_ADAPTER_VLLM,
    MT_ADAPTER_LAYOUTS,
};

/* "auto", "per-expert", "fused", "vllm". */
const char *mt_adapter_layout_name(enum mt_adapter_layout layout);
bool mt_adapter_layout_find(const char *word, enum mt_adapter_layout *layout);

/* The layout itself, or what auto stands for with this model. */
enum mt_adapter_layout mt_adapter_layout_for(const struct mt_model_desc *desc, enum mt_adapter_layout layout);

/* Refuses a layout the model's adapters cannot have. */
enum mt_status mt_adapter_layout_check(struct mt_context *ctx, const struct mt_model_desc *desc,
                                       enum mt_adapter_layout layout);

/*
 * True when the layout (not auto) has a layer's experts in one pair: fused, and vllm where the checkpoint
 * stacks them, too.
 */
bool mt_adapter_layout_stacks(const struct mt_model_desc *desc, enum mt_adapter_layout layout);

/*
 * Sentence number `index` on what those who read the layout (not auto) would make of the pairs that learn
 * here; NULL past the last.
 */
const char *mt_adapter_layout_warning(const struct mt_params *params, const struct mt_model_desc *desc,
                                      enum mt_adapter_layout layout, int index);

/* The pair of one linear layer, and where it lies in the stored matrices. */
struct mt_adapter_pair {
    const char *module; // as the checkpoint names it: "model.layers.0.self_attn.q_proj"
    const struct mt_safetensors_tensor *a, *b;
    int64_t rank, out, in;
    int64_t a_row;              // of rank 0
    int64_t b_row, b_row_step;  // output o is in row b_row + o · b_row_step
    int64_t b_column, b_stride; // rank k is in column b_column + k · b_stride
    double scale;               // of this pair: its own alpha / r
};

/* A number for names that end in `ending`: rank_pattern, alpha_pattern. */
struct mt_adapter_pattern {
    const char *ending;
    double value;
};

struct mt_adapter_patterns {
    struct mt_adapter_pattern *pattern;
    size_t count;
};

struct mt_adapter {
    struct mt_context *ctx; // borrowed
    struct mt_arena arena;  // owns the names
    struct mt_safetensors file;
    struct mt_safetensors biases; // without tensors where there is no such file
    enum mt_adapter_layout layout;
    int rank;     // the largest of any pair
    double alpha; // scale = alpha / rank; PEFT's use_rslora is already in it
    double dropout;
    struct mt_quantise_options quantise; // of the weights it was trained beside
    const char **modules;                // NULL-terminated, sorted: the modules of `pairs`
    struct mt_adapter_pair *pairs;
    size_t module_count;
    const struct mt_safetensors_tensor *head, *head_bias; // copies of lm_head, or NULL
    // What the config says.
    int64_t config_rank;
    double config_alpha;
    bool root_scale; // alpha / sqrt(r)
    struct mt_adapter_patterns ranks, alphas;
};

/*
 * Opens a folder; refuses adapters that are more than pairs of matrices. The description, which only the
 * fused layout needs, may be NULL and need not outlive the call. The caller closes.
 */
enum mt_status mt_adapter_open(struct mt_context *ctx, const char *directory,
                               const struct mt_model_desc *desc, struct mt_adapter *adapter);

/* The same with the description of the model in a folder. */
enum mt_status mt_adapter_open_for(struct mt_context *ctx, const char *directory, const char *model_directory,
                                   struct mt_adapter *adapter);
void mt_adapter_close(struct mt_adapter *adapter); // a zeroed struct is allowed

/* Sets lora, lora_rank, lora_alpha, lora_dropout, biases and quantise. The adapter must outlive the use of
 * the selection. */
void mt_adapter_select(const struct mt_adapter *adapter, struct mt_train_selection *selection);

/* The pair of a module, or NULL. */
const struct mt_adapter_pair *mt_adapter_find(const struct mt_adapter *adapter, const char *module);

/* Element `index` of a stored matrix. */
float mt_adapter_value(const struct mt_safetensors_tensor *stored, int64_t index);

/* What follows "model.layers.L." in a name, and L; NULL for other names. */
const char *mt_adapter_in_layer(const char *name, int64_t *layer);

/*
 * One pair as numbers: a [rank,in], b [out,rank], with zeros where `rank` is more than the pair's own. b is
 * scaled so that alpha / rank of the adapter is the right factor of b·a.
 */
void mt_adapter_read_pair(const struct mt_adapter *adapter, const struct mt_adapter_pair *pair, int64_t rank,
                          float *a, float *b);

/* Copies the adapter into parameters with exactly these pairs, of this rank and scale. */
enum mt_status mt_adapter_apply(const struct mt_adapter *adapter, struct mt_params *params);

/* Opens, applies and closes. */
enum mt_status mt_params_load_adapter(struct mt_params *params, const struct mt_model_desc *desc,
                                      const char *directory);

// ------------------------------------------------------------------ for who looks at an adapter piece by
// piece

struct mt_json_node;

/* Of adapter_config.json: refuses what would change the result and is not done here; reads rank, alpha,
 * dropout and patterns. */
enum mt_status mt_adapter_config_refuse(const struct mt_json_node *root);
enum mt_status mt_adapter_config_numbers(struct mt_adapter *adapter, const struct mt_json_node *root);

/* True when a pattern is the whole name or its end after a dot; with ".weight" behind the name, too. */
bool mt_adapter_pattern_fits(const struct mt_adapter_pattern *pattern, const char *name);

/* The rank and the scale PEFT gives to what it calls `name`. */
void mt_adapter_config_rank(const struct mt_adapter *adapter, const char *name, int64_t *rank, double *scale);

/*
 * "model.layers.3.mlp.experts" or "model.layers.3.mlp.experts.base_layer": the names PEFT's wrappers around
 * the stacked experts of a layer have.
 */
bool mt_adapter_is_stack(const char *module, int64_t *layer);

// ------------------------------------------------------------------ writing

struct mt_adapter_write_options {
    const char *directory; // must not exist, or be empty; appears whole or not at all
    enum mt_adapter_layout layout;
    const char *base_model;                     // where the model came from, for the config; NULL: unknown
    const struct mt_train_selection *selection; // what the parameters were loaded with: rank, alpha, dropout
    bool biases;                                // write the routers' biases too, where they have any
    struct mt_trained_texts trained;            // what its texts were written out with
    const char *trained_from;                   // a folder that it is taken from instead; NULL: none
    const struct mt_log *log;                   // warnings about the layout; borrowed; NULL: silent
};

/* Writes the LoRA pairs of a model as an adapter, in f32. */
enum mt_status mt_adapter_write(const struct mt_params *params, const struct mt_model_desc *desc,
                                const struct mt_adapter_write_options *options);

struct mt_adapter_rewrite_options {
    const char *adapter;   // the folder to read
    const char *model;     // the folder of the model it is for
    const char *directory; // the folder to write; must not exist, or be empty
    enum mt_adapter_layout layout;
    const struct mt_log *log; // as in writing
};

/* Writes an adapter in another layout. */
enum mt_status mt_adapter_rewrite(struct mt_context *ctx, const struct mt_adapter_rewrite_options *options);

#endif
