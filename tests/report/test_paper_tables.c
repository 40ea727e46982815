/*
 * Tables as papers have them: measures and their marks, LaTeX, formulas, small multiples. Tests
 * src/report/render.
 */
#include <jansson.h>
#include <math.h>
#include <string.h>

#include "report/render.h"
#include "report/render/math.h"
#include "support/cmocka_all.h"
#include "support/every_allocation.h"

static const struct mt_html_parts no_parts = {0};

/* Three methods: two share the best of a column, one is not known; a base above them that is not ranked. */
static struct mt_figure *fill(struct mt_page *page, struct mt_context *ctx)
{
    static const struct {
        const char *name;
        double value, spread, delta;
    } rows[] = {
        {"base", 0.9, (double)NAN, (double)NAN},
        {"aux_1", 0.412, 0.01, 0.0},
        {"paper & co", 0.4123, 0.02, -0.05},
        {"metier", 0.5, 0.0149, 0.0421},
        {"late", (double)NAN, (double)NAN, (double)NAN},
    };
    mt_page_init(page, ctx, "Methods");
    mt_page_verdict(page, "Verdict");
    mt_page_finding(page, MT_TONE_GOOD, "metier leads", "by %d points & more", 4);
    mt_page_card(page, "cells", "4", "");
    mt_page_section(page, "Tables");
    struct mt_figure *table = mt_page_figure(
        page, &(struct mt_figure_head){.title = "Main_results",
                                       .meaning = "Right answers, 100 %.",
                                       .formula = "$\\frac{1}{n}\\sum_j x_{ij}^2 \\le \\alpha$ over seeds"});
    mt_figure_column(table, MT_COLUMN_LABEL, "method");
    mt_figure_measure_column(table, "gsm8k %", 2, false);
    mt_figure_measure_column(table, "Δ", 1, true);
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        if (i == 1) mt_figure_rule(table);
        mt_figure_text(table, rows[i].name);
        mt_figure_measure(table, rows[i].value, rows[i].spread, false);
        mt_figure_measure(table, 100 * rows[i].delta, 1.25, rows[i].delta > 0);
    }
    mt_figure_rank(table, 1, 1, 1);
    return table;
}

static void assert_holds(const struct mt_output *out, const char *words)
{
    for (size_t i = 0; i + strlen(words) <= out->text.count; i++) {
        if (memcmp(out->text.data + i, words, strlen(words)) == 0) return;
    }
    fail_msg("there is no %s in %.*s", words, (int)out->text.count, (const char *)out->text.data);
}

static void test_marks(void **state)
{
    (void)state;
    struct mt_context ctx;
    struct mt_page page;
    mt_context_init(&ctx, NULL);
    const struct mt_figure *table = fill(&page, &ctx);
    const uint8_t *marks = table->column[1].marks;
    assert_int_equal(mt_page_status(&page), MT_OK);
    assert_int_equal(marks[0], 0); // the base is best, and does not take part
    assert_int_equal(marks[1], MT_MARK_SECOND);
    assert_int_equal(marks[2], MT_MARK_SECOND); // the same to a reader
    assert_int_equal(marks[3], MT_MARK_BEST);
    assert_int_equal(marks[4], 0);
    assert_int_equal(table->column[2].marks[3], MT_MARK_BEYOND);
    assert_true(mt_figure_has_rule(table, 1) && !mt_figure_has_rule(table, 2));
    mt_page_free(&page);
    assert_int_equal(ctx.live_bytes, 0);
}

/* Where all are the same, none is best; low is better where it is. */
static void test_rank(void **state)
{
    (void)state;
    struct mt_context ctx;
    struct mt_page page;
    mt_context_init(&ctx, NULL);
    mt_page_init(&page, &ctx, "T");
    struct mt_figure *table = mt_page_figure(&page, &(struct mt_figure_head){.title = "t"});
    mt_figure_measure_column(table, "same", 1, false);
    mt_figure_measure_column(table, "low", 1, false);
    for (int i = 0; i < 3; i++) {
        mt_figure_measure(table, 0.51 + 0.01 * i, (double)NAN, false);
        mt_figure_measure(table, i, (double)NAN, false);
    }
    mt_figure_rank(table, 0, 1, 0);
    mt_figure_rank(table, 1, -1, 0);
    for (int i = 0; i < 3; i++) assert_int_equal(table->column[0].marks[i], 0);
    assert_int_equal(table->column[1].marks[0], MT_MARK_BEST);
    assert_int_equal(table->column[1].marks[1], MT_MARK_SECOND);
    assert_int_equal(table->column[1].marks[2], 0);
    mt_page_free(&page);
}

