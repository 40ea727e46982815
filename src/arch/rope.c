/*
 * Rotary positions. Pair i of n turns by position · f_i, with t_i = theta^(-i/n):
 *   default   f_i = t_i
 *   linear    f_i = t_i / factor
 *   YaRN      f_i = r_i · t_i / factor + (1 - r_i) · t_i, r_i rising from 0 to 1 between the pairs that turn
 *             beta_fast and beta_slow times over the original length, rounded outwards unless the file says
 *             truncate: false; cos and sin times a magnitude
 *   LongRoPE  f_i = t_i / (short or long factor)_i; cos and sin times a magnitude
 *
 * Frequencies and angles are rounded to f32 where the frameworks that trained the models round them. At
 * position 2400 that turns a pair by up to 1e-4: exact angles would be others than the model learnt with.
 * Powers, cosines and sines are made in double, so that they are the same on every machine.
 */
#include "arch/rope.h"

#include <math.h>

static const double two_pi = 6.283185307179586;

/* YaRN's "mscale": how much sharper scores become when positions are stretched `factor` times. */
static double yarn_magnitude(double factor, double strength)
{
    return factor <= 1.0 ? 1.0 : 0.1 * strength * log(factor) + 1.0;
}

/* The (fractional) pair that turns `turns` times over the original length. */
static double pair_turning(const struct mt_hf_rope *rope, double turns, int64_t pairs)
{
    double wave_positions = (double)rope->original_max_position / (turns * two_pi);
    return (double)pairs * log(wave_positions) / log(rope->theta);
}

/* 0: turns as often as it was trained to; 1: slowed down by the whole factor. */
static float yarn_ramp(const struct mt_hf_rope *rope, int64_t pair, int64_t pairs)
{
    double first = pair_turning(rope, rope->beta_fast, pairs);
    double last = pair_turning(rope, rope->beta_slow, pairs);
    first = fmax(rope->unrounded ? first : floor(first), 0.0);
    // The upper bound counts single dimensions, not pairs; so it does in every implementation of YaRN.
    last = fmin(rope->unrounded ? last : ceil(last), (double)(2 * pairs - 1));
    if (first == last) last += 0.001; // as the original does
    return fminf(fmaxf(((float)pair - (float)first) / (float)(last - first), 0.0f), 1.0f);
}

float mt_rope_frequency(const struct mt_hf_rope *rope, int64_t pair, int64_t pairs, bool extended)
{
    float exponent = (float)(2 * pair) / (float)(2 * pairs);
    float wave = (float)pow((double)(float)rope->theta, (double)exponent); // 1/t_i
    switch (rope->kind) {
    case MT_HF_ROPE_DEFAULT: break;
    case MT_HF_ROPE_LINEAR: return 1.0f / wave / (float)rope->factor;
    case MT_HF_ROPE_YARN: {
        float kept = 1.0f - yarn_ramp(rope, pair, pairs);
        float slowed = 1.0f / ((float)rope->factor * wave) * (1.0f - kept);
        float unchanged = 1.0f / wave * kept;
        return slowed + unchanged;
    }
    case MT_HF_ROPE_LONGROPE:
        return 1.0f / ((float)(extended ? rope->long_factor[pair] : rope->short_factor[pair]) * wave);
    }
    return 1.0f / wave;
}

static double longrope_magnitude(const struct mt_hf_rope *rope, int64_t max_position, bool extended)
{
    double given = extended ? rope->long_mscale : rope->short_mscale;
    if (given > 0.0) return given;
    if (rope->attention_factor > 0.0) return rope->attention_factor;
    double stretch = (double)max_position / (double)rope->original_max_position;
    if (stretch <= 1.0) return 1.0;
    return sqrt(1.0 + log(stretch) / log((double)rope->original_max_position));
}

double mt_rope_magnitude(const struct mt_hf_rope *rope, int64_t max_position, bool extended)
{
    if (rope->kind == MT_HF_ROPE_LONGROPE) return longrope_magnitude(rope, max_position, extended);
    if (rope->kind != MT_HF_ROPE_YARN) return 1.0;
    if (rope->attention_factor > 0.0) return rope->attention_factor;
    if (rope->mscale > 0.0 && rope->mscale_all_dim > 0.0) {
        return yarn_magnitude(rope->factor, rope->mscale) /
               yarn_magnitude(rope->factor, rope->mscale_all_dim);
    }
    return yarn_magnitude(rope->factor, 1.0);
}

double mt_rope_score_factor(const struct mt_hf_rope *rope)
{
    if (rope->kind != MT_HF_ROPE_YARN || rope->mscale_all_dim == 0.0) return 1.0;
    double magnitude = yarn_magnitude(rope->factor, rope->mscale_all_dim);
    return magnitude * magnitude;
}

/* True when sequences of `length` tokens take LongRoPE's long factors. */
static bool is_extended(const struct mt_hf_config *config, int64_t length)
{
    const struct mt_hf_rope *rope = &config->rope;
    return rope->kind == MT_HF_ROPE_LONGROPE && length > rope->original_max_position;
}

int64_t mt_rope_rows(const struct mt_hf_config *config, int64_t positions)
{
    return mt_rope_start(config, positions) + positions;
}

int64_t mt_rope_start(const struct mt_hf_config *config, int64_t length)
{
    return is_extended(config, length) ? config->rope.original_max_position : 0;
}

/* Rows 0 … count-1 of one set. */
static void fill_tables(const struct mt_hf_config *config, int64_t pairs, bool extended, int64_t count,
                        float *cosine, float *sine)
{
    const struct mt_hf_rope *rope = &config->rope;
    float magnitude = (float)mt_rope_magnitude(rope, config->max_position_embeddings, extended);
    for (int64_t pair = 0; pair < pairs; pair++) {
        float frequency = mt_rope_frequency(rope, pair, pairs, extended);
        for (int64_t position = 0; position < count; position++) {
            float angle = (float)position * frequency;
            cosine[position * pairs + pair] = (float)cos((double)angle) * magnitude;
            sine[position * pairs + pair] = (float)sin((double)angle) * magnitude;
        }
    }
}

void mt_rope_tables(const struct mt_hf_config *config, int64_t width, int64_t positions, float *cosine,
                    float *sine)
{
    int64_t start = mt_rope_start(config, positions);
    int64_t skipped = start * (width / 2);
    if (start > 0) fill_tables(config, width / 2, false, start, cosine, sine);
    fill_tables(config, width / 2, is_extended(config, positions), positions, cosine + skipped,
                sine + skipped);
}
