/*
 * The rows that bench/moe-lora measured as a Markdown table, and as a picture of tokens a second.
 *
 *     moe_lora_table CONFIGS ROWS.jsonl [FOLDER]
 *
 * CONFIGS holds SHAPE.json; FOLDER gets moe-lora.svg. A measurement that is there several times counts
 * with the median of its seconds; the last one says how it went. TFLOP/s are 4·N·T: N weights of linear
 * layers that a token meets (the head counts, the embedding does not), twice two operations for each of T
 * tokens, since weights get no gradients. Attention's scores, LoRA's pairs and recomputation are not counted.
 */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "arch/model_count.h"
#include "formats/text/json.h"
#include "median.h"
#include "report/render.h"

enum { MOST_CELLS = 256, MOST_TURNS = 64, NAME_BYTES = 32, LINE_BYTES = 4096 };

#define GIB 1073741824.0

static const char *const sides[] = {"metier", "torch", "compiled", "peft"};
enum { SIDES = sizeof sides / sizeof sides[0] };

/* One side's measurements of one step. */
struct cell {
    char shape[NAME_BYTES], side[NAME_BYTES], recompute[NAME_BYTES], status[320];
    int64_t layers, length, tokens, rank;
    double dropout;
    double seconds[MOST_TURNS];
    int turns; // 0: it never ran
    double bytes;
};

struct table {
    struct mt_context *ctx;
    const char *configs;
    struct cell cell[MOST_CELLS];
    size_t count;
};

/* What a cell says, worked out. */
struct figures {
    double rate, teraflops, gib; // tokens a second of the whole model
    bool scaled;                 // from fewer layers, by the operations
};

// ------------------------------------------------------------------ reading

static enum mt_status copy_text(const struct mt_json_node *row, const char *key, char *to, size_t bytes)
{
    const char *text = NULL;
    enum mt_status status = mt_json_get_string(row, key, &text);
    if (status == MT_OK) (void)snprintf(to, bytes, "%s", text);
    return status;
}

static bool same_step(const struct cell *a, const struct cell *b)
{
    return strcmp(a->shape, b->shape) == 0 && a->layers == b->layers && a->length == b->length &&
           a->tokens == b->tokens && a->rank == b->rank && a->dropout == b->dropout;
}

/* The cell that a row belongs to; NULL: there is no room for another. */
static struct cell *cell_of(struct table *table, const struct cell *read)
{
    for (size_t i = 0; i < table->count; i++) {
        struct cell *cell = &table->cell[i];
        if (same_step(cell, read) && strcmp(cell->side, read->side) == 0) return cell;
    }
    if (table->count == MOST_CELLS) return NULL;
    struct cell *cell = &table->cell[table->count++];
    *cell = *read;
    return cell;
}

static enum mt_status read_row(struct table *table, const struct mt_json_node *row)
{
    struct cell read = {.turns = 0};
    double seconds = 0.0;
    double bytes = 0.0;
    const char *recompute = "none";
    enum mt_status status = copy_text(row, "shape", read.shape, sizeof read.shape);
    if (status == MT_OK) status = copy_text(row, "side", read.side, sizeof read.side);
    if (status == MT_OK) status = copy_text(row, "status", read.status, sizeof read.status);
    if (status == MT_OK) status = mt_json_get_integer(row, "layers", 1, 1 << 20, &read.layers);
    if (status == MT_OK) status = mt_json_get_integer(row, "length", 1, 1 << 30, &read.length);
    if (status == MT_OK) status = mt_json_get_integer(row, "tokens", 1, 1 << 30, &read.tokens);
    if (status == MT_OK) status = mt_json_get_integer(row, "rank", 1, 1 << 20, &read.rank);
    if (status == MT_OK) status = mt_json_get_real(row, "dropout", 0.0, 1.0, &read.dropout);
    if (status == MT_OK) status = mt_json_optional_string(row, "recompute", &recompute);
    if (status == MT_OK) status = mt_json_optional_real(row, "seconds", 1e-9, 1e9, &seconds);
    if (status == MT_OK) status = mt_json_optional_real(row, "bytes", 0.0, 1e15, &bytes);
    if (status != MT_OK) return status;
    struct cell *cell = cell_of(table, &read);
    if (cell == NULL) return mt_json_fail(row, "is one measurement too many");
    memcpy(cell->status, read.status, sizeof cell->status);
    (void)snprintf(cell->recompute, sizeof cell->recompute, "%s", recompute);
    if (seconds <= 0.0) return MT_OK;
    if (cell->turns == MOST_TURNS) return mt_json_fail(row, "is one turn too many");
    cell->seconds[cell->turns++] = seconds;
    cell->bytes = fmax(cell->bytes, bytes);
    return MT_OK;
}

