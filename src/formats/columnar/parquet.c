/*
 * Parquet files: the footer, row groups, and rows put together from the columns' values.
 *
 * A column is a list of values with two levels each (Dremel's). The definition level says how much of the
 * path to the value is there, the repetition level which list goes on with it. A row is written by walking
 * down the schema with all columns at hand, one value each: no row group is ever held as a whole.
 */
#include "formats/columnar/parquet.h"

#include <string.h>

#include "formats/columnar/columnar.h"
#include "formats/columnar/value_text.h"

#define MAGIC_BYTES  4
#define FOOTER_BYTES 8 // its length, and the magic

struct parquet {
    struct mt_context *ctx;
    struct mt_row_text *out;
    const struct mt_file_mapping *file;
    bool mapped;
    const uint8_t *data;
    uint64_t columns_end; // where the footer begins
    struct mt_arena arena;
    struct mt_parquet_schema schema;
    size_t leaf_room;        // of schema.leaves
    struct mt_thrift groups; // at the first row group
    size_t group_count;
    int64_t rows; // of the file, as the footer has it
    bool has_rows;
};

static enum mt_status fail(const struct parquet *parquet, const char *problem)
{
    return mt_fail(parquet->ctx, MT_ERR_FORMAT, "%s: %s", parquet->out->file, problem);
}

// ------------------------------------------------------------------ rows

static enum mt_status write_node(struct parquet *parquet, const struct mt_parquet_node *node, bool as_key);

/* Steps all columns below a place of which nothing is there. */
static enum mt_status step_over(struct parquet *parquet, const struct mt_parquet_node *node, unsigned defined)
{
    enum mt_status status = MT_OK;
    for (size_t i = 0; i < node->leaf_count && status == MT_OK; i++) {
        struct mt_parquet_leaf *leaf = &parquet->schema.leaves[node->first_leaf + i];
        if (leaf->ended || leaf->definition >= defined)
            return mt_parquet_fail(leaf, "does not fit the other columns");
        status = mt_parquet_leaf_step(leaf);
    }
    return status;
}

/* Whether the list goes on; all its columns must agree. */
static enum mt_status has_more(const struct parquet *parquet, const struct mt_parquet_node *node, bool *more)
{
    const struct mt_parquet_leaf *first = &parquet->schema.leaves[node->first_leaf];
    *more = !first->ended && first->repetition == node->repeated;
    for (size_t i = 0; i < node->leaf_count; i++) {
        const struct mt_parquet_leaf *leaf = &first[i];
        bool goes_on = !leaf->ended && leaf->repetition == node->repeated;
        if (goes_on != *more || leaf->repetition > node->repeated)
            return mt_parquet_fail(leaf, "does not fit the other columns");
    }
    return MT_OK;
}

static enum mt_status write_items(struct parquet *parquet, const struct mt_parquet_node *node)
{
    bool map = node->kind == MT_PARQUET_MAP;
    bool more = true;
    enum mt_status status = mt_row_text_add(parquet->out, map ? "{" : "[", 1);
    for (bool first = true; more && status == MT_OK; first = false) {
        if (!first) status = mt_row_text_add(parquet->out, ",", 1);
        if (status == MT_OK) status = write_node(parquet, node->child, map);
        if (status == MT_OK && map) status = mt_row_text_add(parquet->out, ":", 1);
        if (status == MT_OK && map) status = write_node(parquet, node->child->next, false);
        if (status == MT_OK) status = has_more(parquet, node, &more);
    }
    return status == MT_OK ? mt_row_text_add(parquet->out, map ? "}" : "]", 1) : status;
}

static enum mt_status write_members(struct parquet *parquet, const struct mt_parquet_node *node)
{
    enum mt_status status = mt_row_text_add(parquet->out, "{", 1);
    for (const struct mt_parquet_node *child = node->child; child != NULL && status == MT_OK;
         child = child->next) {
        status = mt_row_text_member(parquet->out, child == node->child, child->name, child->name_bytes);
        if (status == MT_OK) status = write_node(parquet, child, false);
    }
    return status == MT_OK ? mt_row_text_add(parquet->out, "}", 1) : status;
}

