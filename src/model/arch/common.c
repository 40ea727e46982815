/* What several architectures share: two kinds of attention, two sets of names. */
#include <math.h>

#include "model/arch/arch.h"
#include "model/layers/rope.h"

const struct mt_model_names mt_arch_mlp_names = {
    .router = "mlp.gate",
    .experts = "mlp.experts",
    .gate = "gate_proj",
    .up = "up_proj",
    .down = "down_proj",
};

const struct mt_model_names mt_arch_sparse_block_names = {
    .router = "block_sparse_moe.gate",
    .experts = "block_sparse_moe.experts",
    .gate = "w1",
    .up = "w3",
    .down = "w2",
};

void mt_arch_grouped_attention(const struct mt_hf_config *config, struct mt_model_desc *desc)
{
    desc->attention = MT_ATTENTION_GROUPED;
    desc->rope_width = config->head_dim;
    desc->rope_layout = MT_ROPE_HALF;
    desc->score_scale = (float)(1.0 / sqrt((double)config->head_dim));
}

void mt_arch_latent_attention(const struct mt_hf_config *config, struct mt_model_desc *desc)
{
    desc->attention = MT_ATTENTION_LATENT;
    desc->query_rank = config->q_lora_rank;
    desc->latent_rank = config->kv_lora_rank;
    desc->nope_width = config->qk_nope_head_dim;
    desc->rope_width = config->qk_rope_head_dim;
    desc->rope_layout = config->rope_interleave ? MT_ROPE_INTERLEAVED : MT_ROPE_HALF;
    double scale = 1.0 / sqrt((double)config->head_dim); // of nope and rope together
    desc->score_scale = (float)(scale * mt_rope_score_factor(&config->rope));
}