static enum mt_status read_rows(struct table *table, const char *path)
{
    char line[LINE_BYTES];
    enum mt_status status = MT_OK;
    FILE *file = fopen(path, "rb");
    if (file == NULL) return mt_fail(table->ctx, MT_ERR_IO, "cannot read %s", path);
    while (status == MT_OK && fgets(line, sizeof line, file) != NULL) {
        struct mt_json json = {0};
        status = mt_json_parse(table->ctx, path, line, strlen(line), &mt_json_file_limits, &json);
        if (status == MT_OK) {
            struct mt_json_node root = mt_json_root(&json);
            status = read_row(table, &root);
        }
        mt_json_free(&json);
    }
    (void)fclose(file);
    return status;
}

// ------------------------------------------------------------------ figures

/* Weights that a token is multiplied with, in so many of a shape's layers; 0 layers: all. */
static enum mt_status weights_met(const struct table *table, const char *shape, int64_t layers, double *met)
{
    char path[4096];
    struct mt_hf_config config;
    struct mt_model_count count;
    (void)snprintf(path, sizeof path, "%s/%s.json", table->configs, shape);
    enum mt_status status = mt_hf_config_read(table->ctx, path, NULL, 0, &config);
    if (status != MT_OK) return status;
    if (layers > 0 && layers < config.layers) config.layers = layers;
    mt_model_count(&config, &count);
    mt_hf_config_free(&config);
    *met = (double)(count.all_active - count.active[MT_PART_EMBEDDING] - count.active[MT_PART_NORMS]);
    return MT_OK;
}

static enum mt_status work_out(const struct table *table, const struct cell *cell, struct figures *figures)
{
    double sorted[MOST_TURNS];
    double met = 0.0;
    double whole = 0.0;
    memcpy(sorted, cell->seconds, sizeof sorted);
    double rate = (double)cell->tokens / bench_median(sorted, cell->turns);
    enum mt_status status = weights_met(table, cell->shape, cell->layers, &met);
    if (status == MT_OK) status = weights_met(table, cell->shape, 0, &whole);
    if (status != MT_OK) return status;
    *figures = (struct figures){.rate = rate * met / whole,
                                .teraflops = 4.0 * met * rate / 1e12,
                                .gib = cell->bytes / GIB,
                                .scaled = met < whole};
    return MT_OK;
}

/* "44,100 tokens/s": with commas. */
static void print_rate(double rate)
{
    int64_t whole = llround(rate);
    if (whole >= 1000)
        printf("%" PRId64 ",%03" PRId64, whole / 1000, whole % 1000);
    else
        printf("%" PRId64, whole);
}

static enum mt_status print_cell(const struct table *table, const struct cell *cell)
{
    struct figures figures;
    if (cell == NULL || cell->turns == 0) {
        printf(" %s |", cell == NULL ? "" : cell->status);
        return MT_OK;
    }
    enum mt_status status = work_out(table, cell, &figures);
    if (status != MT_OK) return status;
    printf(" %s", figures.scaled ? "≈ " : "");
    print_rate(figures.rate);
    printf(" · %.0f · %.1f%s |", figures.teraflops, figures.gib,
           strcmp(cell->recompute, "none") == 0  ? ""
           : strcmp(cell->recompute, "moe") == 0 ? " (m)"
                                                 : " (r)");
    return MT_OK;
}

