/*
 * Metrics on arrays small enough to be computed by hand, and on those that have nothing to say. Tests
 * src/analysis.
 */
#include <math.h>
#include <string.h>

#include "analysis/affinity.h"
#include "analysis/coupling.h"
#include "analysis/curves.h"
#include "analysis/drift.h"
#include "analysis/paths.h"
#include "analysis/pca.h"
#include "analysis/variance.h"
#include "base/rng.h"
#include "objective/loads.h"
#include "support/cmocka_all.h"
#include "support/every_allocation.h"

#define NEAR 1e-12

static void near(double got, double expected)
{
    assert_true(fabs(got - expected) <= NEAR * fmax(1.0, fabs(expected)));
}

static void test_load_by_hand(void **state)
{
    (void)state;
    struct mt_load_figures figures;
    const double load[] = {6.0, 1.0, 1.0, 0.0}; // mean 2
    mt_load_judge(load, 4, &figures);
    near(figures.max_violation, 2.0);
    near(figures.max_violation_code, 2.0);
    near(figures.min, 0.0);
    near(figures.entropy, -(0.75 * log(0.75) + 2.0 * 0.125 * log(0.125)));
    // Differences of pairs: 5 5 6 0 1 1 = 18, over n Σc = 32.
    near(mt_load_gini(load, 4), 18.0 / 32.0);
    const double idle[] = {3.0, 3.0, 3.0,
                           0.0}; // mean 2.25: the idle expert is farther off than the busy ones
    mt_load_judge(idle, 4, &figures);
    near(figures.max_violation, 0.75 / 2.25);
    near(figures.max_violation_code, 1.0);
}

static void test_paths_by_hand(void **state)
{
    (void)state;
    struct mt_context ctx;
    struct mt_path_figures figures;
    mt_context_init(&ctx, NULL);
    // First choices 0 0 1 1, then 2 2 2 3: pairs (0,2) twice, (1,2), (1,3). Second choices do not count.
    const uint16_t before[] = {0, 9, 0, 8, 1, 7, 1, 6};
    const uint16_t here[] = {2, 0, 2, 1, 2, 0, 3, 1};
    assert_int_equal(mt_paths(&ctx, before, here, 4, 2, 10, &figures), MT_OK);
    near(figures.entropy, 0.5 * log(2.0) + 2.0 * 0.25 * log(4.0));
    near(figures.information,
         0.5 * log(0.5 / (0.5 * 0.75)) + 0.25 * log(0.25 / (0.5 * 0.75)) + 0.25 * log(0.25 / (0.5 * 0.25)));
    // Every pair once: independent. The same expert again: all that there is to know.
    const uint16_t one[] = {0, 0, 1, 1};
    const uint16_t other[] = {0, 1, 0, 1};
    assert_int_equal(mt_paths(&ctx, one, other, 4, 1, 2, &figures), MT_OK);
    near(figures.entropy, log(4.0));
    near(figures.information, 0.0);
    assert_int_equal(mt_paths(&ctx, one, one, 4, 1, 2, &figures), MT_OK);
    near(figures.entropy, log(2.0));
    near(figures.information, log(2.0));
    assert_int_equal(mt_paths(&ctx, one, one, 0, 1, 2, &figures), MT_OK);
    assert_true(isnan(figures.entropy) && isnan(figures.information));
    assert_int_equal(ctx.live_bytes, 0);
}

static void test_coupling_by_hand(void **state)
{
    (void)state;
    struct mt_coupling_figures figures;
    // Rows (1, 0), (0, 2), (-3, 0): cos 0, -1, 0.
    const float gram[] = {1.0f, 0.0f, -3.0f, 0.0f, 4.0f, 0.0f, -3.0f, 0.0f, 9.0f};
    mt_coupling_rows(gram, 3, &figures);
    near(figures.row_cos, -1.0 / 3.0);
    near(figures.row_abs_cos, 1.0 / 3.0);
    // Only expert 0 has the largest of its row and of its column: 2 is beaten in its column, 1 in its row.
    const double norms[] = {5.0, 1.0, 2.0, 4.0, 3.0, 1.0, 0.0, 2.0, 1.0};
    mt_coupling_norms(norms, 3, &figures);
    near(figures.diagonal, 1.0 / 3.0);
    near(figures.dominance, (9.0 / 3.0) / (10.0 / 6.0));
    // Alike in everything: nobody is the largest, nothing dominates.
    const double alike[] = {2.0, 2.0, 2.0, 2.0};
    mt_coupling_norms(alike, 2, &figures);
    near(figures.diagonal, 0.0);
    near(figures.dominance, 1.0);
    const float dead[] = {0.0f, 0.0f, 0.0f, 1.0f};
    mt_coupling_rows(dead, 2, &figures);
    near(figures.row_abs_cos, 0.0);
    mt_coupling_rows(dead, 1, &figures);
    mt_coupling_norms(alike, 1, &figures);
    assert_true(isnan(figures.row_cos) && isnan(figures.dominance));
}

