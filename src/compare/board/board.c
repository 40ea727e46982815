/* A leaderboard's page. */
#include "compare/board/board.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/amount.h"
#include "compare/board/cells.h"
#include "compare/stats.h"
#include "report/output.h"

#define PATH_BYTES  4096
#define TEXT_BYTES  256
#define MOST_SEEDS  1024 // of one row
#define ALL_DOMAINS "all domains"
#define INTERVAL                                                                                             \
    "mean ± half of the 95 % interval over seeds, by Student's t; one seed has no interval. Best and "      \
    "second "                                                                                                \
    "are among the rows of one base and domain"

// ------------------------------------------------------------------ rows

/* What a row is of; domain NULL: the mean over domains. */
struct row {
    const char *source, *base, *domain, *method;
};

static bool same(const char *a, const char *b)
{
    return strcmp(a, b) == 0;
}

static bool is_of(const struct mt_board_cell *cell, const struct row *row)
{
    return cell->source == row->source && same(cell->base, row->base) && same(cell->method, row->method) &&
           (row->domain == NULL || same(cell->domain, row->domain));
}

/* Cells of the same base in the same file: what is ranked together, domain by domain. */
static bool is_beside(const struct mt_board_cell *cell, const struct row *row)
{
    return cell->source == row->source && same(cell->base, row->base);
}

/* Domains of a base in a file; `first`: whether the cell at `index` is the first of its domain there. */
static size_t count_domains(const struct mt_board *board, const struct row *row)
{
    size_t count = 0;
    for (size_t i = 0; i < board->cells; i++) {
        if (!is_beside(board->cell[i], row)) continue;
        bool first = true;
        for (size_t k = 0; k < i && first; k++)
            first = !is_beside(board->cell[k], row) || !same(board->cell[k]->domain, board->cell[i]->domain);
        count += first ? 1 : 0;
    }
    return count;
}

/* The values of a metric over seeds: of each seed the mean over the row's domains. */
static struct mt_moments moments_of(const struct mt_board *board, const struct row *row, size_t metric,
                                    size_t domains)
{
    double seed[MOST_SEEDS];
    double sum[MOST_SEEDS];
    size_t count[MOST_SEEDS];
    size_t seeds = 0;
    for (size_t i = 0; i < board->cells; i++) {
        const struct mt_board_cell *cell = board->cell[i];
        size_t s = 0;
        if (!is_of(cell, row) || isnan(cell->value[metric])) continue;
        while (s < seeds && seed[s] != cell->seed) s++;
        if (s == MOST_SEEDS) continue;
        if (s == seeds) {
            seed[seeds] = cell->seed;
            sum[seeds] = 0.0;
            count[seeds++] = 0;
        }
        sum[s] += cell->value[metric];
        count[s]++;
    }
    for (size_t s = 0; s < seeds; s++) {
        bool whole = row->domain != NULL || count[s] == domains;
        sum[s] = whole ? sum[s] / (double)count[s] : (double)NAN;
    }
    return mt_moments(sum, seeds);
}

// ------------------------------------------------------------------ tables

/* What every figure of the page needs. */
struct showing {
    const struct mt_board *board;
    struct mt_page *page;
    bool sources;                    // there are several: a column names them
    size_t column[MT_BOARD_METRICS]; // metrics of the table at hand
    size_t columns;
};

static void put_row(const struct showing *s, struct mt_figure *table, const struct row *row, size_t domains)
{
    struct mt_moments seeds = moments_of(s->board, row, MT_COMPARE_LOSS, domains);
    mt_figure_text(table, row->method);
    mt_figure_text(table, row->base);
    mt_figure_text(table, row->domain != NULL ? row->domain : ALL_DOMAINS);
    if (s->sources) mt_figure_text(table, row->source);
    mt_figure_number(table, (double)seeds.count);
    for (size_t i = 0; i < s->columns; i++) {
        const struct mt_compare_figure_row *shown = &s->board->metric[s->column[i]].row;
        struct mt_moments moments = moments_of(s->board, row, s->column[i], domains);
        mt_figure_measure(table, shown->factor * moments.mean, shown->factor * mt_half_width(&moments),
                          false);
    }
}