static const struct cell *find_side(const struct table *table, const struct cell *step, const char *side)
{
    for (size_t i = 0; i < table->count; i++) {
        if (same_step(&table->cell[i], step) && strcmp(table->cell[i].side, side) == 0)
            return &table->cell[i];
    }
    return NULL;
}

static bool is_first(const struct table *table, size_t index)
{
    for (size_t i = 0; i < index; i++) {
        if (same_step(&table->cell[i], &table->cell[index])) return false;
    }
    return true;
}

static enum mt_status print_table(const struct table *table)
{
    enum mt_status status = MT_OK;
    printf("| shape | LoRA | sequences |");
    for (int side = 0; side < SIDES; side++) printf(" %s |", sides[side]);
    printf("\n|---|---|---|");
    for (int side = 0; side < SIDES; side++) printf("---|");
    printf("\n");
    for (size_t i = 0; i < table->count; i++) {
        const struct cell *step = &table->cell[i];
        if (!is_first(table, i)) continue;
        printf("| %s", step->shape);
        printf(" | r = %" PRId64 " | %" PRId64 " × %" PRId64 " |", step->rank, step->tokens / step->length,
               step->length);
        for (int side = 0; status == MT_OK && side < SIDES; side++)
            status = print_cell(table, find_side(table, step, sides[side]));
        printf("\n");
    }
    printf(
        "\nTokens/s · TFLOP/s (4·N·T) · GiB at the peak: ours planned, PyTorch's allocated. (r): all layers "
        "recomputed, (m): experts recomputed; ≈: measured with fewer layers, scaled by the operations.\n");
    return status;
}

static enum mt_status draw(const struct table *table, const char *folder)
{
    struct mt_page page;
    enum mt_status status = MT_OK;
    mt_page_init(&page, table->ctx, "LoRA steps");
    mt_page_section(&page, "LoRA steps");
    struct mt_figure *figure = mt_page_figure(&page, &(struct mt_figure_head){.kind = MT_FIGURE_BARS,
                                                                              .title = "moe-lora",
                                                                              .series = "side",
                                                                              .x = "tokens in a sequence",
                                                                              .y = "tokens/s",
                                                                              .panel = "shape"});
    for (size_t i = 0; status == MT_OK && i < table->count; i++) {
        const struct cell *cell = &table->cell[i];
        struct figures figures;
        char label[NAME_BYTES];
        if (cell->turns == 0) continue;
        status = work_out(table, cell, &figures);
        if (status != MT_OK) break;
        (void)snprintf(label, sizeof label, "%" PRId64, cell->length);
        mt_figure_panel(figure, cell->shape);
        mt_figure_bar(figure, cell->side, label, figures.rate, (double)NAN, (double)NAN);
    }
    if (status == MT_OK) status = mt_page_status(&page);
    if (status == MT_OK) status = mt_save_pictures(&page, folder, MT_PICTURE_SVG);
    mt_page_free(&page);
    return status;
}

int main(int argc, char **argv)
{
    struct mt_context ctx;
    struct table table = {.ctx = &ctx};
    if (argc < 3) {
        (void)fprintf(stderr, "usage: moe_lora_table CONFIGS ROWS.jsonl [FOLDER]\n");
        return 2;
    }
    table.configs = argv[1];
    mt_context_init(&ctx, NULL);
    enum mt_status status = read_rows(&table, argv[2]);
    if (status == MT_OK) status = print_table(&table);
    if (status == MT_OK && argc > 3) status = draw(&table, argv[3]);
    if (status != MT_OK) (void)fprintf(stderr, "moe_lora_table: %s\n", ctx.message);
    return status == MT_OK ? 0 : 1;
}