static void test_load_degenerate(void **state)
{
    (void)state;
    struct mt_load_figures figures;
    const double nothing[3] = {0};
    mt_load_judge(nothing, 3, &figures);
    assert_true(figures.max_violation == 0.0 && figures.max_violation_code == 0.0 && figures.entropy == 0.0);
    assert_true(mt_load_gini(nothing, 3) == 0.0);
    const double one[] = {0.0, 9.0, 0.0};
    mt_load_judge(one, 3, &figures);
    near(figures.max_violation, 2.0);
    near(figures.entropy, 0.0);
    near(mt_load_gini(one, 3), 1.0 - 1.0 / 3.0);
    const double even[] = {5.0, 5.0, 5.0};
    mt_load_judge(even, 3, &figures);
    near(figures.max_violation_code, 0.0);
    near(figures.min, 1.0);
    near(figures.entropy, log(3.0));
    near(mt_load_gini(even, 3), 0.0);
}

struct variance_numbers {
    struct mt_any_order numbers[4][4];
    struct mt_variance_sums sums;
};

static void variance_open(struct variance_numbers *v)
{
    memset(v, 0, sizeof *v);
    v->sums = (struct mt_variance_sums){.score = v->numbers[0],
                                        .share = v->numbers[1],
                                        .weight = v->numbers[2],
                                        .weight_square = v->numbers[3]};
}

static void test_variance_by_hand(void **state)
{
    (void)state;
    static const float scores[2][4] = {{0.5f, 0.25f, 0.25f, 0.0f}, {0.0f, 0.0f, 0.0f, 2.0f}}; // sums 1 and 2
    static const int32_t experts[2][2] = {{0, 1}, {3, -1}};
    static const float weights[2][2] = {{0.5f, 0.25f}, {2.0f, 0.5f}};
    struct variance_numbers whole;
    struct variance_numbers part;
    variance_open(&whole);
    variance_open(&part);
    mt_variance_add(&whole.sums, 4, scores[0], 2, experts[0], weights[0]);
    mt_variance_add(&whole.sums, 4, scores[1], 2, experts[1], weights[1]);
    struct mt_variance_figures figures = mt_variance_finish(&whole.sums, 4);
    // Rows: mean 0.25, squares 1/16 + 1/16 = 1/8; mean 0.5, squares 3/4 + 9/4 = 3; divisor 3.
    near(figures.token, (0.125 / 3.0 + 1.0) / 2.0);
    // Columns of weights: (0.5, 0), (0.25, 0), (0, 0), (0, 2): a quarter of the difference squared.
    near(figures.expert, (0.0625 + 0.015625 + 0.0 + 1.0) / 4.0);
    // Mean shares: 0.25, 0.125, 0.125, 0.5.
    near(figures.appendix, (0.0 + 2.0 * 0.125 * 0.125 + 0.25 * 0.25) / 4.0);
    // Shares of weights: 2/3, 1/3; 4/5, 1/5, whoever was dropped. Shares of scores: 1/2, 1/4, 1/4; 1.
    near(figures.effective_experts, 2.0 / (5.0 / 9.0 + 17.0 / 25.0));
    near(figures.effective_scores, 2.0 / (0.375 + 1.0));
    mt_variance_add(&part.sums, 4, scores[1], 2, experts[1], weights[1]);
    struct variance_numbers merged;
    variance_open(&merged);
    mt_variance_add(&merged.sums, 4, scores[0], 2, experts[0], weights[0]);
    mt_variance_merge(&merged.sums, 4, &part.sums);
    struct mt_variance_figures again = mt_variance_finish(&merged.sums, 4);
    near(again.token, figures.token);
    near(again.expert, figures.expert);
    near(again.appendix, figures.appendix);
    near(again.effective_experts, figures.effective_experts);
    near(again.effective_scores, figures.effective_scores);
}

static void test_variance_without_tokens(void **state)
{
    (void)state;
    struct variance_numbers none;
    variance_open(&none);
    struct mt_variance_figures figures = mt_variance_finish(&none.sums, 4);
    assert_true(isnan(figures.token) && isnan(figures.expert) && isnan(figures.appendix));
    assert_true(isnan(figures.effective_experts) && isnan(figures.effective_scores));
}

