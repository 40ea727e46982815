/* The head of a leaderboard: which method is ahead, where, and whether that is more than chance; its picture.
 */
#include <math.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/amount.h"
#include "compare/board/parts.h"
#include "compare/settings/settings.h"
#include "compare/stats.h"
#include "compare/summary.h"
#include "report/output.h"

#define TEXT_BYTES 256
#define MOST_TOLD  12 // bases that have a sentence of their own

static bool same(const char *a, const char *b)
{
    return strcmp(a, b) == 0;
}

// ------------------------------------------------------------------ differences

/* A method less the reference, in points of 100. */
struct gap {
    const char *method;
    size_t pairs;
    double mean, half; // half of the 95 % interval; NaN of one pair
    double p;          // corrected by Holm for the methods beside it; NaN: too few pairs
};

static int by_mean(const void *a, const void *b)
{
    double first = ((const struct gap *)a)->mean;
    double second = ((const struct gap *)b)->mean;
    return (first < second) - (first > second);
}

/* Over pairs of the same seed and domain. */
static struct gap gap_of(const struct mt_board *board, const struct mt_board_row *row, const char *reference)
{
    const struct mt_board_row other = {row->source, row->base, NULL, reference};
    double value[MT_BOARD_SEEDS], beside[MT_BOARD_SEEDS], gap[MT_BOARD_SEEDS];
    size_t pairs = 0;
    for (size_t i = 0; i < board->cells; i++) {
        const struct mt_board_cell *one = board->cell[i];
        for (size_t k = 0; k < board->cells && mt_board_is_of(one, row) && pairs < MT_BOARD_SEEDS; k++) {
            const struct mt_board_cell *two = board->cell[k];
            if (two->seed != one->seed || !mt_board_is_of(two, &other) || !same(two->domain, one->domain))
                continue;
            value[pairs] = one->value[MT_COMPARE_ACCURACY];
            beside[pairs] = two->value[MT_COMPARE_ACCURACY];
            gap[pairs] = value[pairs] - beside[pairs];
            pairs++;
        }
    }
    struct mt_moments moments = mt_moments(gap, pairs);
    return (struct gap){.method = row->method,
                        .pairs = moments.count,
                        .mean = 100.0 * moments.mean,
                        .half = 100.0 * mt_half_width(&moments),
                        .p = mt_paired(value, beside, pairs).p};
}

/* The methods of a base in a file but the reference, the best first; returns how many have pairs. */
static size_t collect_gaps(const struct mt_board *board, const struct mt_board_cell *of, struct gap *gaps)
{
    double p[MT_COMPARE_MOST_METHODS] = {0};
    double adjusted[MT_COMPARE_MOST_METHODS];
    size_t count = 0;
    for (size_t i = 0; i < board->cells && count < MT_COMPARE_MOST_METHODS; i++) {
        const struct mt_board_row row = {of->source, of->base, NULL, board->cell[i]->method};
        bool seen = !mt_board_is_of(board->cell[i], &row) || same(row.method, of->reference);
        for (size_t k = 0; k < i && !seen; k++) seen = mt_board_is_of(board->cell[k], &row);
        if (seen) continue;
        gaps[count] = gap_of(board, &row, of->reference);
        p[count] = gaps[count].p;
        if (!isnan(gaps[count].mean)) count++;
    }
    mt_holm(p, count, adjusted);
    for (size_t i = 0; i < count; i++) gaps[i].p = adjusted[i];
    qsort(gaps, count, sizeof *gaps, by_mean);
    return count;
}

/* Whether a cell is the first of its base in its file. */
static bool begins_group(const struct mt_board *board, size_t index)
{
    const struct mt_board_row group = {.source = board->cell[index]->source,
                                       .base = board->cell[index]->base};
    for (size_t k = 0; k < index; k++) {
        if (mt_board_is_beside(board->cell[k], &group)) return false;
    }
    return true;
}

// ------------------------------------------------------------------ the verdict

/* The best method of a base, held against the reference. */
struct lead {
    const struct mt_board_cell *of;
    struct gap gap; // pairs 0: there is nothing to compare
};

static struct lead lead_of(const struct mt_board *board, const struct mt_board_cell *of)
{
    struct gap gaps[MT_COMPARE_MOST_METHODS];
    struct lead lead = {.of = of};
    if (collect_gaps(board, of, gaps) > 0) lead.gap = gaps[0];
    return lead;
}

