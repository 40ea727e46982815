/*
 * Routed experts spread over ranks: rank r of P owns experts n·r/P … n·(r+1)/P - 1 of every layer. A rank's
 * rows, sorted by expert, go to the owners of their experts, are computed there together with the other
 * ranks', and come back to the same places. All calls but create and free are collective.
 *
 * Rows that arrive lie by sender; each sender's are sorted by expert. `order` says which of them comes where
 * when all are sorted by expert, the senders' rows of one expert in the order of ranks.
 */
#ifndef MT_MODEL_EXPERTS_RANKS_H
#define MT_MODEL_EXPERTS_RANKS_H

#include "comm/comm.h"
#include "metier/buffer.h"
#include "metier/ops.h"

#define MT_EXPERT_LANES 2 // journeys of rows that may be under way at a time

struct mt_expert_ranks {
    struct mt_device *device; // borrowed
    struct mt_comm *comm;     // borrowed: the ranks that share the experts
    struct mt_device *sender; // borrowed: the cards send on its stream; NULL: they do not
    int experts;              // n
    int first, owned;         // ours
    int layers;               // MoE layers
    int64_t capacity;         // rows that can arrive at the most
    size_t row_bytes;         // d numbers, of the largest type that is sent
    bool planning;            // nothing is sent, and as many rows as can be have arrived
    bool staged;              // rows go by way of host memory
    // Owned memory, in one block.
    int32_t *sent;                      // [layers,n]: rows of ours for each expert
    int32_t *arrived;                   // [layers,P,owned]: rows of each rank for each of our experts
    int64_t *rows;                      // [layers]: Σ arrived
    int64_t *away;                      // [layers]: rows of ours for other ranks' experts
    int32_t *offsets;                   // [n+1], or [owned+1]: on the way to or from the device
    int32_t *order;                     // [capacity]: likewise
    int64_t *place;                     // [P·owned]: where each piece begins
    size_t *send_bytes, *receive_bytes; // [P]
    void *block;
    size_t bytes;
    // Owned: what is on its way, and where it is staged.
    struct mt_expert_lane {
        struct mt_comm_transfer *parcel;
        struct mt_buffer own, arrived; // rows on the host: ours, and of all ranks for our experts
    } lane[MT_EXPERT_LANES];
};

struct mt_expert_ranks_shape {
    int experts;              // n
    int layers;               // MoE layers
    int64_t rows;             // of a rank's own at the most: tokens · k
    int64_t width;            // d
    size_t element;           // bytes of a number, at the most
    double room;              // rows that may arrive, over a rank's own at the most; 0: all that can
    bool direct;              // what carries bytes between ranks reads the device's own memory
    struct mt_device *sender; // of mt_expert_ranks
};

/* Prepares a caller-owned struct; the caller frees. Refuses more ranks than experts, and more than 2^31 rows.
 */
enum mt_status mt_expert_ranks_create(struct mt_device *device, struct mt_comm *comm,
                                      const struct mt_expert_ranks_shape *shape,
                                      struct mt_expert_ranks *ranks);
void mt_expert_ranks_free(struct mt_expert_ranks *ranks); // a zeroed struct is allowed

/* The first expert of a rank of P. */
int mt_expert_ranks_first(int experts, int rank, int ranks);

/* The rank that owns an expert. */
int mt_expert_ranks_owner(int experts, int expert, int ranks);

/* A layer's choice is made: offsets i32 [n+1] of our rows. Afterwards ranks->rows[layer] is known. */
enum mt_status mt_expert_ranks_route(struct mt_expert_ranks *ranks, int layer,
                                     const struct mt_tensor *offsets);

/* own_offsets i32 [owned+1]: where each of our experts' rows begin, of all that arrived. */
enum mt_status mt_expert_ranks_offsets(struct mt_expert_ranks *ranks, int layer,
                                       const struct mt_tensor *own_offsets);

/*
 * What both directions work on: tensors of the layer at hand, of one type. `order` i32 [capacity]; space
 * and sorted [capacity,d].
 * A journey begins with start and ends with finish, and other work may be done between them that leaves own
 * and space alone. Two may be under way, in different lanes.
 */
struct mt_expert_transfer {
    struct mt_tensor own;    // [R,d]: our rows, sorted by expert
    struct mt_tensor space;  // rows as they are sent
    struct mt_tensor sorted; // rows by expert, of all ranks
    struct mt_tensor order;
    int lane; // below MT_EXPERT_LANES
};

/* own -> sorted, by way of space. */
enum mt_status mt_expert_ranks_send_start(struct mt_expert_ranks *ranks, int layer,
                                          const struct mt_expert_transfer *transfer);
enum mt_status mt_expert_ranks_send_finish(struct mt_expert_ranks *ranks, int layer,
                                           const struct mt_expert_transfer *transfer);

/* sorted -> own, likewise. */
enum mt_status mt_expert_ranks_return_start(struct mt_expert_ranks *ranks, int layer,
                                            const struct mt_expert_transfer *transfer);
enum mt_status mt_expert_ranks_return_finish(struct mt_expert_ranks *ranks, int layer,
                                             const struct mt_expert_transfer *transfer);

/* Does what can be done for what is under way without waiting. */
void mt_expert_ranks_progress(struct mt_expert_ranks *ranks);

#endif