static void test_affinity(void **state)
{
    (void)state;
    double share[6];
    double preference[6];
    const double own[] = {4.0, 0.0, 0.0, 0.0, 0.0, 7.0}; // each domain its own expert
    near(mt_affinity(own, 2, 3, share, preference), log(2.0));
    assert_true(share[0] == 1.0 && share[5] == 1.0 && share[1] == 0.0);
    assert_true(preference[0] == 1.0 && preference[1] == 0.0 && preference[4] == 0.0);
    const double alike[] = {1.0, 2.0, 1.0, 10.0, 20.0, 10.0};
    near(mt_affinity(alike, 2, 3, share, preference), 0.0);
    near(share[4], 0.5);
    near(preference[4], 0.5);
    const double empty[] = {1.0, 2.0, 1.0, 0.0, 0.0, 0.0}; // a domain without tokens does not count
    near(mt_affinity(empty, 2, 3, share, preference), 0.0);
    near(preference[1], 1.0);
}

/* 90 % of the slots: experts 0 and 1; 1 and 2; 0 to 2. */
static void test_serving(void **state)
{
    (void)state;
    bool member[12];
    const double load[] = {5.0, 4.0, 1.0, 0.0, 0.0, 5.0, 5.0, 0.0, 3.0, 3.0, 3.0, 1.0};
    struct mt_serving three = mt_serving(load, 3, 4, member);
    near(three.jaccard, (1.0 / 3.0 + 2.0 / 3.0 + 2.0 / 3.0) / 3.0);
    near(three.together, 0.75);
    const double empty[] = {5.0, 4.0, 1.0, 0.0, 0.0, 0.0, 0.0, 0.0, 5.0, 4.0, 0.0, 1.0};
    struct mt_serving same = mt_serving(empty, 3, 4, member); // a domain without tokens does not count
    near(same.jaccard, 1.0);
    near(same.together, 0.5);
    struct mt_serving one = mt_serving(load, 1, 4, member);
    assert_true(isnan(one.jaccard) && one.together == 0.5);
    assert_true(isnan(mt_serving((const double[4]){0}, 1, 4, member).together));
}

static void test_drift(void **state)
{
    (void)state;
    struct mt_drift_figures figures;
    const double load[] = {1.0, 1.0, 2.0};
    const double base[] = {4.0, 4.0, 0.0};
    near(mt_drift_load(load, base, 3), 0.5);
    near(mt_drift_load(base, base, 3), 0.0);
    const double nothing[3] = {0};
    assert_true(isnan(mt_drift_load(load, nothing, 3)));
    const uint16_t now[] = {0, 1, 2, 3, 4, 5};
    const uint16_t then[] = {1, 0, 2, 5, 0, 1}; // the same set in another order; one changed; both changed
    mt_drift_choices(now, then, 3, 2, &figures);
    near(figures.sets_changed, 2.0 / 3.0);
    near(figures.slots_changed, 3.0 / 6.0);
    mt_drift_choices(now, then, 0, 2, &figures);
    assert_true(isnan(figures.sets_changed));
    const float weights[] = {3.0f, 4.0f, 1.0f};
    const float before[] = {3.0f, 4.0f, 0.0f};
    const float zero[3] = {0};
    near(mt_drift_weights(weights, before, 3), 0.2);
    assert_true(isnan(mt_drift_weights(weights, zero, 3)));
}

static void test_curves(void **state)
{
    (void)state;
    const double x[] = {0.0, 1.0, 2.0, 3.0};
    const double a[] = {1.0, 2.0, NAN, 4.0};
    const double b[] = {1.0, 4.0, 0.0, 0.0};
    size_t points = 0;
    struct mt_curve one = {4, x, a};
    struct mt_curve other = {4, x, b};
    near(mt_curves_rmse(&one, &other, &points), sqrt((0.0 + 4.0 + 16.0) / 3.0));
    assert_int_equal(points, 3);
    const double coarse_x[] = {0.5, 2.5};
    const double coarse_y[] = {0.0, 4.0}; // at 1: 1, at 2: 3
    struct mt_curve coarse = {2, coarse_x, coarse_y};
    near(mt_curves_rmse(&other, &coarse, &points), sqrt((9.0 + 9.0) / 2.0));
    assert_int_equal(points, 2);
    struct mt_curve empty = {0, NULL, NULL};
    assert_true(isnan(mt_curves_rmse(&one, &empty, &points)));
    assert_int_equal(points, 0);
}