static enum mt_status write_leaf(struct parquet *parquet, struct mt_parquet_leaf *leaf, bool as_key)
{
    struct mt_value value = {0};
    enum mt_status status = mt_parquet_leaf_value(leaf, &value);
    if (status == MT_OK) status = mt_row_text_value(parquet->out, &leaf->type, &value, as_key);
    return status == MT_OK ? mt_parquet_leaf_step(leaf) : status;
}

static enum mt_status write_node(struct parquet *parquet, const struct mt_parquet_node *node, bool as_key)
{
    static const struct mt_value_type null = {.kind = MT_VALUE_NULL};
    struct mt_parquet_leaf *first = &parquet->schema.leaves[node->first_leaf];
    bool items = node->kind == MT_PARQUET_LIST || node->kind == MT_PARQUET_MAP;
    if (first->ended) return mt_parquet_fail(first, "ends before the last row");
    if (first->definition < node->defined) {
        enum mt_status status = mt_row_text_value(parquet->out, &null, &(struct mt_value){0}, as_key);
        return status == MT_OK ? step_over(parquet, node, node->defined) : status;
    }
    if (items && first->definition < node->filled) {
        enum mt_status status = mt_row_text_add(parquet->out, node->kind == MT_PARQUET_MAP ? "{}" : "[]", 2);
        return status == MT_OK ? step_over(parquet, node, node->filled) : status;
    }
    if (items) return write_items(parquet, node);
    return node->kind == MT_PARQUET_LEAF ? write_leaf(parquet, first, as_key) : write_members(parquet, node);
}

static enum mt_status write_rows(struct parquet *parquet, int64_t rows)
{
    enum mt_status status = MT_OK;
    for (int64_t i = 0; i < rows && status == MT_OK; i++) {
        for (size_t k = 0; k < parquet->schema.leaf_count; k++) {
            const struct mt_parquet_leaf *leaf = &parquet->schema.leaves[k];
            if (leaf->ended) return mt_parquet_fail(leaf, "ends before the last row");
            if (leaf->repetition != 0) return mt_parquet_fail(leaf, "has a row that begins within a list");
        }
        status = write_members(parquet, parquet->schema.root);
        if (status == MT_OK) status = mt_row_text_end(parquet->out);
    }
    for (size_t k = 0; k < parquet->schema.leaf_count && status == MT_OK; k++) {
        if (!parquet->schema.leaves[k].ended)
            status =
                mt_parquet_fail(&parquet->schema.leaves[k], "has more values than its row group has rows");
    }
    return status;
}

// ------------------------------------------------------------------ row groups

struct chunk {
    int64_t codec;
    int64_t values;
    int64_t physical;
    int64_t data_offset;
    int64_t dictionary_offset;
    bool known;     // it has metadata
    bool elsewhere; // in another file
    bool encrypted;
};

static void read_chunk_data(struct mt_thrift *thrift, struct chunk *chunk)
{
    struct mt_thrift_field field = {0};
    chunk->known = true;
    while (mt_thrift_next(thrift, &field)) {
        switch (field.id) {
        case 1: chunk->physical = mt_thrift_whole(thrift, &field); break;
        case 4: chunk->codec = mt_thrift_whole(thrift, &field); break;
        case 5: chunk->values = mt_thrift_whole(thrift, &field); break;
        case 9: chunk->data_offset = mt_thrift_whole(thrift, &field); break;
        case 11: chunk->dictionary_offset = mt_thrift_whole(thrift, &field); break;
        default: mt_thrift_skip(thrift, &field);
        }
    }
}

static void read_chunk(struct mt_thrift *thrift, struct chunk *chunk)
{
    struct mt_thrift_field field = {0};
    *chunk = (struct chunk){.physical = -1};
    while (mt_thrift_next(thrift, &field)) {
        size_t bytes = 0;
        switch (field.id) {
        case 1:
            (void)mt_thrift_bytes(thrift, &field, &bytes);
            chunk->elsewhere = bytes > 0;
            break;
        case 3:
            if (mt_thrift_struct(thrift, &field)) read_chunk_data(thrift, chunk);
            break;
        case 8:
        case 9:
            chunk->encrypted = true;
            mt_thrift_skip(thrift, &field);
            break;
        default: mt_thrift_skip(thrift, &field);
        }
    }
}

