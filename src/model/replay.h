/*
 * Passes of one token a sequence, recorded: they issue the same ops at the same addresses for the same number
 * of tokens, and only what index tensors hold differs.
 */
#ifndef MT_MODEL_REPLAY_H
#define MT_MODEL_REPLAY_H

#include "metier/device.h"

#define MT_REPLAY_TOKENS 256 // passes of more tokens are not worth it

struct mt_replay {
    struct mt_recording *recording[MT_REPLAY_TOKENS]; // [tokens - 1]; NULL: none yet
    bool seen[MT_REPLAY_TOKENS];                      // such a pass has run
    bool off;                                         // recording has failed once
};

/*
 * Runs `work` for a pass of so many tokens: the first time as it is, later from a recording where the device
 * has those. `work` does the same whenever the number of tokens is the same, and asks the device for nothing.
 */
enum mt_status mt_replay_run(struct mt_replay *replay, struct mt_device *device, int64_t tokens,
                             enum mt_status (*work)(void *self), void *self);

/* Frees the recordings. */
void mt_replay_free(struct mt_replay *replay);

#endif
