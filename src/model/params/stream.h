/* Random streams by name: what a tensor draws depends on its name and the seed, never on an order. */
#ifndef MT_MODEL_STREAM_H
#define MT_MODEL_STREAM_H

#include <stdint.h>

/* FNV-1a, 64 bits. */
static inline uint64_t mt_stream_of_name(const char *name)
{
    uint64_t hash = 0xCBF29CE484222325u;
    for (const unsigned char *byte = (const unsigned char *)name; *byte != 0; byte++) {
        hash = (hash ^ *byte) * 0x100000001B3u;
    }
    return hash;
}

#endif