/* The methods of one base and domain. */
static void put_group(const struct showing *s, struct mt_figure *table, const struct row *group,
                      size_t domains)
{
    size_t first = table != NULL ? mt_figure_rows(table) : 0;
    int labels = s->sources ? 5 : 4;
    if (first > 0) mt_figure_rule(table);
    for (size_t i = 0; i < s->board->cells; i++) {
        const struct mt_board_cell *cell = s->board->cell[i];
        struct row row = *group;
        bool seen = false;
        row.method = cell->method;
        if (!is_of(cell, &row)) continue;
        for (size_t k = 0; k < i && !seen; k++) seen = is_of(s->board->cell[k], &row);
        if (!seen) put_row(s, table, &row, domains);
    }
    for (size_t i = 0; i < s->columns; i++)
        mt_figure_rank(table, labels + (int)i, s->board->metric[s->column[i]].row.better, first);
}

/* Every base of every file, domain by domain, in the order they come; then its domains together. */
static void put_groups(const struct showing *s, struct mt_figure *table)
{
    const struct mt_board *board = s->board;
    for (size_t i = 0; i < board->cells; i++) {
        const struct mt_board_cell *cell = board->cell[i];
        const struct row group = {.source = cell->source, .base = cell->base};
        bool seen = false;
        for (size_t k = 0; k < i && !seen; k++) seen = is_beside(board->cell[k], &group);
        if (seen) continue;
        size_t domains = count_domains(board, &group);
        for (size_t k = i; k < board->cells; k++) {
            struct row one = group;
            bool before = false;
            one.domain = board->cell[k]->domain;
            if (!is_beside(board->cell[k], &group)) continue;
            for (size_t m = i; m < k && !before; m++)
                before = is_beside(board->cell[m], &group) && same(board->cell[m]->domain, one.domain);
            if (!before) put_group(s, table, &one, domains);
        }
        if (domains > 1) put_group(s, table, &group, domains);
    }
}

static void add_table(struct showing *s, const char *title, const char *meaning)
{
    if (s->columns == 0) return;
    struct mt_figure *table = mt_page_figure(s->page, &(struct mt_figure_head){.kind = MT_FIGURE_TABLE,
                                                                               .title = title,
                                                                               .meaning = meaning,
                                                                               .formula = INTERVAL,
                                                                               .filtered = true});
    mt_figure_column(table, MT_COLUMN_LABEL, "method");
    mt_figure_column(table, MT_COLUMN_LABEL, "base");
    mt_figure_column(table, MT_COLUMN_LABEL, "domain");
    if (s->sources) mt_figure_column(table, MT_COLUMN_LABEL, "comparison");
    mt_figure_column(table, MT_COLUMN_NUMBER, "seeds");
    for (size_t i = 0; i < s->columns; i++) {
        const struct mt_compare_figure_row *row = &s->board->metric[s->column[i]].row;
        mt_figure_measure_column(table, row->title, row->decimals, false);
    }
    put_groups(s, table);
}

enum part { PART_ANSWERS, PART_PROBES, PART_ROUTING, PART_COST, PARTS };

static enum part part_of(const struct mt_board *board, size_t metric)
{
    if (board->metric[metric].probe) return PART_PROBES;
    if (metric >= MT_COMPARE_FIGURES || metric <= MT_COMPARE_LOSS_OTHERS) return PART_ANSWERS;
    return mt_compare_is_time((enum mt_compare_figure)metric) ? PART_COST : PART_ROUTING;
}

static void add_tables(struct showing *s)
{
    static const char *const texts[PARTS][3] = {
        {"Answers", "Answers and losses",
         "Held-out problems answered exactly and their loss, of the domain "
         "trained on and of the others; benchmarks by their own metric."},
        {"Robustness and efficiency", "Fewer experts, fewer steps",
         "Held-out problems answered exactly with the least used experts of every layer taken away, and "
         "after "
         "so many steps of training."},
        {"Routing", "Balance, geometry, coupling", "What routers and experts became (docs/analysis.md)."},
        {"Cost", "Time and memory", "Of a step of training, on the device each comparison ran on."}};
    for (int part = 0; part < PARTS; part++) {
        s->columns = 0;
        for (size_t i = 0; i < s->board->metrics; i++) {
            if (s->board->metric[i].found && part_of(s->board, i) == (enum part)part)
                s->column[s->columns++] = i;
        }
        if (s->columns > 0) mt_page_section(s->page, texts[part][0]);
        add_table(s, texts[part][1], texts[part][2]);
    }
}

// ------------------------------------------------------------------ the head of the page

/* A method less the reference, in points of 100. */
struct gap {
    const char *method;
    double mean, half; // half of the 95 % interval; NaN of one pair
};

static int by_mean(const void *a, const void *b)
{
    double first = ((const struct gap *)a)->mean;
    double second = ((const struct gap *)b)->mean;
    return (first < second) - (first > second);
}

