/* Reading compare.json, with suspicion. */
#include "compare/board/cells.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "formats/text/json.h"

#define ARENA_BLOCK_BYTES 65536
#define NAME_BYTES        128 // longer names are cut
#define LINE_BYTES        (NAME_BYTES + 64)

void mt_board_init(struct mt_board *board, struct mt_context *ctx)
{
    *board = (struct mt_board){.ctx = ctx, .metrics = MT_COMPARE_FIGURES};
    mt_arena_init(&board->arena, ctx, ARENA_BLOCK_BYTES);
    for (int i = 0; i < MT_COMPARE_FIGURES; i++)
        board->metric[i].row = *mt_compare_figure_row((enum mt_compare_figure)i);
}

void mt_board_free(struct mt_board *board)
{
    if (board->ctx == NULL) return;
    mt_release(board->ctx, board->cell, board->capacity * sizeof(struct mt_board_cell *));
    mt_arena_free(&board->arena);
    *board = (struct mt_board){0};
}

/* Cut at NAME_BYTES; half a character at its end is made sound by the page. */
static enum mt_status copy_name(struct mt_board *board, const char *name, const char **copy)
{
    return mt_arena_copy_text(&board->arena, name, strnlen(name, NAME_BYTES), copy);
}

/* A metric that is none of the fixed figures, by its title; made where it is new. */
static enum mt_status find_metric(struct mt_board *board, const struct mt_json_node *node, const char *title,
                                  bool probe, size_t *found)
{
    size_t i = MT_COMPARE_FIGURES;
    const char *copy = NULL;
    while (i < board->metrics && strcmp(board->metric[i].row.title, title) != 0) i++;
    *found = i;
    if (i < board->metrics) return MT_OK;
    if (board->metrics == MT_BOARD_METRICS)
        return mt_json_fail(node, "makes more than %d metrics; give fewer files", MT_BOARD_METRICS);
    enum mt_status status = mt_arena_copy_text(&board->arena, title, strlen(title), &copy);
    if (status != MT_OK) return status;
    board->metric[board->metrics++] = (struct mt_board_metric){
        .row = {.name = copy, .title = copy, .formula = "", .better = 1, .factor = 100.0, .decimals = 1},
        .probe = probe};
    return MT_OK;
}

/* A number or null of a metric. */
static enum mt_status take(struct mt_board *board, const struct mt_json_node *node, size_t metric,
                           struct mt_board_cell *cell)
{
    if (mt_json_kind(node) == MT_JSON_NULL) return MT_OK;
    enum mt_status status = mt_json_as_real(node, -1e300, 1e300, &cell->value[metric]);
    if (status == MT_OK) board->metric[metric].found = true;
    return status;
}

/* "figures" and "times": those that are known here. */
static enum mt_status take_figures(struct mt_board *board, const struct mt_json_node *root, const char *key,
                                   struct mt_board_cell *cell)
{
    struct mt_json_node object, child;
    enum mt_status status = mt_json_get_object(root, key, &object);
    for (size_t i = 0; i < MT_COMPARE_FIGURES && status == MT_OK; i++) {
        if (mt_json_member(&object, board->metric[i].row.name, &child)) status = take(board, &child, i, cell);
    }
    return status;
}

/* Whether experts are kept by another score than the first that a file has: "use_own_25%" after
 * "reap_own_25%". A board shows one score; with all a few files would fill it. */
static bool is_other_score(const char *first, const char *name)
{
    size_t length = strcspn(first, "_");
    return first[length] == '_' && strncmp(first, name, length + 1) != 0;
}

/* Objects by name, each with a number: "tasks" (value), "pruned", "evaluated_at" (accuracy). */
static enum mt_status take_named(struct mt_board *board, const struct mt_json_node *root, const char *key,
                                 const char *number, const char *format, struct mt_board_cell *cell)
{
    struct mt_json_node object, one, child;
    const char *first = NULL;
    bool present = false;
    bool probe = strcmp(number, "accuracy") == 0;
    enum mt_status status = mt_json_optional_object(root, key, &object, &present);
    if (status != MT_OK || !present) return status;
    for (void *position = NULL; status == MT_OK && mt_json_next(&object, &position, &one);) {
        char title[LINE_BYTES];
        size_t metric = 0;
        if (first == NULL) first = one.key;
        if (probe && is_other_score(first, one.key)) continue;
        bool kept = probe && strchr(one.key, '_') != NULL; // "reap_own_25%": these stay
        (void)snprintf(title, sizeof title, "%.*s%s", NAME_BYTES, one.key, kept ? " kept %" : format);
        status = mt_json_expect_object(&one);
        if (status == MT_OK) status = find_metric(board, &one, title, probe, &metric);
        if (status == MT_OK && !mt_json_member(&one, number, &child))
            status = mt_json_fail(&one, "has no %s", number);
        if (status == MT_OK) status = take(board, &child, metric, cell);
    }
    return status;
}

