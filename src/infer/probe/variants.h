/*
 * A model with an adapter of which single parts can be left out: what metier probe compares a server with. A
 * part is a kind of weight (q_proj, router, routed experts, ...) in a range of layers; every pair lies in one
 * part. A pair is left out by setting its lora_B to zero, and weakened by scaling it.
 */
#ifndef MT_INFER_VARIANTS_H
#define MT_INFER_VARIANTS_H

#include "formats/tokenizer/tokenizer.h"
#include "model/adapters/adapter.h"
#include "model/model.h"
#include "text/plain_text.h"

#define MT_VARIANTS_TEXT_TOKENS 128 // of a text at the most
#define MT_VARIANTS_PARTS       96  // at the most
#define MT_VARIANTS_KIND_BYTES  48

struct mt_variant_part {
    char kind[MT_VARIANTS_KIND_BYTES]; // "q_proj", "router", "routed experts"
    int64_t first, last;               // layers with pairs of it; -1: of no layer
};

/* The part of the routed experts. */
bool mt_variants_is_routed(const struct mt_variant_part *part);

struct mt_variant_pair; // opaque

struct mt_variants {
    struct mt_context *ctx; // borrowed
    struct mt_device *device;
    struct mt_model *model;
    struct mt_tokenizer *tokenizer;
    struct mt_token_scratch *scratch;
    struct mt_text_beginning beginning;
    struct mt_variant_part part[MT_VARIANTS_PARTS];
    int parts;
    struct mt_variant_pair *pair; // [pairs]
    size_t pairs;
    float *saved;  // every lora_B as the adapter has it, and every lora_A of routed experts
    float *scaled; // [largest]: one of them on its way to the device
    size_t elements, largest;
    int32_t *peers;          // [experts] for each routed pair: those of its map in the layer; -1: none
    size_t peer_count;       // of all of them
    int64_t experts;         // of a layer
    const int32_t *source;   // [experts] whose pair each expert has; borrowed; NULL: its own
    struct mt_buffer logits; // of a batch's tokens, on the device
    float *row;              // [vocabulary]
    int64_t silent_first, silent_last; // layers whose pairs are left out, whatever their part; none: 0, -1
    bool biases;                       // the adapter also moves the routers' biases, which every variant has
};

struct mt_variants_options {
    const char *base, *adapter;
    const char *device;                         // by its name
    const struct mt_quantise_options *quantise; // the base's weights; borrowed; NULL: as they are
    int threads;
    const struct mt_log *log; // borrowed while it opens
};

/* Opens all of it, with one part for each kind. The caller closes. */
enum mt_status mt_variants_open(struct mt_context *ctx, const struct mt_variants_options *options,
                                struct mt_variants *variants);
void mt_variants_close(struct mt_variants *variants); // a zeroed struct is allowed

/* One part for each kind again, after mt_variants_split. */
enum mt_status mt_variants_unite(struct mt_variants *variants);

/* Appends the ids of a text as the model's tokenizer begins it; what is longer loses its end. */
enum mt_status mt_variants_encode(struct mt_variants *variants, const char *text, size_t bytes,
                                  struct mt_id_list *ids);

/*
 * Cuts a part into two behind a layer; the second becomes the last part. False: all of it is on one side, or
 * there are as many parts as there may be.
 */
bool mt_variants_split(struct mt_variants *variants, int part, int64_t border);

/* Texts with the same `ids`, the shorter ones first, are beginnings of one and run together. */
struct mt_probe_text {
    const int32_t *ids; // borrowed
    size_t count;       // 1 to MT_VARIANTS_TEXT_TOKENS
};

struct mt_probe_visitor {
    void *self;
    /* The logits [vocabulary] of what follows a text; they last for the call. */
    enum mt_status (*visit)(void *self, size_t text, const float *logits, int64_t vocabulary);
};

/* Runs the texts with part p at strength[p] times its own: 1 as it is, 0 left out. */
enum mt_status mt_variants_run(struct mt_variants *variants, const float *strength,
                               const struct mt_probe_text *texts, size_t count,
                               const struct mt_probe_visitor *visitor);

#endif
