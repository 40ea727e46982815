/*
 * The routers' selection biases in a file of ours. Loss-free balancing chooses by score plus bias and weighs
 * by the score alone, in training and afterwards; most architectures have no tensor for that bias, so it goes
 * into a safetensors file of its own:
 *
 *     model.layers.L.ROUTER.e_score_correction_bias   F32 [n]   for MoE layers; a layer without one has zeros
 *
 * ROUTER is what the checkpoint calls the router: mlp.gate, or block_sparse_moe.gate. Beside an adapter the
 * file is there for every architecture; beside a model's weights only where the checkpoint has no place for
 * the biases, under another ending, because some programs load whatever ends in .safetensors as weights.
 */
#ifndef MT_MODEL_ROUTER_BIAS_H
#define MT_MODEL_ROUTER_BIAS_H

#include "formats/safetensors/safetensors.h"
#include "model/params/params.h"

#define MT_ROUTER_BIAS_OF_ADAPTER "router_bias.safetensors"
#define MT_ROUTER_BIAS_OF_MODEL   "router_bias.metier"

/*
 * Opens the file `name` of a folder, and checks all of it against the model. Without such a file `file` is
 * zeroed: it has no tensors. The caller closes.
 */
enum mt_status mt_router_bias_open(struct mt_context *ctx, const char *directory, const char *name,
                                   const struct mt_model_desc *desc, struct mt_safetensors *file);

/* Gives every router without a bias one of zeros, in memory made here: left alone where all have one. */
enum mt_status mt_router_bias_create(struct mt_params *params, const struct mt_model_desc *desc,
                                     struct mt_buffer *buffer);

/* True when some router has one. */
bool mt_router_bias_present(const struct mt_params *params);

/* Copies an opened file into parameters whose routers have biases. */
enum mt_status mt_router_bias_apply(const struct mt_safetensors *file, struct mt_params *params);

/* Biases on the host, values[layers, n]: those of an opened file, where it has them. */
void mt_router_bias_read(const struct mt_safetensors *file, int experts, float *values);

/* The parameters' own; rows of layers without one are left alone. */
enum mt_status mt_router_bias_download(const struct mt_params *params, int experts, float *values);

/* Writes the rows of all MoE layers. */
enum mt_status mt_router_bias_write(struct mt_context *ctx, const struct mt_model_desc *desc,
                                    const float *values, const char *path);

/* Writes the parameters' biases, where there are any, as the file `name` of a folder. */
enum mt_status mt_router_bias_save(const struct mt_params *params, const struct mt_model_desc *desc,
                                   const char *directory, const char *name);

#endif
