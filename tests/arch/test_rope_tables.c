/*
 * Rotary positions: frequencies, magnitudes and the factor of scores, against numbers published with the
 * models and against transformers 5; angles at far positions are PyTorch's to the bit. Tests src/arch/rope.c.
 */
#include "arch/rope.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "arch/desc.h"
#include "support/cmocka_all.h"
#include "support/model_configs.h"
#include "support/small_models.h"

struct described {
    struct mt_context ctx;
    struct mt_hf_config config;
    struct mt_model_desc desc;
};

static void describe(const char *text, struct described *described)
{
    mt_context_init(&described->ctx, NULL);
    assert_int_equal(
        mt_hf_config_read(&described->ctx, "config.json", text, strlen(text), &described->config), MT_OK);
    assert_int_equal(mt_model_describe(&described->ctx, &described->config, &described->desc), MT_OK);
}

static void close(struct described *described)
{
    mt_hf_config_free(&described->config);
    assert_int_equal(described->ctx.live_bytes, 0);
}

static void near(double got, double wanted, double relative)
{
    if (!(fabs(got - wanted) <= relative * fabs(wanted))) fail_msg("%.10g, expected %.10g", got, wanted);
}

static void v2_lite(void **state)
{
    (void)state;
    static const struct {
        int64_t pair;
        double frequency;
    } wanted[] = {{10, 0.056234133},  {11, 0.039006927},  {16, 0.0055},
                  {22, 1.7782794e-4}, {23, 3.3338036e-5}, {31, 3.3338036e-6}};
    struct described v2;
    describe(model_config_text(&mt_arch_deepseek_v2), &v2);
    for (size_t i = 0; i < sizeof wanted / sizeof wanted[0]; i++) {
        near((double)mt_rope_frequency(&v2.config.rope, wanted[i].pair, 32, false), wanted[i].frequency,
             1.2e-7);
    }
    near(mt_rope_magnitude(&v2.config.rope, 163840, false), 1.0, 1e-15);
    near(mt_rope_score_factor(&v2.config.rope), 1.5896261651, 1e-9);
    near((double)v2.desc.score_scale, 0.1147213868, 1e-7);
    close(&v2);
}

static void moonlight(void **state)
{
    (void)state;
    struct described v3;
    describe(model_config_text(&mt_arch_deepseek_v3), &v3);
    near((double)v3.desc.score_scale, 1.0 / sqrt(192.0), 1e-7);
    near((double)mt_rope_frequency(&v3.config.rope, 31, 32, false), pow(50000.0, -31.0 / 32.0), 1.2e-7);
    close(&v3);
}

/* The magnitude comes from the config, at short lengths too; the factors change beyond the original length.
 */
static void phi(void **state)
{
    (void)state;
    struct described phi;
    describe(model_config_text(&mt_arch_phimoe), &phi);
    const struct mt_hf_rope *rope = &phi.config.rope;
    near(mt_rope_magnitude(rope, 131072, false), 1.243163121016122, 1e-15);
    near((double)mt_rope_frequency(rope, 3, 64, false), pow(10000.0, -3.0 / 64.0), 1.2e-7);
    near((double)mt_rope_frequency(rope, 3, 64, true), pow(10000.0, -3.0 / 64.0) / 1.05, 1.2e-7);
    near((double)phi.desc.score_scale, 1.0 / sqrt(128.0), 1e-7);
    close(&phi);
}

