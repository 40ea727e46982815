/*
 * How attention cuts its work: into tiles of queries, and for each tile into blocks of keys. The cuts
 * depend on the shapes alone, counted from each sequence's own start: a sequence gives the same bits
 * alone, packed with others, and with any number of threads.
 *
 * The query heads that read one key head (a group) are stacked: row r of a tile is query r / group of
 * head r % group. All of them see the same keys, and fewer, longer products come out.
 */
#ifndef MT_OPS_CPU_ATTENTION_TILES_H
#define MT_OPS_CPU_ATTENTION_TILES_H

#include "ops/cpu/level.h"

#define QUERY_ROWS   192 // stacked queries of a tile
#define KEY_COLUMNS  256 // keys of a tile, and the most a block has
#define EDGE_COLUMNS 64  // keys of a block where the causal edge crosses it

/* What every tile of a call has in common. */
struct attention_shape {
    int64_t q_heads;
    int64_t kv_heads;
    int64_t group;       // query heads per key head
    int64_t width;       // D
    int64_t value_width; // Dv
    int64_t queries;     // of a full tile
    int64_t rows;        // of a full tile: queries · group
    int64_t window;      // 0: unlimited
    int64_t sequences;
    const int32_t *q_offsets; // [sequences+1]
    const int32_t *k_offsets; // [sequences+1]
    const int32_t *k_starts;  // [sequences], or NULL: at the offsets
};

/* A piece of a sequence: a tile of its queries, or of its keys. */
struct sequence_piece {
    int32_t sequence;
    int32_t first; // within the sequence
};

/* A tile of queries of one sequence. Keys are counted from the sequence's first. */
struct query_tile {
    int64_t q_first;  // row of q
    int64_t queries;  // in this tile
    int64_t k_first;  // row of k of the sequence's first key
    int64_t position; // of the tile's first query among the keys; negative: before the first key
    int64_t key_low;  // the keys that some query sees: [key_low, key_high)
    int64_t key_high;
};

/* A rectangle of a tile: keys [key, key+keys) against the queries that see any of them. */
struct key_block {
    int64_t key;
    int64_t keys;
    int64_t row; // first row, a multiple of group
    int64_t rows;
};

static inline int64_t attention_max(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

static inline struct attention_shape attention_shape_of(const struct mt_tensor *q, const struct mt_tensor *k,
                                                        const struct mt_tensor *v,
                                                        const struct mt_tensor *q_offsets,
                                                        const struct mt_tensor *k_offsets, int window)
{
    struct attention_shape shape = {
        .q_heads = q->dim[1],
        .kv_heads = k->dim[1],
        .group = q->dim[1] / k->dim[1],
        .width = q->dim[2],
        .value_width = v->dim[2],
        .window = window,
        .sequences = q_offsets->dim[0] - 1,
        .q_offsets = q_offsets->data,
        .k_offsets = k_offsets->data,
    };
    shape.queries = attention_max(1, QUERY_ROWS / shape.group);
    shape.rows = shape.queries * shape.group;
    return shape;
}

static inline struct query_tile attention_tile(const struct attention_shape *shape,
                                               struct sequence_piece piece)
{
    int64_t q_start = shape->q_offsets[piece.sequence];
    int64_t queries = shape->q_offsets[piece.sequence + 1] - q_start;
    int64_t k_offset = shape->k_offsets[piece.sequence];
    int64_t keys = shape->k_offsets[piece.sequence + 1] - k_offset;
    struct query_tile tile = {
        .q_first = q_start + piece.first,
        .queries = cpu_min(shape->queries, queries - piece.first),
        .k_first = shape->k_starts != NULL ? shape->k_starts[piece.sequence] : k_offset,
        .position = piece.first + keys - queries,
    };
    tile.key_low = shape->window > 0 ? attention_max(0, tile.position - shape->window + 1) : 0;
    tile.key_high = attention_max(0, tile.position + tile.queries);
    return tile;
}

/*
 * The block of the tile that starts at `key`. It ends with its tile of keys, and where the causal edge
 * crosses it after EDGE_COLUMNS, so that little is computed only to be masked.
 */
static inline struct key_block attention_block(const struct attention_shape *shape,
                                               const struct query_tile *tile, int64_t key)
{
    int64_t end = cpu_min(tile->key_high, (key / KEY_COLUMNS + 1) * KEY_COLUMNS);
    end = cpu_min(end, attention_max(key, tile->position) + EDGE_COLUMNS);
    int64_t first_query = attention_max(0, key - tile->position);
    int64_t end_query = tile->queries;
    if (shape->window > 0) end_query = cpu_min(end_query, end - 1 + shape->window - tile->position);
    return (struct key_block){
        .key = key,
        .keys = end - key,
        .row = first_query * shape->group,
        .rows = (end_query - first_query) * shape->group,
    };
}

/* The columns of the block that row `row` of the tile sees: never none. */
static inline void attention_columns(const struct attention_shape *shape, const struct query_tile *tile,
                                     const struct key_block *block, int64_t row, int64_t *first, int64_t *end)
{
    int64_t position = tile->position + row / shape->group;
    *first = shape->window > 0 ? attention_max(0, position - shape->window + 1 - block->key) : 0;
    *end = cpu_min(block->keys, position + 1 - block->key);
}

/* Most pieces a cut into `step` rows can give; for scratch. */
static inline size_t attention_pieces_bytes(int64_t rows, int64_t sequences, int64_t step)
{
    return (size_t)(rows / step + sequences + 1) * sizeof(struct sequence_piece);
}

/*
 * Cuts every sequence into pieces of `step` rows; returns how many. Later pieces of a sequence come
 * first: as query tiles they see more keys, and long work is best begun early.
 */
static inline int64_t attention_cut(const int32_t *offsets, int64_t sequences, int64_t step,
                                    struct sequence_piece *pieces)
{
    int64_t count = 0;
    for (int64_t b = 0; b < sequences; b++) {
        int64_t rows = offsets[b + 1] - offsets[b];
        for (int64_t piece = (rows + step - 1) / step - 1; piece >= 0; piece--) {
            pieces[count++] = (struct sequence_piece){(int32_t)b, (int32_t)(piece * step)};
        }
    }
    return count;
}

#endif
