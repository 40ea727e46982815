/*
 * How much memory may be held. A limit is a text: "auto" (what is free now, less a reserve), an amount
 * ("22GiB", "24GB", "500MB") or a share of what is free ("90%").
 *
 * It is about the memory a device computes in. On a card that is the card's: buffers, and what the driver's
 * context and libraries take. On the host it is everything this process allocates through its context, and
 * the weights it maps from files.
 */
#ifndef MT_OPS_LIMIT_H
#define MT_OPS_LIMIT_H

#include "ops/device.h"

struct mt_memory_limit {
    double bytes; // 0: none is named
    double share; // of what is free, 0 to 1; 0: none is named. Both 0: auto
};

/* False for a text that is none. */
bool mt_memory_limit_read(const char *text, struct mt_memory_limit *limit);

/* What a limit means on a device, now. */
struct mt_memory_bound {
    size_t whole;   // that may be held; 0: nobody knows, as where the device does not say what is free
    size_t buffers; // of these, without what the device itself takes
    size_t free;    // at the moment; 0: not known
    bool given;     // somebody has named it; else it is what is free
};
struct mt_memory_bound mt_device_bound(struct mt_device *device, const struct mt_memory_limit *limit);

#endif