static enum mt_status find_packing(struct mt_parquet_leaf *leaf, int64_t codec)
{
    // By Parquet's numbers; what is missing here has a name there.
    static const char *const others[] = {[3] = "LZO", [4] = "BROTLI", [5] = "LZ4 in Hadoop's frames"};
    switch (codec) {
    case 0: leaf->packing = MT_PACKING_NONE; return MT_OK;
    case 1: leaf->packing = MT_PACKING_SNAPPY; return MT_OK;
    case 2: leaf->packing = MT_PACKING_GZIP; return MT_OK;
    case 6: leaf->packing = MT_PACKING_ZSTD; return MT_OK;
    case 7: leaf->packing = MT_PACKING_LZ4_RAW; return MT_OK;
    default:
        if (codec >= 3 && codec <= 5)
            return mt_parquet_fail(leaf, "is compressed with %s, which is not read", others[codec]);
        return mt_parquet_fail(leaf, "is compressed in an unknown way: %lld", (long long)codec);
    }
}

static enum mt_status start_chunk(const struct parquet *parquet, struct mt_parquet_leaf *leaf,
                                  const struct chunk *chunk)
{
    if (chunk->encrypted) return mt_parquet_fail(leaf, "is encrypted");
    if (chunk->elsewhere) return mt_parquet_fail(leaf, "is in another file");
    if (!chunk->known || chunk->values < 0 || chunk->physical != (int64_t)leaf->physical)
        return mt_parquet_fail(leaf, "differs in a row group");
    if (chunk->values == 0) { // its pages may be nowhere
        leaf->chunk_left = 0;
        return mt_parquet_leaf_start(leaf);
    }
    int64_t start = chunk->data_offset;
    if (chunk->dictionary_offset > 0 && chunk->dictionary_offset < start) start = chunk->dictionary_offset;
    if (start < MAGIC_BYTES || (uint64_t)start > parquet->columns_end)
        return mt_parquet_fail(leaf, "begins at byte %lld, outside of the columns", (long long)start);
    leaf->file = parquet->mapped ? parquet->file : NULL;
    leaf->at = parquet->data + start;
    leaf->end = parquet->data + parquet->columns_end;
    leaf->chunk_left = (uint64_t)chunk->values;
    enum mt_status status = find_packing(leaf, chunk->codec);
    return status == MT_OK ? mt_parquet_leaf_start(leaf) : status;
}

/* Reads the columns' places and, when the group's rows are known, writes them. */
static enum mt_status read_group(struct parquet *parquet)
{
    struct mt_thrift *thrift = &parquet->groups;
    struct mt_thrift_field field = {0};
    enum mt_status status = MT_OK;
    int64_t rows = -1;
    size_t columns = 0;
    while (status == MT_OK && mt_thrift_next(thrift, &field)) {
        if (field.id == 3) {
            rows = mt_thrift_whole(thrift, &field);
        } else if (field.id == 1) {
            columns = mt_thrift_structs(thrift, &field);
            if (columns != parquet->schema.leaf_count)
                return fail(parquet, "a row group has other columns than the schema");
            for (size_t i = 0; i < columns && status == MT_OK; i++) {
                struct chunk chunk;
                read_chunk(thrift, &chunk);
                if (!thrift->broken) status = start_chunk(parquet, &parquet->schema.leaves[i], &chunk);
            }
        } else {
            mt_thrift_skip(thrift, &field);
        }
    }
    if (status != MT_OK) return status;
    if (thrift->broken || rows < 0 || columns == 0)
        return fail(parquet, "a row group's description is cut off or damaged");
    return write_rows(parquet, rows);
}

// ------------------------------------------------------------------ the footer

/* Room for the columns: no more than the schema has elements. */
static enum mt_status make_leaves(struct parquet *parquet, size_t elements)
{
    void *leaves = NULL;
    parquet->leaf_room = elements < MT_PARQUET_MOST_LEAVES ? elements : MT_PARQUET_MOST_LEAVES;
    enum mt_status status =
        mt_allocate_array(parquet->ctx, parquet->leaf_room, sizeof(struct mt_parquet_leaf), &leaves);
    if (status == MT_OK) parquet->schema.leaves = leaves;
    return status;
}