/* Over pairs of the same seed and domain. */
static struct gap gap_of(const struct mt_board *board, const struct row *row, const char *reference)
{
    const struct row other = {row->source, row->base, NULL, reference};
    double gap[MOST_SEEDS];
    size_t pairs = 0;
    for (size_t i = 0; i < board->cells; i++) {
        const struct mt_board_cell *cell = board->cell[i];
        for (size_t k = 0; k < board->cells && is_of(cell, row) && pairs < MOST_SEEDS; k++) {
            const struct mt_board_cell *beside = board->cell[k];
            if (beside->seed != cell->seed || !is_of(beside, &other) || !same(beside->domain, cell->domain))
                continue;
            gap[pairs++] = cell->value[MT_COMPARE_ACCURACY] - beside->value[MT_COMPARE_ACCURACY];
        }
    }
    struct mt_moments moments = mt_moments(gap, pairs);
    return (struct gap){row->method, 100.0 * moments.mean, 100.0 * mt_half_width(&moments)};
}

/* The methods of a base in a file but the reference, the best first; returns how many have pairs. */
static size_t collect_gaps(const struct mt_board *board, const struct mt_board_cell *of, struct gap *gaps)
{
    size_t count = 0;
    for (size_t i = 0; i < board->cells; i++) {
        const struct row row = {of->source, of->base, NULL, board->cell[i]->method};
        bool seen = !is_of(board->cell[i], &row) || same(row.method, of->reference);
        for (size_t k = 0; k < i && !seen; k++) seen = is_of(board->cell[k], &row);
        if (seen) continue;
        gaps[count] = gap_of(board, &row, of->reference);
        if (!isnan(gaps[count].mean)) count++;
    }
    qsort(gaps, count, sizeof *gaps, by_mean);
    return count;
}

static struct mt_figure *begin_dots(struct mt_page *page)
{
    return mt_page_figure(
        page,
        &(struct mt_figure_head){
            .kind = MT_FIGURE_DOTS,
            .title = "Whole answers, more or fewer than the reference",
            .meaning = "Held-out problems of the domain trained on that are answered exactly, in points "
                       "of 100 less those of the reference, which is the line at 0 and named above each "
                       "panel. Where a whisker crosses the line, the difference may be chance.",
            .formula = "Mean of differences of the same seed and domain, and its 95 % interval by "
                       "Student's t over these pairs, not corrected for the number of methods",
            .series = "domain",
            .x = "method",
            .y = "points",
            .band = true,
            .panel = "base"});
}

/* How methods differ in whole answers, a panel for each base of each file. */
static void add_dots(const struct showing *s)
{
    const struct mt_board *board = s->board;
    struct mt_figure *dots = NULL;
    void *memory = NULL;
    struct mt_context *ctx = s->page->ctx;
    if (!board->metric[MT_COMPARE_ACCURACY].found) return;
    enum mt_status status = mt_page_status(s->page);
    if (status == MT_OK) status = mt_allocate_array(ctx, board->cells, sizeof(struct gap), &memory);
    if (!mt_page_check(s->page, status)) return;
    struct gap *gaps = memory;
    for (size_t i = 0; i < board->cells; i++) {
        const struct mt_board_cell *cell = board->cell[i];
        const struct row group = {.source = cell->source, .base = cell->base};
        char panel[3 * TEXT_BYTES];
        bool seen = false;
        for (size_t k = 0; k < i && !seen; k++) seen = is_beside(board->cell[k], &group);
        if (seen) continue;
        size_t count = collect_gaps(board, cell, gaps);
        const char *domain = count_domains(board, &group) > 1 ? ALL_DOMAINS : cell->domain;
        (void)snprintf(panel, sizeof panel, s->sources ? "%s, reference %s (%s)" : "%s, reference %s",
                       cell->base, cell->reference, cell->source);
        if (count > 0 && dots == NULL) dots = begin_dots(s->page);
        if (count > 0) mt_figure_panel(dots, panel);
        for (size_t k = 0; k < count; k++) {
            const struct gap *gap = &gaps[k];
            mt_figure_bar(dots, domain, gap->method, gap->mean, gap->mean - gap->half, gap->mean + gap->half);
        }
    }
    mt_release(ctx, memory, board->cells * sizeof(struct gap));
}

