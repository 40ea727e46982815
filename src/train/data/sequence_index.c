/* A table of places, open addressing, no more than half full. */
#include "train/data/sequence_index.h"

#include <string.h>

#include "base/files/digest.h"

#define HASH_KEY      0
#define FEWEST_PLACES 16

int64_t mt_sequence_start(const struct mt_sequence_index *index, size_t number)
{
    int64_t start = 0;
    memcpy(&start, (const char *)index->offsets + number * sizeof start, sizeof start);
    return start;
}

/* The ids of a sequence, as bytes. */
static const char *bytes_of(const struct mt_sequence_index *index, size_t number, size_t *bytes)
{
    int64_t start = mt_sequence_start(index, number);
    *bytes = (size_t)(mt_sequence_start(index, number + 1) - start) * sizeof(int32_t);
    return (const char *)index->ids + (size_t)start * sizeof(int32_t);
}

/* Where a sequence is, or would be. */
static size_t place_of(const struct mt_sequence_index *index, const void *ids, size_t bytes)
{
    size_t place = (size_t)mt_digest_short(ids, bytes, HASH_KEY) & (index->places - 1);
    for (; index->place[place] != 0; place = (place + 1) & (index->places - 1)) {
        size_t other = 0;
        const char *there = bytes_of(index, (size_t)index->place[place] - 1, &other);
        if (other == bytes && memcmp(there, ids, bytes) == 0) return place;
    }
    return place;
}

static void put(struct mt_sequence_index *index, size_t number)
{
    size_t bytes = 0;
    const char *ids = bytes_of(index, number, &bytes);
    size_t place = place_of(index, ids, bytes);
    if (index->place[place] == 0) index->place[place] = number + 1;
}

enum mt_status mt_sequence_index_reserve(struct mt_sequence_index *index, size_t count)
{
    size_t places = index->places > 0 ? index->places : FEWEST_PLACES;
    while (places / 2 < count) places *= 2;
    if (places == index->places) return MT_OK;
    void *memory = NULL;
    enum mt_status status = mt_allocate_array(index->ctx, places, sizeof *index->place, &memory);
    if (status != MT_OK) return status;
    mt_release(index->ctx, index->place, index->places * sizeof *index->place);
    index->place = memory;
    index->places = places;
    for (size_t s = 0; s < index->count; s++) put(index, s);
    return MT_OK;
}

void mt_sequence_index_free(struct mt_sequence_index *index)
{
    if (index->ctx == NULL) return;
    mt_release(index->ctx, index->place, index->places * sizeof *index->place);
    *index = (struct mt_sequence_index){0};
}

void mt_sequence_index_add(struct mt_sequence_index *index)
{
    put(index, index->count);
    index->count++;
}

bool mt_sequence_index_find(const struct mt_sequence_index *index, const int32_t *ids, int64_t length,
                            size_t *number)
{
    if (index->places == 0) return false;
    size_t place = place_of(index, ids, (size_t)length * sizeof *ids);
    if (index->place[place] == 0) return false;
    *number = (size_t)index->place[place] - 1;
    return true;
}
