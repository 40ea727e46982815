/*
 * The tensors a model of a given config has on disk: name, shape, and which part of the model each belongs
 * to. They are generated one at a time, so nothing here bounds the number of layers or experts.
 */
#ifndef MT_ARCH_MODEL_TENSORS_H
#define MT_ARCH_MODEL_TENSORS_H

#include "arch/arch.h"

#define MT_MODEL_NAME_BYTES 128 // fits every name with 64-bit layer and expert numbers

struct mt_model_tensor {
    char name[MT_MODEL_NAME_BYTES];
    enum mt_model_part part;
    int64_t layer;  // -1: of no layer
    int64_t expert; // -1: of no routed expert
    int rank;       // 1 or 2
    int64_t dim[2];
    bool as_row; // a vector [n] that is stored as [1,n]
};

/* A place in the list; copy it to go on from there twice. */
struct mt_model_tensors {
    const struct mt_hf_config *config; // borrowed
    int section;
    size_t row;
    int64_t layer;
    int64_t expert;
    bool moe; // whether the current layer has experts
};

/* "routed experts", "routed_experts"; never NULL. */
const char *mt_model_part_name(enum mt_model_part part);
const char *mt_model_part_key(enum mt_model_part part);

/* Starts at the first tensor; the config must outlive the walk. */
struct mt_model_tensors mt_model_tensors_begin(const struct mt_hf_config *config);

/* The next tensor; false after the last. Order: embedding, layers from 0, final norm, lm head. */
bool mt_model_tensors_next(struct mt_model_tensors *walk, struct mt_model_tensor *tensor);

/* True for the matrices LoRA can adapt: linear layers inside the layers, router included. */
bool mt_model_tensor_is_linear(const struct mt_model_tensor *tensor);

/* True for a router's e_score_correction_bias, which moves the choice of experts and no logit. */
bool mt_model_tensor_is_correction(const struct mt_model_tensor *tensor);

/* The shape it has in a file: *rank and dim[2]. */
void mt_model_tensor_stored_shape(const struct mt_model_tensor *tensor, int *rank, int64_t dim[2]);

/* Elements of a tensor. */
int64_t mt_model_tensor_count(const struct mt_model_tensor *tensor);

#endif