static void test_eigen(void **state)
{
    (void)state;
    double matrix[] = {2.0, 1.0, 0.0, 1.0, 2.0, 0.0, 0.0, 0.0, -5.0}; // 3, 1, -5
    double values[3];
    double vectors[9];
    mt_eigen_symmetric(matrix, 3, values, vectors);
    near(values[0], 3.0);
    near(values[1], 1.0);
    near(values[2], -5.0);
    near(fabs(vectors[0]), sqrt(0.5));
    near(vectors[0] - vectors[1], 0.0);
    near(fabs(vectors[8]), 1.0);
}

enum { POINTS = 40, WIDTH = 17 };

static void test_pca_of_a_plane(void **state)
{
    (void)state;
    struct mt_context ctx;
    struct mt_pca pca;
    float data[POINTS * WIDTH] = {0};
    mt_context_init(&ctx, NULL);
    // Spread 9:1 along coordinates 3 and 11, of opposite sign in the first, and far from the origin.
    for (int i = 0; i < POINTS; i++) {
        double angle = 2.0 * 3.14159265358979323846 * i / POINTS;
        data[i * WIDTH + 3] = (float)(100.0 - 3.0 * cos(angle));
        data[i * WIDTH + 11] = (float)sin(angle);
    }
    assert_int_equal(mt_pca_find(&ctx, data, POINTS, WIDTH, 3, 5, &pca), MT_OK);
    assert_int_equal(pca.components, 3);
    assert_true(fabs(pca.variance[0] - 9.0 * POINTS / 2.0 / (POINTS - 1)) < 1e-4);
    assert_true(fabs(pca.variance[1] - 1.0 * POINTS / 2.0 / (POINTS - 1)) < 1e-4);
    assert_true(pca.variance[2] < 1e-9);
    assert_true(fabs(pca.axes[3] - 1.0) < 1e-5); // the largest entry is positive
    assert_true(fabs(pca.axes[WIDTH + 11] - 1.0) < 1e-5);
    assert_true(fabs(pca.points[0] + 3.0) < 1e-4);
    assert_true(fabs(pca.total_variance - pca.variance[0] - pca.variance[1]) < 1e-9);
    mt_pca_free(&pca);
    assert_int_equal(ctx.live_bytes, 0);
}

static void test_pca_degenerate(void **state)
{
    (void)state;
    struct mt_context ctx;
    struct mt_pca pca;
    float same[POINTS * WIDTH];
    mt_context_init(&ctx, NULL);
    for (int i = 0; i < POINTS * WIDTH; i++) same[i] = 2.5f;
    assert_int_equal(mt_pca_find(&ctx, same, POINTS, WIDTH, 2, 1, &pca), MT_OK);
    assert_true(pca.variance[0] == 0.0 && pca.total_variance == 0.0 && pca.points[7] == 0.0);
    mt_pca_free(&pca);
    assert_int_equal(mt_pca_find(&ctx, same, 2, 1, 5, 1, &pca), MT_OK);
    assert_int_equal(pca.components, 1); // no more directions than there are
    mt_pca_free(&pca);
    assert_int_equal(mt_pca_find(&ctx, same, 1, WIDTH, 2, 1, &pca), MT_ERR_USAGE);
    assert_non_null(strstr(ctx.message, "two points"));
    same[5] = NAN;
    assert_int_equal(mt_pca_find(&ctx, same, POINTS, WIDTH, 2, 1, &pca), MT_ERR_NUMERIC);
    assert_int_equal(ctx.live_bytes, 0);
}

static enum mt_status find_pca(struct mt_context *ctx, const void *self)
{
    struct mt_pca pca;
    enum mt_status status = mt_pca_find(ctx, self, POINTS, WIDTH, 2, 1, &pca);
    mt_pca_free(&pca);
    return status;
}

static void test_pca_memory(void **state)
{
    (void)state;
    float data[POINTS * WIDTH];
    for (int i = 0; i < POINTS * WIDTH; i++) data[i] = mt_rng_normal(1, 2, (uint64_t)i);
    assert_every_allocation_may_fail(find_pca, data, 2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_load_by_hand),
        cmocka_unit_test(test_load_degenerate),
        cmocka_unit_test(test_paths_by_hand),
        cmocka_unit_test(test_coupling_by_hand),
        cmocka_unit_test(test_variance_by_hand),
        cmocka_unit_test(test_variance_without_tokens),
        cmocka_unit_test(test_affinity),
        cmocka_unit_test(test_serving),
        cmocka_unit_test(test_drift),
        cmocka_unit_test(test_curves),
        cmocka_unit_test(test_eigen),
        cmocka_unit_test(test_pca_of_a_plane),
        cmocka_unit_test(test_pca_degenerate),
        cmocka_unit_test(test_pca_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