/* How many different texts a field of the cells has. */
static size_t count_texts(const struct mt_board *board, size_t offset)
{
    size_t count = 0;
    for (size_t i = 0; i < board->cells; i++) {
        const char *text = *(const char *const *)((const char *)board->cell[i] + offset);
        bool first = true;
        for (size_t k = 0; k < i && first; k++)
            first = !same(text, *(const char *const *)((const char *)board->cell[k] + offset));
        count += first ? 1 : 0;
    }
    return count;
}

static void add_head(const struct showing *s)
{
    const struct mt_board *board = s->board;
    char number[MT_NUMBER_BYTES];
    const struct {
        const char *name;
        size_t count;
    } cards[] = {{"comparisons", board->sources},
                 {"bases", count_texts(board, offsetof(struct mt_board_cell, base))},
                 {"methods", count_texts(board, offsetof(struct mt_board_cell, method))},
                 {"domains", count_texts(board, offsetof(struct mt_board_cell, domain))},
                 {"cells", board->cells}};
    for (size_t i = 0; i < sizeof cards / sizeof cards[0]; i++)
        mt_page_card(s->page, cards[i].name, mt_number_text(number, (double)cards[i].count), "");
    mt_page_section(s->page, "Overview");
    mt_page_text(s->page, "Rows are methods on a base and a domain; a comparison more is a row more: "
                          "metier report A/compare.json B/compare.json --out board.html.");
    if (board->missing > 0)
        mt_page_finding(s->page, MT_TONE_BAD, "Cells are missing.", "%s of these comparisons, not shown.",
                        mt_counted(board->missing, "cell", "cells").text);
    add_dots(s);
}

// ------------------------------------------------------------------ files

static bool find_file(const char *path, char file[PATH_BYTES])
{
    struct stat found;
    if (stat(path, &found) != 0) return false;
    bool folder = S_ISDIR(found.st_mode);
    int length = snprintf(file, PATH_BYTES, folder ? "%s/compare.json" : "%s", path);
    if (length < 0 || length >= PATH_BYTES) return false;
    return !folder || access(file, F_OK) == 0;
}

bool mt_board_is_comparison(const char *path)
{
    static const char ending[] = ".json";
    char file[PATH_BYTES];
    size_t length = strlen(path);
    bool named = length > strlen(ending) && same(path + length - strlen(ending), ending);
    return named || find_file(path, file);
}

/* The folder a file lies in, by its name, or the whole path of a file that lies nowhere in particular. */
static void name_source(const char *file, char name[TEXT_BYTES])
{
    const char *end = strrchr(file, '/');
    const char *start = end;
    while (start != NULL && start > file && start[-1] != '/') start--;
    bool plain = start == NULL || start == end || end[-1] == '.';
    if (plain)
        (void)snprintf(name, TEXT_BYTES, "%.200s", file);
    else
        (void)snprintf(name, TEXT_BYTES, "%.*s", (int)(end - start < 200 ? end - start : 200), start);
}

static enum mt_status read_files(struct mt_board *board, const char *const *paths, size_t count)
{
    char file[PATH_BYTES], name[TEXT_BYTES], other[TEXT_BYTES];
    enum mt_status status = MT_OK;
    for (size_t i = 0; i < count && status == MT_OK; i++) {
        if (!find_file(paths[i], file))
            return mt_fail(board->ctx, MT_ERR_USAGE, "%.600s: there is no compare.json", paths[i]);
        name_source(file, name);
        for (size_t k = 0; k < count; k++) {
            char beside[PATH_BYTES];
            if (k == i || !find_file(paths[k], beside)) continue;
            if (same(file, beside)) return mt_fail(board->ctx, MT_ERR_USAGE, "%.600s is given twice", file);
            name_source(beside, other);
            // Folders of the same name are called by their paths.
            if (same(name, other)) (void)snprintf(name, sizeof name, "%.200s", paths[i]);
        }
        status = mt_board_read(board, file, name);
    }
    if (status == MT_OK && board->cells == 0)
        status = mt_fail(board->ctx, MT_ERR_FORMAT,
                         "%.600s: no cell of it is known; metier compare makes them", paths[0]);
    return status;
}

enum mt_status mt_board_build(struct mt_page *page, const char *const *paths, size_t count)
{
    struct mt_board board;
    mt_board_init(&board, page->ctx);
    enum mt_status status = read_files(&board, paths, count);
    if (status == MT_OK) {
        struct showing showing = {.board = &board, .page = page, .sources = count > 1};
        add_head(&showing);
        add_tables(&showing);
        status = mt_page_status(page);
    }
    mt_board_free(&board);
    return status;
}