static void test_every_renderer_shows_them(void **state)
{
    (void)state;
    struct mt_context ctx;
    struct mt_page page;
    struct mt_output html, markdown, latex, csv;
    mt_context_init(&ctx, NULL);
    const struct mt_figure *table = fill(&page, &ctx);
    mt_output_init(&html, &ctx);
    mt_output_init(&markdown, &ctx);
    mt_output_init(&latex, &ctx);
    mt_output_init(&csv, &ctx);
    assert_int_equal(mt_render_html(&page, &no_parts, &html), MT_OK);
    assert_holds(&html, "<td class=\"n best\"><b>0.50</b><i>0.01</i></td>");
    assert_holds(&html, "<td class=\"n second\"><b>0.41</b><i>0.02</i></td>");
    assert_holds(&html, "<td class=\"n\"><b>+4.2</b><i>1.2</i><sup>*</sup></td>");
    assert_holds(&html, "<tr class=\"rule\"><th scope=\"row\">aux_1</th>");
    assert_holds(&html, "<p class=\"finding good\"><b>metier leads</b> by 4 points &amp; more</p>");
    assert_holds(&html, "<mfrac><mrow><mn>1</mn></mrow><mrow><mi>n</mi></mrow></mfrac><munder><mo>∑</mo>");
    assert_int_equal(mt_render_markdown(&page, NULL, &markdown), MT_OK);
    assert_holds(&markdown, "| metier | **0.50** ± 0.01 | +4.2 ± 1.2 \\* |");
    assert_holds(&markdown, "| paper &amp; co | *0.41* ± 0.02 | −5.0 ± 1.2 |");
    assert_holds(&markdown, "- ✓ **metier leads** by 4 points");
    assert_int_equal(mt_render_latex(&page, NULL, &latex), MT_OK);
    assert_holds(&latex, "\\label{tab:main-results}");
    assert_holds(&latex, "\\caption{Main\\_results. Right answers, 100 \\%.}");
    assert_holds(&latex, "\\begin{tabular}{@{}lrr@{}}\n\\toprule\nmethod & gsm8k \\% & $\\Delta$ \\\\\n");
    assert_holds(&latex, "\\midrule\naux\\_1 & \\underline{${0.41} \\pm 0.01$} & ${+0.0} \\pm 1.2$ \\\\\n");
    assert_holds(&latex, "paper \\& co & ");
    assert_holds(&latex, "metier & $\\mathbf{0.50} \\pm 0.01$ & ${+4.2} \\pm 1.2^{*}$ \\\\\n");
    assert_holds(&latex, "late & $\\text{--}$ & ");
    assert_holds(&latex, "$\\frac{1}{n}\\sum_j x_{ij}^2 \\le \\alpha$ over seeds");
    assert_int_equal(mt_render_csv(table, &csv), MT_OK);
    assert_holds(&csv, "method,gsm8k %,gsm8k % ±,gsm8k % mark,Δ,Δ ±,Δ mark\r\n");
    assert_holds(&csv, "\r\nmetier,0.5,0.0149,best,4.21,1.25,p < 0.05\r\n");
    mt_output_free(&html);
    mt_output_free(&markdown);
    mt_output_free(&latex);
    mt_output_free(&csv);
    mt_page_free(&page);
    assert_int_equal(ctx.live_bytes, 0);
}

static void assert_text(void (*put)(struct mt_output *out, const char *text), const char *text,
                        const char *wanted)
{
    struct mt_context ctx;
    struct mt_output out;
    mt_context_init(&ctx, NULL);
    mt_output_init(&out, &ctx);
    put(&out, text);
    mt_put_bytes(&out, "", 1);
    assert_int_equal(out.status, MT_OK);
    assert_string_equal((const char *)out.text.data, wanted);
    mt_output_free(&out);
}

static void test_latex_texts(void **state)
{
    (void)state;
    assert_text(mt_put_latex, "a_b #1 {x} 50% $5 & \\end{table} ~^",
                "a\\_b \\#1 \\{x\\} 50\\% \\$5 \\& \\textbackslash{}end\\{table\\} \\textasciitilde{}"
                "\\textasciicircum{}");
    assert_text(mt_put_latex, "é ± – Δ --x", "é $\\pm$ -- $\\Delta$ -{}-x");
    assert_text(mt_put_latex, "中\t|", "[U+4E2D] \\textbar{}");
}

