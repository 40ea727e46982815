/*
 * The timelines of all ranks as one file in Chrome's trace format, for chrome://tracing and ui.perfetto.dev:
 * a process for each rank; spans of its work, and sums of gradients, which go on beside it, as asynchronous
 * ones.
 */
#ifndef MT_TRAIN_TIMELINE_FILE_H
#define MT_TRAIN_TIMELINE_FILE_H

#include "base/timeline.h"
#include "comm/comm.h"

/* What the file shows, of all ranks together. */
struct mt_timeline_summary {
    struct mt_overlap overlap;
    uint64_t spans;
    uint64_t lost; // for which a rank had no memory
};

/* Collective; rank 0 writes, one rank's spans in memory at a time, and gets the summary. */
enum mt_status mt_timeline_write(struct mt_comm *comm, const struct mt_timeline *timeline, const char *path,
                                 struct mt_timeline_summary *summary);

#endif
