/* Rows in blocks: of a transposed matrix the elements of neighbouring rows share a line of the cache. */
#include "formats/safetensors/strided.h"

#include <stdbool.h>
#include <string.h>

#define BLOCK_ROWS 32

/* One side of a copy: where it begins, and bytes to the next row and the next element. */
struct side {
    char *at;
    int64_t row, element;
};

static void copy_items(struct side to, struct side from, size_t item, int64_t rows, int64_t columns)
{
    for (int64_t column = 0; column < columns; column++) {
        for (int64_t row = 0; row < rows; row++) {
            char *target = to.at + row * to.row;
            const char *source = from.at + row * from.row;
            switch (item) { // of a constant size: one move each
            case 1: *target = *source; break;
            case 2: memcpy(target, source, 2); break;
            case 4: memcpy(target, source, 4); break;
            default: memcpy(target, source, item); break;
            }
        }
        to.at += to.element;
        from.at += from.element;
    }
}

static void copy_rows(struct side to, struct side from, size_t item, int64_t rows, int64_t columns)
{
    int64_t whole = (int64_t)item;
    for (int64_t row = 0; row < rows; row += BLOCK_ROWS) {
        int64_t count = rows - row < BLOCK_ROWS ? rows - row : BLOCK_ROWS;
        if (to.element == whole && from.element == whole) { // elements of a row follow each other
            for (int64_t i = 0; i < count; i++)
                memcpy(to.at + i * to.row, from.at + i * from.row, (size_t)(columns * whole));
        } else {
            copy_items(to, from, item, count, columns);
        }
        to.at += count * to.row;
        from.at += count * from.row;
    }
}

/* Elements first … of the matrix at `matrix`, and those at `flat`, which follow each other. */
static void copy(void *matrix, void *flat, const struct mt_strided *how, size_t item, int64_t first,
                 int64_t count, bool gather)
{
    int64_t columns = how->columns;
    struct side in_order = {.at = flat, .row = columns * (int64_t)item, .element = (int64_t)item};
    while (count > 0) {
        int64_t column = first % columns;
        int64_t rows = column == 0 && count >= columns ? count / columns : 1;
        int64_t across = rows > 1 || columns - column < count ? columns - column : count;
        struct side apart = {.at = (char *)matrix + first / columns * how->row + column * how->element,
                             .row = how->row,
                             .element = how->element};
        copy_rows(gather ? in_order : apart, gather ? apart : in_order, item, rows, across);
        first += rows * across;
        count -= rows * across;
        in_order.at += rows * across * (int64_t)item;
    }
}

void mt_strided_gather(const void *from, const struct mt_strided *how, size_t item, int64_t first,
                       int64_t count, void *to)
{
    copy((void *)from, to, how, item, first, count, true); // `from` is only read
}

void mt_strided_scatter(void *to, const struct mt_strided *how, size_t item, int64_t first, int64_t count,
                        const void *from)
{
    copy(to, (void *)from, how, item, first, count, false); // `from` is only read
}