static bool is_ahead(const struct lead *lead)
{
    return lead->gap.pairs > 0 && lead->gap.mean > 0.0;
}

static bool is_proved(const struct lead *lead)
{
    return is_ahead(lead) && lead->gap.p < MT_COMPARE_SIGNIFICANT;
}

/* "base" or "base (comparison)". */
static const char *name_of(const struct mt_board_page *s, const struct lead *lead, char text[2 * TEXT_BYTES])
{
    (void)snprintf(text, 2 * TEXT_BYTES, s->sources ? "%.200s (%.200s)" : "%.200s", lead->of->base,
                   lead->of->source);
    return text;
}

/* "+0.6 points, 95 % interval −1.8 to +2.9, not beyond chance (p = 0.42)". */
static const char *gap_text(char text[TEXT_BYTES], const struct gap *gap)
{
    char number[4][MT_NUMBER_BYTES], interval[96] = "", sure[128];
    if (!isnan(gap->half))
        (void)snprintf(interval, sizeof interval, ", 95 %% interval %s to %s",
                       mt_fixed_text(number[0], gap->mean - gap->half, 1, true),
                       mt_fixed_text(number[1], gap->mean + gap->half, 1, true));
    if (isnan(gap->p))
        (void)snprintf(sure, sizeof sure, "%s, which is too few: this may be chance",
                       mt_counted(gap->pairs, "pair", "pairs").text);
    else
        (void)snprintf(sure, sizeof sure, "%s (p = %s)",
                       gap->p < MT_COMPARE_SIGNIFICANT ? "beyond chance" : "not beyond chance",
                       mt_fixed_text(number[2], gap->p, 3, false));
    (void)snprintf(text, TEXT_BYTES, "%s points%s, %s", mt_fixed_text(number[3], gap->mean, 1, true),
                   interval, sure);
    return text;
}

static void tell_lead(const struct mt_board_page *s, const struct lead *lead)
{
    char name[2 * TEXT_BYTES], text[TEXT_BYTES], headline[3 * TEXT_BYTES];
    const char *best = lead->gap.method;
    (void)name_of(s, lead, name);
    if (lead->gap.pairs == 0) {
        mt_page_finding(s->page, MT_TONE_OPEN, "There is nothing to compare yet.",
                        "%s: no seed and domain has both %.80s and another method.", name,
                        lead->of->reference);
        return;
    }
    (void)snprintf(headline, sizeof headline,
                   is_proved(lead)  ? "%.80s is best on %s."
                   : is_ahead(lead) ? "%.80s leads on %s, but not beyond chance."
                                    : "No method beats %.80s on %s.",
                   is_ahead(lead) ? best : lead->of->reference, name);
    mt_page_finding(s->page, is_proved(lead) ? MT_TONE_GOOD : MT_TONE_OPEN, headline,
                    "%.80s against %.80s, by whole answers: %s.", best, lead->of->reference,
                    gap_text(text, &lead->gap));
}

/* Of several bases and comparisons: what holds for all of them, then each. */
static void tell_all(const struct mt_board_page *s, size_t groups)
{
    const struct mt_board *board = s->board;
    size_t proved = 0;
    size_t told = 0;
    for (size_t i = 0; i < board->cells && groups > 1; i++) {
        if (!begins_group(board, i)) continue;
        struct lead lead = lead_of(board, board->cell[i]);
        proved += is_proved(&lead) ? 1 : 0;
    }
    if (groups > 1)
        mt_page_finding(s->page, proved > 0 ? MT_TONE_GOOD : MT_TONE_OPEN,
                        proved > 0 ? "Some methods beat their reference."
                                   : "No method beats its reference beyond chance.",
                        "%zu of %zu comparisons of methods on a base have a best method beyond chance, by "
                        "whole answers.",
                        proved, groups);
    for (size_t i = 0; i < board->cells && told < MOST_TOLD; i++) {
        if (!begins_group(board, i)) continue;
        struct lead lead = lead_of(board, board->cell[i]);
        tell_lead(s, &lead);
        told++;
    }
    if (groups > told)
        mt_page_finding(s->page, MT_TONE_PLAIN, "And more.", "%zu others are in the picture and the tables.",
                        groups - told);
}

