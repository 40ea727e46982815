/* Recording a pass the second time it comes, replaying it from then on. */
#include "model/replay.h"

/* Takes down one pass; without success there will be no other try. */
static enum mt_status record(struct mt_replay *replay, struct mt_device *device, int64_t tokens,
                             enum mt_status (*work)(void *self), void *self)
{
    struct mt_recording **recording = &replay->recording[tokens - 1];
    enum mt_status status = mt_device_record_begin(device);
    if (status != MT_OK) return status;
    enum mt_status worked = work(self);
    status = mt_device_record_end(device, recording);
    if (status == MT_OK && worked == MT_OK) return MT_OK;
    mt_recording_free(*recording);
    *recording = NULL;
    return worked != MT_OK ? worked : status;
}

static bool is_recorded(const struct mt_replay *replay, const struct mt_device *device, int64_t tokens)
{
    return !replay->off && tokens >= 1 && tokens <= MT_REPLAY_TOKENS && mt_device_records(device);
}

int64_t mt_replay_padded(const struct mt_replay *replay, const struct mt_device *device, int64_t tokens,
                         int64_t most)
{
    if (!is_recorded(replay, device, tokens) || tokens > most) return tokens;
    int64_t padded = 1;
    while (padded < tokens && padded < MT_REPLAY_STEP) padded *= 2;
    if (padded < tokens) padded = (tokens + MT_REPLAY_STEP - 1) / MT_REPLAY_STEP * MT_REPLAY_STEP;
    return padded < most ? padded : most;
}

enum mt_status mt_replay_run(struct mt_replay *replay, struct mt_device *device, int64_t tokens,
                             enum mt_status (*work)(void *self), void *self)
{
    if (!is_recorded(replay, device, tokens)) return work(self);
    struct mt_recording **recording = &replay->recording[tokens - 1];
    bool first = !replay->seen[tokens - 1];
    if (*recording != NULL && !mt_recording_is_usable(*recording)) {
        mt_recording_free(*recording);
        *recording = NULL;
    }
    replay->seen[tokens - 1] = true;
    if (first) return work(self);
    if (*recording == NULL && record(replay, device, tokens, work, self) != MT_OK) {
        replay->off = true;
        return work(self);
    }
    return mt_device_replay(device, *recording);
}

void mt_replay_free(struct mt_replay *replay)
{
    for (int i = 0; i < MT_REPLAY_TOKENS; i++) {
        mt_recording_free(replay->recording[i]);
        replay->recording[i] = NULL;
        replay->seen[i] = false;
    }
}
