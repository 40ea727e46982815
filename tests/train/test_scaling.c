/* What a step on many ranks is predicted to take: identities that hold whatever the constants. */
#include "train/scaling.h"

#include <string.h>

#include "support/cmocka_all.h"
#include "support/small_models.h"

static struct mt_hf_config small(struct mt_context *ctx)
{
    struct mt_hf_config config;
    const char *text = small_model_config(&mt_arch_deepseek_v3);
    mt_context_init(ctx, NULL);
    assert_int_equal(mt_hf_config_read(ctx, "config.json", text, strlen(text), &config), MT_OK);
    return config;
}

static const struct mt_cluster cluster = {.flops = 1e12, .wire = {.bandwidth = 1e9, .latency = 1e-6}};

/* LoRA pairs of rank 4 on every linear layer. */
static void add_pairs(const struct mt_hf_config *config, struct mt_layout *layout)
{
    struct mt_model_memory memory;
    mt_model_memory(config, 0, 4, 64, &memory);
    double experts = (double)memory.adapters[MT_PART_EXPERTS];
    double common = (double)memory.all_adapters - experts;
    bool spread = layout->expert_ranks > 1;
    layout->trained_experts = experts;
    layout->trained_rest = common;
    layout->common_bytes = 4.0 * (spread ? common : common + experts);
    layout->own_bytes = spread ? 4.0 * experts / (double)layout->expert_ranks : 0.0;
}

static struct mt_scaling predict(const struct mt_hf_config *config, int64_t ranks, int64_t experts,
                                 double violation)
{
    struct mt_scaling scaling;
    const struct mt_layout layout = {.ranks = ranks,
                                     .expert_ranks = experts,
                                     .tokens = 64,
                                     .length = 32,
                                     .row_bytes = 4,
                                     .max_violation = violation};
    struct mt_layout with_pairs = layout;
    add_pairs(config, &with_pairs);
    mt_scaling_predict(config, &cluster, &with_pairs, &scaling);
    return scaling;
}

/* One rank sends nothing and waits for nobody, however its loads lie. */
static void one_rank_is_arithmetic(void **state)
{
    (void)state;
    struct mt_context ctx;
    struct mt_hf_config config = small(&ctx);
    struct mt_scaling one = predict(&config, 1, 1, 0.7);
    assert_true(one.gradient_bytes == 0.0 && one.expert_bytes == 0.0 && one.statistics_bytes == 0.0);
    assert_true(one.balanced == one.compute && one.hot_rank == one.balanced && one.efficiency == 1.0);
    mt_hf_config_free(&config);
}

/* Bytes as the formulas say; experts are shared with all that learns beside them, nothing else is. */
static void many_ranks_share(void **state)
{
    (void)state;
    struct mt_context ctx;
    struct mt_hf_config config = small(&ctx);
    struct mt_model_count count;
    struct mt_model_memory memory;
    mt_model_count(&config, &count);
    mt_model_memory(&config, 0, 4, 64, &memory);
    struct mt_scaling one = predict(&config, 1, 1, 0.0);
    struct mt_scaling dp = predict(&config, 4, 1, 0.0);
    struct mt_scaling ep = predict(&config, 4, 2, 0.0);
    assert_true(dp.gradient_bytes == 1.5 * 4.0 * (double)memory.all_adapters);
    // Two ranks hold the same half of the experts' pairs, four all others.
    double experts = (double)memory.adapters[MT_PART_EXPERTS];
    double common = (double)memory.all_adapters - experts;
    assert_true(ep.gradient_bytes == 4.0 * (1.5 * common + 1.0 * experts / 2.0) && dp.expert_bytes == 0.0);
    // Nobody else holds a quarter of them: it is never added up.
    struct mt_scaling whole = predict(&config, 4, 4, 0.0);
    assert_true(whole.gradient_bytes == 4.0 * 1.5 * common);
    double rows = 64.0 * (double)config.experts_per_token;
    assert_true(ep.expert_bytes ==
                5.0 * (double)count.moe_layers * rows * (double)config.hidden_size * 4.0 / 2.0);
    assert_true(ep.balanced > dp.balanced && dp.balanced >= one.balanced);
    mt_hf_config_free(&config);
}

