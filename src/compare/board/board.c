/* A leaderboard's page. */
#define _DEFAULT_SOURCE // realpath
#include "compare/board/board.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/amount.h"
#include "compare/board/parts.h"
#include "compare/stats.h"
#include "report/output.h"

#define PATH_BYTES 4096
#define TEXT_BYTES 256
#define INTERVAL                                                                                             \
    "mean ± half of the 95 % interval over seeds, by Student's t; one seed has no interval. Best and "      \
    "second "                                                                                                \
    "are among the rows of one base and domain"

// ------------------------------------------------------------------ rows

static bool same(const char *a, const char *b)
{
    return strcmp(a, b) == 0;
}

bool mt_board_is_of(const struct mt_board_cell *cell, const struct mt_board_row *row)
{
    return cell->source == row->source && same(cell->base, row->base) && same(cell->method, row->method) &&
           (row->domain == NULL || same(cell->domain, row->domain));
}

bool mt_board_is_beside(const struct mt_board_cell *cell, const struct mt_board_row *row)
{
    return cell->source == row->source && same(cell->base, row->base);
}

size_t mt_board_domains(const struct mt_board *board, const struct mt_board_row *row)
{
    size_t count = 0;
    for (size_t i = 0; i < board->cells; i++) {
        if (!mt_board_is_beside(board->cell[i], row)) continue;
        bool first = true;
        for (size_t k = 0; k < i && first; k++)
            first = !mt_board_is_beside(board->cell[k], row) ||
                    !same(board->cell[k]->domain, board->cell[i]->domain);
        count += first ? 1 : 0;
    }
    return count;
}

/* The values of a metric over seeds: of each seed the mean over the row's domains. */
static struct mt_moments moments_of(const struct mt_board *board, const struct mt_board_row *row,
                                    size_t metric, size_t domains)
{
    double seed[MT_BOARD_SEEDS];
    double sum[MT_BOARD_SEEDS];
    size_t count[MT_BOARD_SEEDS];
    size_t seeds = 0;
    for (size_t i = 0; i < board->cells; i++) {
        const struct mt_board_cell *cell = board->cell[i];
        size_t s = 0;
        if (!mt_board_is_of(cell, row) || isnan(cell->value[metric])) continue;
        while (s < seeds && seed[s] != cell->seed) s++;
        if (s == MT_BOARD_SEEDS) continue;
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

static void put_row(const struct mt_board_page *s, struct mt_figure *table, const struct mt_board_row *row,
                    size_t domains)
{
    struct mt_moments seeds = moments_of(s->board, row, MT_COMPARE_LOSS, domains);
    mt_figure_text(table, row->method);
    mt_figure_text(table, row->base);
    mt_figure_text(table, row->domain != NULL ? row->domain : MT_BOARD_ALL_DOMAINS);
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
static void put_group(const struct mt_board_page *s, struct mt_figure *table,
                      const struct mt_board_row *group, size_t domains)
{
    size_t first = table != NULL ? mt_figure_rows(table) : 0;
    int labels = s->sources ? 5 : 4;
    if (first > 0) mt_figure_rule(table);
    for (size_t i = 0; i < s->board->cells; i++) {
        const struct mt_board_cell *cell = s->board->cell[i];
        struct mt_board_row row = *group;
        bool seen = false;
        row.method = cell->method;
        if (!mt_board_is_of(cell, &row)) continue;
        for (size_t k = 0; k < i && !seen; k++) seen = mt_board_is_of(s->board->cell[k], &row);
        if (!seen) put_row(s, table, &row, domains);
    }
    for (size_t i = 0; i < s->columns; i++)
        mt_figure_rank(table, labels + (int)i, s->board->metric[s->column[i]].row.better, first);
}

/* Every base of every file, domain by domain, in the order they come; then its domains together. */
static void put_groups(const struct mt_board_page *s, struct mt_figure *table)
{
    const struct mt_board *board = s->board;
    for (size_t i = 0; i < board->cells; i++) {
        const struct mt_board_cell *cell = board->cell[i];
        const struct mt_board_row group = {.source = cell->source, .base = cell->base};
        bool seen = false;
        for (size_t k = 0; k < i && !seen; k++) seen = mt_board_is_beside(board->cell[k], &group);
        if (seen) continue;
        size_t domains = mt_board_domains(board, &group);
        for (size_t k = i; k < board->cells; k++) {
            struct mt_board_row one = group;
            bool before = false;
            one.domain = board->cell[k]->domain;
            if (!mt_board_is_beside(board->cell[k], &group)) continue;
            for (size_t m = i; m < k && !before; m++)
                before =
                    mt_board_is_beside(board->cell[m], &group) && same(board->cell[m]->domain, one.domain);
            if (!before) put_group(s, table, &one, domains);
        }
        if (domains > 1) put_group(s, table, &group, domains);
    }
}

static void add_table(struct mt_board_page *s, const char *title, const char *meaning)
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

static void add_tables(struct mt_board_page *s)
{
    static const char *const texts[PARTS][3] = {
        {"Answers", "Answers and losses",
         "Held-out problems answered exactly and their loss, of the domain "
         "trained on and of the others; benchmarks by their own metric."},
        {"Robustness and efficiency", "Fewer experts, fewer steps",
         "Held-out problems answered exactly with the least used experts of every layer taken away, and "
         "after "
         "that many steps of training."},
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

/* What a file is called: the folder it lies in, or itself where its name is its own. */
static void name_source(const char *file, char name[TEXT_BYTES])
{
    char whole[PATH_BYTES];
    // "compare.json" and "./compare.json" lie in a folder with a name, too.
    if (realpath(file, whole) == NULL) (void)snprintf(whole, sizeof whole, "%s", file);
    char *end = strrchr(whole, '/');
    char *last = end != NULL ? end + 1 : whole;
    bool usual = same(last, "compare.json") && end != NULL && end > whole;
    if (usual) *end = '\0';
    if (usual) last = strrchr(whole, '/') + 1;
    size_t length = strlen(last);
    if (!usual && length > 5 && same(last + length - 5, ".json")) last[length - 5] = '\0';
    (void)snprintf(name, TEXT_BYTES, "%.200s", last);
}

static enum mt_status read_files(struct mt_board *board, const char *const *paths, size_t count)
{
    char file[PATH_BYTES], name[TEXT_BYTES], other[TEXT_BYTES];
    enum mt_status status = MT_OK;
    for (size_t i = 0; i < count && status == MT_OK; i++) {
        if (!find_file(paths[i], file))
            return mt_fail(board->ctx, MT_ERR_USAGE, "%.600s: there is no compare.json", paths[i]);
        name_source(file, name);
        size_t alike = 1; // files of this name up to here
        bool several = false;
        for (size_t k = 0; k < count; k++) {
            char beside[PATH_BYTES];
            if (k == i || !find_file(paths[k], beside)) continue;
            if (same(file, beside)) return mt_fail(board->ctx, MT_ERR_USAGE, "%.600s is given twice", file);
            name_source(beside, other);
            several = several || same(name, other);
            alike += k < i && same(name, other) ? 1 : 0;
        }
        // The page lists which file is which.
        if (several) (void)snprintf(name + strlen(name), sizeof name - strlen(name), " %zu", alike);
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
        struct mt_board_page showing = {.board = &board, .page = page, .sources = count > 1};
        mt_board_add_head(&showing);
        add_tables(&showing);
        mt_board_add_files(&showing);
        status = mt_page_status(page);
    }
    mt_board_free(&board);
    return status;
}
