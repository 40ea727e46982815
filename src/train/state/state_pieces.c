/* Names with ranges, read strictly: what only looks like one is a tensor of that whole name. */
#include "train/state/state_pieces.h"

#include <stdlib.h>
#include <string.h>

/* Digits without leading zeros, then `end`; *next is behind it. */
static bool read_number(const char *text, char end, int64_t *value, const char **next)
{
    int64_t sum = 0;
    const char *c = text;
    for (; *c >= '0' && *c <= '9' && sum < INT64_MAX / 10 - 1; c++) sum = 10 * sum + (*c - '0');
    *value = sum;
    *next = c + 1;
    return c > text && (*text != '0' || c == text + 1) && *c == end;
}

static struct mt_state_piece piece_of(const struct mt_safetensors_tensor *stored)
{
    int64_t count = (int64_t)(stored->bytes / mt_safetensors_dtype_bytes(stored->dtype));
    const struct mt_state_piece whole = {
        .stored = stored, .name_length = strlen(stored->name), .count = count, .whole = true};
    const char *range = strrchr(stored->name, '[');
    const char *next = NULL;
    int64_t first = 0;
    int64_t end = 0;
    if (range == NULL || stored->rank != 1 || !read_number(range + 1, ':', &first, &next)) return whole;
    if (!read_number(next, ']', &end, &next) || *next != '\0' || end - first != count) return whole;
    return (struct mt_state_piece){
        .stored = stored, .name_length = (size_t)(range - stored->name), .first = first, .count = count};
}

static int compare_name(const struct mt_state_piece *piece, const char *name, size_t length)
{
    size_t shared = piece->name_length < length ? piece->name_length : length;
    int order = memcmp(piece->stored->name, name, shared);
    return order != 0 ? order : (piece->name_length > length) - (piece->name_length < length);
}

static int compare_pieces(const void *left, const void *right)
{
    const struct mt_state_piece *a = left;
    const struct mt_state_piece *b = right;
    int order = compare_name(a, b->stored->name, b->name_length);
    return order != 0 ? order : (a->first > b->first) - (a->first < b->first);
}

enum mt_status mt_state_pieces_list(struct mt_arena *arena, const char *path,
                                    const struct mt_safetensors *files, size_t file_count,
                                    struct mt_state_pieces *pieces)
{
    enum mt_status status = MT_OK;
    size_t count = 0;
    for (size_t i = 0; i < file_count; i++) count += files[i].tensor_count;
    *pieces = (struct mt_state_pieces){.path = path};
    pieces->list = mt_arena_array(arena, count, sizeof *pieces->list, &status);
    for (size_t i = 0; i < file_count && status == MT_OK; i++) {
        for (size_t k = 0; k < files[i].tensor_count; k++)
            pieces->list[pieces->count++] = piece_of(&files[i].tensors[k]);
    }
    if (pieces->count > 0) qsort(pieces->list, pieces->count, sizeof *pieces->list, compare_pieces);
    return status;
}

const struct mt_state_piece *mt_state_pieces_find(const struct mt_state_pieces *pieces, const char *name,
                                                  size_t *count)
{
    size_t length = strlen(name);
    size_t low = 0;
    size_t high = pieces->count;
    while (low < high) { // the first that does not come before the name
        size_t middle = low + (high - low) / 2;
        bool before = compare_name(&pieces->list[middle], name, length) < 0;
        if (before) low = middle + 1;
        if (!before) high = middle;
    }
    *count = 0;
    while (low + *count < pieces->count && compare_name(&pieces->list[low + *count], name, length) == 0)
        (*count)++;
    return *count > 0 ? &pieces->list[low] : NULL;
}