/* Imbalance costs nothing where everybody has all experts, and more the more of a rank is hot. */
static void imbalance_costs(void **state)
{
    (void)state;
    struct mt_context ctx;
    struct mt_hf_config config = small(&ctx);
    struct mt_scaling dp = predict(&config, 4, 1, 0.5);
    struct mt_scaling ep = predict(&config, 4, 2, 0.5);
    struct mt_scaling even = predict(&config, 4, 2, 0.0);
    assert_true(dp.hot_rank == dp.balanced);
    assert_true(ep.balanced == even.balanced && even.hot_rank == even.balanced);
    assert_true(ep.hot_expert > ep.balanced && ep.hot_rank > ep.hot_expert);
    assert_true(even.hot_rank_bytes == even.expert_bytes && even.hot_expert_bytes == even.expert_bytes);
    // Of two ranks one has three quarters of the rows: what it sends less, the other sends more.
    assert_true(ep.hot_rank_bytes == (3.0 * 0.25 + 2.0 * 0.75) / 2.5 * even.expert_bytes);
    // Of four it has 3/8, and what comes back of the other three's rows is more than its own need.
    struct mt_scaling four = predict(&config, 4, 4, 0.5);
    assert_true(four.hot_rank_bytes == (3.0 * 0.625 + 2.0 * 3.0 * 0.375) / 3.75 * four.expert_bytes);
    assert_true(dp.hot_rank_bytes == 0.0 && dp.hot_expert_bytes == 0.0);
    mt_hf_config_free(&config);
}

/* What learns costs half as much again as what does not; attention grows with the sequence, nothing else. */
static void arithmetic_is_counted(void **state)
{
    (void)state;
    struct mt_context ctx;
    struct mt_hf_config config = small(&ctx);
    struct mt_model_count count;
    struct mt_model_memory memory;
    mt_model_count(&config, &count);
    mt_model_memory(&config, 0, 4, 64, &memory);
    double experts = (double)memory.adapters[MT_PART_EXPERTS];
    double chosen = (double)config.experts_per_token / (double)config.experts;
    double frozen = (double)(count.all_active - count.active[MT_PART_EMBEDDING]);
    double pairs = (double)memory.all_adapters - experts + chosen * experts;
    double heads = (double)(config.layers * config.heads * (config.head_dim + config.v_head_dim));
    double expected = 64.0 * (4.0 * frozen + 6.0 * pairs + 3.0 * 32.0 * heads);
    struct mt_scaling one = predict(&config, 1, 1, 0.0);
    assert_true(one.flops > expected * (1.0 - 1e-12) && one.flops < expected * (1.0 + 1e-12));
    assert_true(one.compute == one.flops / cluster.flops);
    // What is made again costs a forward more: of the experts alone, or of all but the head.
    struct mt_layout layout = {.ranks = 1,
                               .expert_ranks = 1,
                               .tokens = 64,
                               .length = 32,
                               .row_bytes = 4,
                               .recompute = MT_RECOMPUTE_MOE};
    struct mt_scaling again;
    add_pairs(&config, &layout);
    mt_scaling_predict(&config, &cluster, &layout, &again);
    double routed = (double)count.active[MT_PART_EXPERTS] + chosen * experts;
    expected += 64.0 * 2.0 * routed;
    assert_true(again.flops > expected * (1.0 - 1e-12) && again.flops < expected * (1.0 + 1e-12));
    layout.recompute = MT_RECOMPUTE_FULL;
    mt_scaling_predict(&config, &cluster, &layout, &again);
    double rest = frozen + pairs - routed - (double)count.active[MT_PART_LM_HEAD];
    expected += 64.0 * (2.0 * rest + 32.0 * heads);
    assert_true(again.flops > expected * (1.0 - 1e-12) && again.flops < expected * (1.0 + 1e-12));
    // Weights that learn themselves: 6 operations each, and no pairs.
    layout.recompute = MT_RECOMPUTE_NONE;
    layout.full = true;
    layout.trained_experts = (double)count.total[MT_PART_EXPERTS];
    layout.trained_rest = frozen - (double)count.active[MT_PART_EXPERTS];
    mt_scaling_predict(&config, &cluster, &layout, &again);
    expected = 64.0 * (6.0 * frozen + 3.0 * 32.0 * heads);
    assert_true(again.flops > expected * (1.0 - 1e-12) && again.flops < expected * (1.0 + 1e-12));
    mt_hf_config_free(&config);
}

