/*
 * A matrix that lies inside a larger tensor: its rows are apart, and so may be the elements of a row. Files
 * hold the experts of a layer so, in one tensor, some of them transposed or with gate's and up's columns in
 * turns. Reading gathers what is asked for, writing scatters it.
 */
#ifndef MT_FORMATS_STRIDED_H
#define MT_FORMATS_STRIDED_H

#include <stddef.h>
#include <stdint.h>

struct mt_strided {
    int64_t columns; // elements of a row; 0: no such matrix, everything follows each other
    int64_t row;     // bytes from a row to the next
    int64_t element; // bytes from an element to the next
};

/* Elements first … first+count-1, of `item` bytes each, into memory where they follow each other. */
void mt_strided_gather(const void *from, const struct mt_strided *how, size_t item, int64_t first,
                       int64_t count, void *to);

/* The other way round. */
void mt_strided_scatter(void *to, const struct mt_strided *how, size_t item, int64_t first, int64_t count,
                        const void *from);

#endif
