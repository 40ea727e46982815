/* How many sequences an engine computes together where nobody says: as many as there is memory for. */
#ifndef MT_INFER_ENGINE_ROOM_H
#define MT_INFER_ENGINE_ROOM_H

#include "infer/engine.h"
#include "ops/limit.h"

/* What will be opened, and how. */
struct mt_engine_place {
    int threads;                   // of the device
    const char *directory;         // the model's
    struct mt_model_options model; // what the engine does not choose itself
    struct mt_memory_limit limit;  // zeros: what is free
};

/*
 * Fills in pass_tokens, and slots where they are 0, for a model that will be opened on the device: it is
 * planned on another one that takes no memory, and what it would take is compared with what is free, or with
 * the limit, which the device keeps from then on. slots that are given stay. options->positions is set.
 */
enum mt_status mt_engine_choose_room(struct mt_device *device, const struct mt_engine_place *place,
                                     struct mt_engine_options *options);

#endif