/* A wire that is fast enough hides all journeys but the last, where there are shared experts; without these
 * one. */
static void rows_hide(void **state)
{
    (void)state;
    struct mt_context ctx;
    struct mt_hf_config config = small(&ctx);
    struct mt_cluster fast = cluster;
    struct mt_layout layout = {.ranks = 2, .expert_ranks = 2, .tokens = 64, .length = 32, .row_bytes = 4};
    struct mt_scaling found;
    add_pairs(&config, &layout);
    fast.wire = (struct mt_wire){.bandwidth = 1e15, .latency = 0.0};
    mt_scaling_predict(&config, &fast, &layout, &found);
    assert_true(found.experts > 0.0 && found.hidden > 0.7999 * found.experts &&
                found.hidden < 0.8001 * found.experts);
    config.shared_experts = 0;
    config.shared_width = 0;
    mt_scaling_predict(&config, &fast, &layout, &found);
    assert_true(found.hidden > 0.1999 * found.experts && found.hidden < 0.2001 * found.experts);
    assert_true(found.balanced ==
                found.compute + found.experts - found.hidden + found.gradients + found.statistics);
    // A slow one hides no more than the work there is.
    fast.wire.bandwidth = 1.0;
    mt_scaling_predict(&config, &fast, &layout, &found);
    assert_true(found.hidden > 0.0 && found.hidden < found.compute);
    mt_hf_config_free(&config);
}

/* Neighbours on a machine have a faster wire: experts shared within one use no other. */
static void machines_have_their_own_wire(void **state)
{
    (void)state;
    struct mt_context ctx;
    struct mt_hf_config config = small(&ctx);
    struct mt_cluster nodes = cluster;
    struct mt_scaling near;
    struct mt_scaling far;
    struct mt_scaling mixed;
    struct mt_layout layout = {.ranks = 8, .expert_ranks = 2, .tokens = 64, .length = 32, .row_bytes = 4};
    add_pairs(&config, &layout);
    nodes.node = (struct mt_wire){.bandwidth = 1e10, .latency = 1e-7};
    mt_scaling_predict(&config, &nodes, &layout, &far);
    nodes.node_ranks = 2;
    mt_scaling_predict(&config, &nodes, &layout, &near);
    assert_true(near.expert_bytes == far.expert_bytes && near.gradient_bytes == far.gradient_bytes);
    assert_true(near.experts > 0.0999 * far.experts && near.experts < 0.1001 * far.experts);
    layout.expert_ranks = 4;
    mt_scaling_predict(&config, &nodes, &layout, &mixed);
    nodes.node_ranks = 0;
    mt_scaling_predict(&config, &nodes, &layout, &far);
    // One peer of three is near.
    assert_true(mixed.experts > 0.6999 * far.experts && mixed.experts < 0.7001 * far.experts);
    mt_hf_config_free(&config);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_rank_is_arithmetic),
        cmocka_unit_test(many_ranks_share),
        cmocka_unit_test(imbalance_costs),
        cmocka_unit_test(arithmetic_is_counted),
        cmocka_unit_test(machines_have_their_own_wire),
        cmocka_unit_test(rows_hide),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