/* A formula of other TeX is text: nothing of it reaches the document as a command. */
static void test_formulas(void **state)
{
    (void)state;
    assert_text(mt_put_html_math, "so $x_i$.",
                "so <math><mrow><msub><mi>x</mi><mi>i</mi></msub></mrow></math>.");
    assert_text(mt_put_html_math, "$\\sqrt{a-2}$",
                "<math><mrow><msqrt><mrow><mi>a</mi><mo>−</mo><mn>2</mn></mrow></msqrt></mrow></math>");
    assert_text(mt_put_html_math, "$a<b$", "<math><mrow><mi>a</mi><mo>&lt;</mo><mi>b</mi></mrow></math>");
    assert_text(mt_put_html_math, "$5 and $6", "$5 and $6");
    assert_text(mt_put_html_math, "$\\input{x}$ <b>", "$\\input{x}$ &lt;b&gt;");
    assert_text(mt_put_html_math, "$\\frac{1}$", "$\\frac{1}$");
    assert_text(mt_put_html_math, "$x_$ $x_a_b$ ${$", "$x_$ $x_a_b$ ${$");
    assert_text(mt_put_latex_math, "$\\write18{x}$ 1 $x^2$", "\\$\\textbackslash{}write18\\{x\\}\\$ 1 $x^2$");
    assert_text(mt_put_latex_math, "$\\text{a}\\text{$}$",
                "\\$\\textbackslash{}text\\{a\\}\\textbackslash{}text\\{\\$\\}\\$");
    assert_text(mt_put_html_math, "${{{{{{{{{{{{{{{{{{{{x}}}}}}}}}}}}}}}}}}}}$",
                "${{{{{{{{{{{{{{{{{{{{x}}}}}}}}}}}}}}}}}}}}$");
}

/* Panels: a canvas each, rows that say to which they belong, one picture. */
static void test_panels(void **state)
{
    (void)state;
    struct mt_context ctx;
    struct mt_page page;
    struct mt_output html, png;
    mt_context_init(&ctx, NULL);
    mt_page_init(&page, &ctx, "T");
    struct mt_figure *bars = mt_page_figure(&page, &(struct mt_figure_head){.kind = MT_FIGURE_BARS,
                                                                            .title = "many",
                                                                            .series = "run",
                                                                            .x = "layer",
                                                                            .y = "value",
                                                                            .band = true,
                                                                            .panel = "figure"});
    for (int i = 0; i < 5; i++) {
        char name[8] = {(char)('a' + i), '\0'};
        mt_figure_panel(bars, name);
        mt_figure_bar(bars, "one", "1", i, i - 1, i + 1);
        mt_figure_bar(bars, "two", "1", i, (double)NAN, (double)NAN);
    }
    mt_output_init(&html, &ctx);
    mt_output_init(&png, &ctx);
    assert_int_equal(mt_page_status(&page), MT_OK);
    assert_int_equal(mt_figure_rows(bars), 10);
    assert_int_equal(mt_figure_panels(bars)->level_count, 5);
    assert_int_equal(mt_render_html(&page, &no_parts, &html), MT_OK);
    assert_holds(&html, "class=\"bars many\"");
    assert_holds(&html, "<h4>e</h4><div class=\"plot\"><canvas");
    assert_holds(&html, "{\"name\":\"figure\",\"levels\":[\"a\",\"b\",\"c\",\"d\",\"e\"]");
    assert_int_equal(mt_render_png(bars, &png), MT_OK);
    mt_output_free(&html);
    mt_output_free(&png);
    mt_page_free(&page);
    assert_int_equal(ctx.live_bytes, 0);
}

static enum mt_status render_all(struct mt_context *ctx, const void *self)
{
    (void)self;
    struct mt_page page;
    struct mt_output out[2];
    const struct mt_figure *table = fill(&page, ctx);
    for (int i = 0; i < 2; i++) mt_output_init(&out[i], ctx);
    enum mt_status status = mt_page_status(&page);
    if (status == MT_OK) status = mt_render_latex(&page, "pictures", &out[0]);
    if (status == MT_OK) status = mt_render_csv(table, &out[1]);
    for (int i = 0; i < 2; i++) mt_output_free(&out[i]);
    mt_page_free(&page);
    return status;
}

static void test_memory(void **state)
{
    (void)state;
    assert_every_allocation_may_fail(render_all, NULL, 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_marks),
        cmocka_unit_test(test_rank),
        cmocka_unit_test(test_every_renderer_shows_them),
        cmocka_unit_test(test_latex_texts),
        cmocka_unit_test(test_formulas),
        cmocka_unit_test(test_panels),
        cmocka_unit_test(test_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