static enum mt_status make_room(struct mt_board *board)
{
    void *memory = NULL;
    if (board->cells < board->capacity) return MT_OK;
    size_t capacity = board->capacity > 0 ? 2 * board->capacity : 64;
    enum mt_status status = mt_allocate_array(board->ctx, capacity, sizeof(struct mt_board_cell *), &memory);
    if (status != MT_OK) return status;
    if (board->cells > 0) memcpy(memory, board->cell, board->cells * sizeof(struct mt_board_cell *));
    mt_release(board->ctx, board->cell, board->capacity * sizeof(struct mt_board_cell *));
    board->cell = memory;
    board->capacity = capacity;
    return MT_OK;
}

static enum mt_status add_cell(struct mt_board *board, struct mt_board_cell **cell)
{
    enum mt_status status = make_room(board);
    *cell = mt_arena_array(&board->arena, 1, sizeof **cell, &status);
    double *values = mt_arena_array(&board->arena, MT_BOARD_METRICS, sizeof *values, &status);
    if (status != MT_OK) return status;
    (*cell)->value = values;
    for (int i = 0; i < MT_BOARD_METRICS; i++) (*cell)->value[i] = (double)NAN;
    board->cell[board->cells++] = *cell;
    return MT_OK;
}

static enum mt_status read_cell(struct mt_board *board, const struct mt_json_node *node, const char *source)
{
    struct mt_board_cell *cell = NULL;
    const char *base = NULL;
    const char *domain = NULL;
    const char *method = NULL;
    double seed = 0.0;
    bool known = false;
    enum mt_status status = mt_json_expect_object(node);
    if (status == MT_OK) status = mt_json_get_string(node, "model", &base);
    if (status == MT_OK) status = mt_json_get_string(node, "domain", &domain);
    if (status == MT_OK) status = mt_json_get_string(node, "method", &method);
    if (status == MT_OK) status = mt_json_get_real(node, "seed", 0.0, 1e300, &seed);
    if (status == MT_OK) status = mt_json_get_bool(node, "known", &known);
    if (status == MT_OK && !known) board->missing++;
    if (status != MT_OK || !known) return status;
    if (board->cells >= MT_BOARD_CELLS) return mt_json_fail(node, "is more than cell %d", MT_BOARD_CELLS);
    status = add_cell(board, &cell);
    if (status != MT_OK) return status;
    cell->source = source;
    cell->seed = seed;
    status = copy_name(board, base, &cell->base);
    if (status == MT_OK) status = copy_name(board, domain, &cell->domain);
    if (status == MT_OK) status = copy_name(board, method, &cell->method);
    if (status == MT_OK) status = take_figures(board, node, "figures", cell);
    if (status == MT_OK) status = take_figures(board, node, "times", cell);
    if (status == MT_OK) status = take_named(board, node, "tasks", "value", " %", cell);
    if (status == MT_OK) status = take_named(board, node, "pruned", "accuracy", " experts fewer %", cell);
    if (status == MT_OK) status = take_named(board, node, "evaluated_at", "accuracy", " steps %", cell);
    return status;
}

enum mt_status mt_board_read(struct mt_board *board, const char *path, const char *source)
{
    struct mt_json json = {0};
    const char *name = NULL;
    const char *reference = "aux"; // of files that name none
    size_t before = board->cells;
    enum mt_status status = mt_json_read(board->ctx, path, &mt_json_file_limits, &json);
    if (status != MT_OK) return status;
    struct mt_json_node root = mt_json_root(&json);
    struct mt_json_node cells;
    status = mt_json_expect_object(&root);
    if (status == MT_OK && !mt_json_has(&root, "cells"))
        status = mt_fail(board->ctx, MT_ERR_FORMAT, "%.600s: is not a compare.json: it has no cells", path);
    if (status == MT_OK) status = mt_json_get_array(&root, "cells", &cells);
    if (status == MT_OK && mt_json_has(&root, "reference"))
        status = mt_json_get_string(&root, "reference", &reference);
    if (status == MT_OK) status = copy_name(board, reference, &reference);
    if (status == MT_OK) status = copy_name(board, source, &name);
    for (size_t i = 0; status == MT_OK && i < mt_json_count(&cells); i++) {
        struct mt_json_node node = mt_json_element(&cells, i);
        status = read_cell(board, &node, name);
    }
    if (status == MT_OK) status = mt_arena_copy_text(&board->arena, path, strlen(path), &path);
    for (size_t i = before; i < board->cells; i++) {
        board->cell[i]->reference = reference;
        board->cell[i]->path = path;
    }
    board->sources++;
    mt_json_free(&json);
    return status;
}