static enum mt_status read_footer(struct parquet *parquet, struct mt_thrift *thrift)
{
    struct mt_thrift_field field = {0};
    enum mt_status status = MT_OK;
    bool has_schema = false;
    while (status == MT_OK && mt_thrift_next(thrift, &field)) {
        switch (field.id) {
        case 2: {
            size_t count = mt_thrift_structs(thrift, &field);
            if (has_schema || thrift->broken) return fail(parquet, "its footer is damaged");
            status = make_leaves(parquet, count);
            if (status != MT_OK) return status;
            status = mt_parquet_schema_read(thrift, count, parquet->out, &parquet->arena, &parquet->schema);
            has_schema = true;
            break;
        }
        case 3:
            parquet->rows = mt_thrift_whole(thrift, &field);
            parquet->has_rows = true;
            break;
        case 4: {
            // Read later, one by one; here only stepped over.
            struct mt_thrift ahead = *thrift;
            parquet->group_count = mt_thrift_structs(&ahead, &field);
            parquet->groups = ahead;
            mt_thrift_skip(thrift, &field);
            break;
        }
        default: mt_thrift_skip(thrift, &field);
        }
    }
    if (status != MT_OK) return status;
    if (thrift->broken || !has_schema || !parquet->has_rows || parquet->rows < 0)
        return fail(parquet, "its footer is cut off or damaged");
    return MT_OK;
}

static enum mt_status find_footer(struct parquet *parquet, struct mt_thrift *thrift)
{
    uint64_t bytes = parquet->file->bytes;
    const uint8_t *data = parquet->data;
    if (bytes < MAGIC_BYTES + FOOTER_BYTES ||
        (memcmp(data, "PAR1", MAGIC_BYTES) != 0 && memcmp(data, "PARE", MAGIC_BYTES) != 0))
        return fail(parquet, "is no Parquet file");
    const uint8_t *end = data + bytes - FOOTER_BYTES;
    if (memcmp(end + 4, "PARE", MAGIC_BYTES) == 0)
        return fail(parquet, "its footer, and so every column, is encrypted");
    if (memcmp(end + 4, "PAR1", MAGIC_BYTES) != 0)
        return fail(parquet, "does not end as a Parquet file: is it whole?");
    uint64_t length =
        (uint64_t)end[0] | (uint64_t)end[1] << 8 | (uint64_t)end[2] << 16 | (uint64_t)end[3] << 24;
    if (length > bytes - MAGIC_BYTES - FOOTER_BYTES)
        return fail(parquet, "its footer is longer than the file");
    parquet->columns_end = bytes - FOOTER_BYTES - length;
    *thrift = (struct mt_thrift){.at = data + parquet->columns_end, .end = end};
    return MT_OK;
}

static enum mt_status read_all(struct parquet *parquet)
{
    struct mt_thrift thrift = {0};
    enum mt_status status = find_footer(parquet, &thrift);
    if (status == MT_OK) status = read_footer(parquet, &thrift);
    uint64_t before = parquet->out->rows;
    for (size_t i = 0; i < parquet->group_count && status == MT_OK; i++) status = read_group(parquet);
    if (status == MT_OK && parquet->out->rows - before != (uint64_t)parquet->rows)
        return mt_fail(parquet->ctx, MT_ERR_FORMAT, "%s: has %llu rows, its footer says %lld",
                       parquet->out->file, (unsigned long long)(parquet->out->rows - before),
                       (long long)parquet->rows);
    return status;
}

enum mt_status mt_parquet_rows(const struct mt_file_mapping *file, bool mapped, struct mt_row_text *out)
{
    struct parquet parquet = {
        .ctx = out->ctx, .out = out, .file = file, .mapped = mapped, .data = file->data};
    struct mt_parquet_schema *schema = &parquet.schema;
    mt_arena_init(&parquet.arena, out->ctx, 1 << 16);
    enum mt_status status = read_all(&parquet);
    for (size_t i = 0; i < schema->leaf_count; i++) mt_parquet_leaf_free(&schema->leaves[i]);
    mt_release(out->ctx, schema->leaves, parquet.leaf_room * sizeof *schema->leaves);
    mt_arena_free(&parquet.arena);
    return status;
}