static void add_verdict(const struct mt_board_page *s)
{
    const struct mt_board *board = s->board;
    size_t groups = 0;
    for (size_t i = 0; i < board->cells; i++) groups += begins_group(board, i) ? 1 : 0;
    mt_page_verdict(s->page, "Verdict");
    if (board->metric[MT_COMPARE_ACCURACY].found)
        tell_all(s, groups);
    else
        mt_page_finding(s->page, MT_TONE_OPEN, "Methods are not ranked.",
                        "No cell has a share of whole answers that are right; the tables have the rest.");
    if (board->missing > 0)
        mt_page_finding(s->page, MT_TONE_BAD, "Cells are missing.", "%s of these comparisons, not shown.",
                        mt_counted(board->missing, "cell", "cells").text);
}

// ------------------------------------------------------------------ the picture

static struct mt_figure *begin_dots(struct mt_page *page)
{
    return mt_page_figure(
        page,
        &(struct mt_figure_head){
            .kind = MT_FIGURE_DOTS,
            .title = "Whole answers, more or fewer than the reference",
            .meaning = "Held-out problems of the domain trained on that are answered exactly, in points "
                       "of 100 less those of the reference, which is the line at 0 and named above each "
                       "panel. Where a whisker crosses the line, the difference may be chance; one pair has "
                       "no whisker.",
            .formula = "Mean of differences of the same seed and domain, and its 95 % interval by "
                       "Student's t over these pairs, not corrected for the number of methods",
            .series = "domain",
            .x = "method",
            .y = "points",
            .reach = MT_COMPARE_REACH,
            .band = true,
            .panel = "base"});
}

/* How methods differ in whole answers, a panel for each base of each file. */
static void add_dots(const struct mt_board_page *s)
{
    const struct mt_board *board = s->board;
    struct gap gaps[MT_COMPARE_MOST_METHODS];
    struct mt_figure *dots = NULL;
    if (!board->metric[MT_COMPARE_ACCURACY].found) return;
    for (size_t i = 0; i < board->cells; i++) {
        const struct mt_board_cell *cell = board->cell[i];
        const struct mt_board_row group = {.source = cell->source, .base = cell->base};
        char panel[3 * TEXT_BYTES];
        if (!begins_group(board, i)) continue;
        size_t count = collect_gaps(board, cell, gaps);
        const char *domain = mt_board_domains(board, &group) > 1 ? MT_BOARD_ALL_DOMAINS : cell->domain;
        (void)snprintf(panel, sizeof panel,
                       s->sources ? "%.200s, reference %.80s (%.200s)" : "%.200s, reference %.80s",
                       cell->base, cell->reference, cell->source);
        if (count > 0 && dots == NULL) dots = begin_dots(s->page);
        if (count > 0) mt_figure_panel(dots, panel);
        for (size_t k = 0; k < count; k++) {
            const struct gap *gap = &gaps[k];
            mt_figure_bar(dots, domain, gap->method, gap->mean, gap->mean - gap->half, gap->mean + gap->half);
        }
    }
}

// ------------------------------------------------------------------ what was compared

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

void mt_board_add_head(const struct mt_board_page *s)
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
    add_verdict(s);
    add_dots(s);
    for (size_t i = 0; i < sizeof cards / sizeof cards[0]; i++)
        mt_page_card(s->page, cards[i].name, mt_number_text(number, (double)cards[i].count), "");
}

void mt_board_add_files(const struct mt_board_page *s)
{
    const struct mt_board *board = s->board;
    mt_page_section(s->page, "Files");
    struct mt_figure *table = mt_page_figure(
        s->page, &(struct mt_figure_head){
                     .kind = MT_FIGURE_TABLE,
                     .title = "What was compared",
                     .meaning = "Rows above are methods on a base and a domain. To add more: metier "
                                "report A/compare.json B/compare.json --out board.html."});
    mt_figure_column(table, MT_COLUMN_LABEL, "comparison");
    mt_figure_column(table, MT_COLUMN_LABEL, "reference");
    mt_figure_column(table, MT_COLUMN_NUMBER, "cells");
    mt_figure_column(table, MT_COLUMN_LABEL, "read from");
    for (size_t i = 0; i < board->cells; i++) {
        const struct mt_board_cell *cell = board->cell[i];
        size_t cells = 0;
        if (i > 0 && board->cell[i - 1]->source == cell->source) continue;
        for (size_t k = i; k < board->cells; k++) cells += board->cell[k]->source == cell->source ? 1 : 0;
        mt_figure_text(table, cell->source);
        mt_figure_text(table, cell->reference);
        mt_figure_number(table, (double)cells);
        mt_figure_text(table, cell->path);
    }
}
