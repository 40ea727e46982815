/*
 * Quantised weights of a model: where codes, scales and the copies that products read lie, and how codes are
 * made from the numbers of the checkpoint, one matrix at a time.
 *
 * Copies of one layer are there at a time. What may be in use together has places of its own: all of a
 * layer's attention; its dense MLP; its shared experts, and behind them the routed ones, of which down lies
 * where gate and up were.
 */
#ifndef MT_MODEL_PARAMS_QUANTISED_H
#define MT_MODEL_PARAMS_QUANTISED_H

#include "model/params/loading.h"

/* A layout under way. As a planner's it is made twice: to count, then to place. */
struct mt_quantised_layout {
    const struct mt_quantise_options *options; // borrowed
    struct mt_planner codes;                   // codes and scales of every matrix
    struct mt_tensor map;                      // of nested scales, which share it; absent: there are none
    char *copies;                              // NULL while counting
    size_t behind_shared;                      // where copies of routed experts begin
    int64_t layer;                             // whose copies are being placed
    size_t used[MT_MODEL_PART_COUNT];          // of this layer
    size_t most[MT_MODEL_PART_COUNT];          // of any layer
};

/* A routed expert's place: which of gate, up and down, and which of the experts that are here. */
struct mt_quantised_expert {
    int projection; // 0, 1, 2
    int number, here;
};

/* Begins, in the buffers of params as far as they are there. */
void mt_quantised_layout_begin(struct mt_quantised_layout *layout, const struct mt_quantise_options *options,
                               const struct mt_params *params);

/*
 * Places a matrix and its copy; `expert` is NULL for all but routed experts. The folder's own matrix is in
 * `found`, or one that a file keeps: its data stays where it is. NULL: it is to be made, as the options say.
 */
void mt_quantised_lay_out(struct mt_quantised_layout *layout, const struct mt_model_tensor *tensor,
                          const struct mt_quantised_expert *expert, const struct mt_quantised *found,
                          struct mt_quantised *matrix, struct mt_tensor *copy);

/* Bytes of copies, once all matrices are placed; the next layout begins as this one says. */
size_t mt_quantised_copy_bytes(struct mt_quantised_layout *layout);

/* Refuses what is trained itself and is in codes, parts that have no matrix, and experts unlike each other.
 */
enum mt_status mt_quantised_check(struct mt_context *ctx, const struct mt_quantise_options *options,
                                  const struct mt_params_items *items);

/*
 * The matrix as a file keeps it (codes_cache.h): all its tensors but the map one after the other, the data
 * pointing into `image`; NULL: only counted. Returns its bytes.
 */
size_t mt_quantised_image(const struct mt_quantise_options *options, const struct mt_model_tensor *tensor,
                          const void *image, struct mt_quantised *matrix);

/* Makes codes and scales of the stored numbers, on the host, in memory of the host. */
enum mt_status mt_quantised_make(struct mt_context *ctx, const struct mt_params_item *item,
                                 const struct mt_quantised *matrix);

/* The same in the device's memory; codes that a file keeps are brought there as they are. */
enum mt_status mt_quantised_fill(struct mt_device *device, const struct mt_quantise_options *options,
                                 const struct mt_params_item *item, const struct mt_quantised *matrix);

/* Writes the map that nested scales share, if there are any. */
enum mt_status mt_quantised_fill_map(struct mt_device *device, const struct mt_quantised_layout *layout);

// ------------------------------------------------------------------ the folder's own codes (published.c)

/* The folder's matrix: data of the file where the device reads it there, NULL where it needs memory. */
enum mt_status mt_published_place(struct mt_device *device, const struct mt_hf_config *config,
                                  const struct mt_checkpoint *checkpoint,
                                  const struct mt_model_tensor *tensor, struct mt_quantised *found);

/* Bytes of it that are read in the file. */
size_t mt_published_mapped(const struct mt_quantised *found);

/* Checks its scales, and fills what does not lie in the file. */
enum mt_status mt_published_fill(struct mt_device *device, const struct mt_hf_config *config,
                                 const struct mt_checkpoint *checkpoint, const struct mt_model_tensor *tensor,
                                 const struct mt_quantised *matrix);

#endif