static void against_transformers(void **state)
{
    (void)state;
    static const char qwen_yarn[] =
        "{\"model_type\": \"qwen3_moe\", \"head_dim\": 16, \"hidden_size\": 32, \"intermediate_size\": 8,"
        " \"max_position_embeddings\": 4096, \"moe_intermediate_size\": 8, \"num_attention_heads\": 4,"
        " \"num_experts\": 4, \"num_experts_per_tok\": 2, \"num_hidden_layers\": 1, \"vocab_size\": 8,"
        " \"rope_parameters\": {\"rope_type\": \"yarn\", \"rope_theta\": 1e6, \"factor\": 4.0,"
        " \"original_max_position_embeddings\": 1024}}";
    static const char mixtral_long[] =
        "{\"model_type\": \"mixtral\", \"hidden_size\": 16, \"intermediate_size\": 8,"
        " \"max_position_embeddings\": 4096, \"num_attention_heads\": 4, \"num_key_value_heads\": 4,"
        " \"num_local_experts\": 4, \"num_experts_per_tok\": 2, \"num_hidden_layers\": 1, \"vocab_size\": 8,"
        " \"rope_parameters\": {\"rope_type\": \"longrope\", \"rope_theta\": 1e4,"
        " \"short_factor\": [1.0, 1.5], \"long_factor\": [2.0, 3.0],"
        " \"original_max_position_embeddings\": 1024}}";
    static const double qwen[] = {1.0,     0.133370951,    0.0158113893,   0.00140585331,
                                  0.00025, 4.44569851e-05, 7.90569356e-06, 1.40585337e-06};
    static const double v2[] = {1.0, 0.00580198551, 0.000269304292};
    struct described model;
    describe(qwen_yarn, &model);
    for (int i = 0; i < 8; i++)
        near((double)mt_rope_frequency(&model.config.rope, i, 8, false), qwen[i], 1.2e-7);
    near(mt_rope_magnitude(&model.config.rope, 4096, false), 1.138629436111989, 1e-15);
    near((double)model.desc.score_scale, 0.25, 1e-7); // mscale² is for latent attention alone
    close(&model);
    describe(small_model_config(&mt_arch_deepseek_v2), &model);
    for (int i = 0; i < 3; i++)
        near((double)mt_rope_frequency(&model.config.rope, i, 3, false), v2[i], 1.2e-7);
    near(mt_rope_magnitude(&model.config.rope, 256, false), 1.0363043383779544, 1e-15);
    near((double)model.desc.score_scale, 0.32807744843724246, 1e-7);
    close(&model);
    describe(mixtral_long, &model);
    near((double)mt_rope_frequency(&model.config.rope, 1, 2, false), 0.00666666683, 1.2e-7);
    near((double)mt_rope_frequency(&model.config.rope, 1, 2, true), 0.01 / 3.0, 1.2e-7);
    near(mt_rope_magnitude(&model.config.rope, 4096, false), 1.0954451150103321, 1e-15);
    close(&model);
    describe(small_model_config(&mt_arch_deepseek), &model);
    near((double)mt_rope_frequency(&model.config.rope, 1, 2, false), 0.005, 1.2e-7); // linear, factor 2
    close(&model);
}

/* "truncate": false as gpt-oss has it: pairs 8 to 18 are between the bounds, which are no whole numbers. */
static void unrounded_bounds(void **state)
{
    (void)state;
    static const char text[] =
        "{\"model_type\": \"qwen3_moe\", \"head_dim\": 64, \"hidden_size\": 32, \"intermediate_size\": 8,"
        " \"max_position_embeddings\": 131072, \"moe_intermediate_size\": 8, \"num_attention_heads\": 4,"
        " \"num_experts\": 4, \"num_experts_per_tok\": 2, \"num_hidden_layers\": 1, \"vocab_size\": 8,"
        " \"rope_theta\": 150000, \"rope_scaling\": {\"rope_type\": \"yarn\", \"factor\": 32.0,"
        " \"beta_fast\": 32.0, \"beta_slow\": 1.0, \"original_max_position_embeddings\": 4096,"
        " \"truncate\": false}}";
    static const struct {
        int64_t pair;
        double frequency; // of transformers' GptOssConfig()
    } wanted[] = {{0, 1.0},
                  {8, 0.0508132726},
                  {9, 0.0317056961},
                  {12, 0.00679495931},
                  {15, 0.00105260219},
                  {17, 0.000129318694},
                  {18, 3.83088118e-05},
                  {31, 3.0235114e-07}};
    struct described model;
    describe(text, &model);
    for (size_t i = 0; i < sizeof wanted / sizeof wanted[0]; i++)
        near((double)mt_rope_frequency(&model.config.rope, wanted[i].pair, 32, false), wanted[i].frequency,
             1.2e-7);
    near(mt_rope_magnitude(&model.config.rope, 131072, false), 1.3465735902799727, 1e-15);
    close(&model);
}

