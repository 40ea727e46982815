/* Limits of memory: read, compared with what is free, and handed to whoever allocates. */
#include "ops/limit.h"

#include <stdlib.h>
#include <string.h>

#include "ops/device.h"

#define OWN_COMING    0.5  // of what a device takes itself: kernels and workspaces come with their first use
#define RESERVE_SHARE 0.02 // of all memory: plans are this close to what a device then shows

/* The factor a unit stands for; 0: it is none. */
static double factor_of(const char *unit)
{
    static const struct {
        const char *name;
        double factor;
    } units[] = {
        {"B", 1.0},   {"kB", 1e3},     {"KB", 1e3},        {"MB", 1e6},           {"GB", 1e9},
        {"TB", 1e12}, {"KiB", 1024.0}, {"MiB", 1048576.0}, {"GiB", 1073741824.0}, {"TiB", 1099511627776.0},
    };
    for (size_t i = 0; i < sizeof units / sizeof units[0]; i++) {
        if (strcmp(units[i].name, unit) == 0) return units[i].factor;
    }
    return 0.0;
}

bool mt_memory_limit_read(const char *text, struct mt_memory_limit *limit)
{
    char *end = NULL;
    *limit = (struct mt_memory_limit){0};
    if (strcmp(text, "auto") == 0) return true;
    double number = strtod(text, &end);
    if (end == text || end != text + strspn(text, "0123456789.")) return false; // no signs, no hexadecimals
    end += strspn(end, " ");
    if (strcmp(end, "%") == 0) {
        limit->share = number / 100.0;
        return number > 0.0 && number <= 100.0;
    }
    limit->bytes = number * factor_of(end);
    return limit->bytes >= 1.0 && limit->bytes < 1e18;
}

struct mt_memory_bound mt_device_bound(struct mt_device *device, const struct mt_memory_limit *limit)
{
    struct mt_memory_room room;
    mt_device_room(device, &room);
    struct mt_memory_bound bound = {.free = room.free, .given = limit->bytes > 0.0 || limit->share > 0.0};
    if (limit->bytes > 0.0) {
        bound.whole = (size_t)limit->bytes;
        bound.buffers = bound.whole > room.own ? bound.whole - room.own : 1;
        // What is not there cannot be had. On the host the system may find more: it is asked.
        bool short_of = room.total > 0 && !mt_device_on_host(device) && bound.buffers > room.free;
        if (short_of) bound.buffers = room.free > 0 ? room.free : 1;
        return bound;
    }
    if (room.total == 0) return bound;
    double reserve = RESERVE_SHARE * (double)room.total;
    double coming = OWN_COMING * (double)room.own;
    if (reserve < coming) reserve = coming;
    double left = limit->share > 0.0 ? limit->share * (double)room.free : (double)room.free - reserve;
    bound.buffers = left > 1.0 ? (size_t)left : 1;
    bound.whole = bound.buffers + room.own; // which is there already
    return bound;
}
