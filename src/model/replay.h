/*
 * Passes of one token a sequence, recorded: they issue the same ops at the same addresses for the same number
 * of tokens, and only what index tensors hold differs. As sequences end one by one nearly every number comes
 * up, and each would have a recording of its own: passes are padded to a few numbers instead.
 */
#ifndef MT_MODEL_REPLAY_H
#define MT_MODEL_REPLAY_H

#include "metier/device.h"

#define MT_REPLAY_TOKENS 512 // passes of more tokens are not worth it
#define MT_REPLAY_STEP   8 // recorded passes have a multiple of so many, or 1, 2, 4, or all there is room for

struct mt_replay {
    struct mt_recording *recording[MT_REPLAY_TOKENS]; // [tokens - 1]; NULL: none yet
    bool seen[MT_REPLAY_TOKENS];                      // such a pass has run
    bool off;                                         // recording has failed once
};

/* How many tokens to give a pass of so many, with room for `most`: the same where it will not be recorded. */
int64_t mt_replay_padded(const struct mt_replay *replay, const struct mt_device *device, int64_t tokens,
                         int64_t most);

/*
 * Runs `work` for a pass of so many tokens: the first time as it is, later from a recording where the device
 * has those. `work` does the same whenever the number of tokens is the same, and asks the device for nothing.
 */
enum mt_status mt_replay_run(struct mt_replay *replay, struct mt_device *device, int64_t tokens,
                             enum mt_status (*work)(void *self), void *self);

/* Frees the recordings. */
void mt_replay_free(struct mt_replay *replay);

#endif