/* cos and sin of position · frequency, magnitude inside; long factors beyond the original length. */
static void tables(void **state)
{
    (void)state;
    struct described phi;
    describe(small_model_config(&mt_arch_phimoe), &phi);
    const struct mt_hf_rope *rope = &phi.config.rope;
    for (int extended = 0; extended < 2; extended++) {
        int64_t positions = extended ? 33 : 32;
        float cosine[(32 + 33) * 2];
        float sine[(32 + 33) * 2];
        int64_t start = extended ? 32 : 0;
        assert_int_equal(mt_rope_rows(phi.desc.config, positions), start + positions);
        assert_int_equal(mt_rope_start(phi.desc.config, positions), start);
        assert_int_equal(mt_rope_start(phi.desc.config, 32), 0);
        mt_rope_tables(phi.desc.config, phi.desc.rope_width, positions, cosine, sine);
        for (int64_t row = 0; row < start + positions; row++) {
            bool is_long = extended && row >= start; // short sequences keep their factors beside long ones
            float magnitude = is_long ? 1.3f : 1.243163121016122f;
            for (int64_t pair = 0; pair < 2; pair++) {
                float angle =
                    (float)(is_long ? row - start : row) * mt_rope_frequency(rope, pair, 2, is_long);
                assert_true(cosine[row * 2 + pair] == magnitude * (float)cos((double)angle));
                assert_true(sine[row * 2 + pair] == magnitude * (float)sin((double)angle));
            }
        }
    }
    close(&phi);
}

/* What PyTorch makes of far positions in f32, as transformers asks it; exact angles are up to 3e-5 away
 * there. */
static void far_positions(void **state)
{
    (void)state;
    static const char text[] =
        "{\"model_type\": \"qwen3_moe\", \"head_dim\": 16, \"hidden_size\": 32, \"intermediate_size\": 8,"
        " \"max_position_embeddings\": 32768, \"moe_intermediate_size\": 8, \"num_attention_heads\": 4,"
        " \"num_experts\": 4, \"num_experts_per_tok\": 2, \"num_hidden_layers\": 1, \"vocab_size\": 8,"
        " \"rope_theta\": 1e6}";
    static const struct {
        int64_t position, pair;
        float cosine, sine;
    } wanted[] = {
        {2400, 0, 0.984413803f, -0.1758679f},    {4001, 1, 0.0810839385f, 0.996707261f},
        {32767, 1, -0.720558524f, 0.693394125f}, {32767, 3, -0.461073548f, 0.887361944f},
        {32767, 7, 0.983071685f, 0.183221459f},
    };
    const int64_t positions = 32768;
    const int64_t pairs = 8;
    struct described model;
    describe(text, &model);
    float *tables = malloc((size_t)(2 * positions * pairs) * sizeof *tables); // cosines, then sines
    assert_non_null(tables);
    mt_rope_tables(model.desc.config, model.desc.rope_width, positions, tables, tables + positions * pairs);
    for (size_t i = 0; i < sizeof wanted / sizeof wanted[0]; i++) {
        int64_t at = wanted[i].position * pairs + wanted[i].pair;
        assert_float_equal(tables[at], wanted[i].cosine, 6e-8f);
        assert_float_equal(tables[positions * pairs + at], wanted[i].sine, 6e-8f);
    }
    free(tables);
    close(&model);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(v2_lite),
        cmocka_unit_test(moonlight),
        cmocka_unit_test(phi),
        cmocka_unit_test(against_transformers),
        cmocka_unit_test(tables),
        cmocka_unit_test(far_positions),
        cmocka_unit_test(unrounded_bounds),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
