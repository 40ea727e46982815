"""Random small configs of the architectures, as published config.json files spell them.

Every architecture has some variants, each with other awkward features on; sizes are drawn, so that no two dimensions
of a model are equal by rule.
"""

ARCHITECTURES = ("deepseek", "deepseek_v2", "deepseek_v3", "mixtral", "phimoe", "olmoe", "qwen3_moe",
                 "glm4_moe_lite", "qwen2_moe", "glm4_moe", "dots1", "ernie4_5_moe", "gpt_oss")


def pick(rng, *values):
    return values[int(rng.integers(len(values)))]


def common(rng, name, architecture, layers):
    return {
        "architectures": [architecture], "model_type": name, "hidden_act": "silu", "vocab_size": pick(rng, 53, 61, 72),
        "num_hidden_layers": layers, "max_position_embeddings": 64, "rms_norm_eps": 1e-5, "rope_theta": 10000.0,
        "tie_word_embeddings": False, "initializer_range": 0.02, "torch_dtype": "float32",
        "pad_token_id": None,  # transformers gives the row of a padding token no gradient
    }


def shape_of_heads(rng):
    """heads, key heads and a head width that all differ, and a model width they divide."""
    heads, key_heads = pick(rng, (4, 2), (6, 2), (6, 3))
    head_width = pick(rng, 6, 8)
    return {"hidden_size": heads * head_width, "num_attention_heads": heads, "num_key_value_heads": key_heads}


def yarn(rng, mscale, mscale_all_dim):
    return {"type": "yarn", "factor": pick(rng, 4.0, 40.0), "original_max_position_embeddings": pick(rng, 16, 4096),
            "beta_fast": 32, "beta_slow": 1, "mscale": mscale, "mscale_all_dim": mscale_all_dim}


def deepseek(rng, variant):
    config = common(rng, "deepseek", "DeepseekForCausalLM", 4)
    config.update(shape_of_heads(rng))
    config.update({
        "intermediate_size": 44, "moe_intermediate_size": pick(rng, 10, 14), "n_routed_experts": pick(rng, 6, 9),
        "n_shared_experts": 2, "num_experts_per_tok": 3, "first_k_dense_replace": 1, "moe_layer_freq": 1,
        "norm_topk_prob": False, "scoring_func": "softmax", "attention_bias": False, "rope_scaling": None,
        "rms_norm_eps": 1e-6, "aux_loss_alpha": 0.001, "seq_aux": True})
    if variant == 1:  # normalised weights, biases, stretched positions, another layer pattern
        config.update({"norm_topk_prob": True, "attention_bias": True, "moe_layer_freq": 2, "rms_norm_eps": 0.03,
                       "rope_scaling": {"type": "linear", "factor": 2.0}})
    if variant == 2:  # nothing shared, no dense layer, as many key heads as heads
        config.update({"n_shared_experts": None, "first_k_dense_replace": 0, "num_hidden_layers": 2,
                       "num_key_value_heads": config["num_attention_heads"]})
    return config


def latent(rng, config):
    heads = pick(rng, 2, 4)
    config.update({
        "hidden_size": heads * pick(rng, 10, 12), "num_attention_heads": heads, "num_key_value_heads": heads,
        "kv_lora_rank": 14, "q_lora_rank": None, "qk_nope_head_dim": 10, "qk_rope_head_dim": pick(rng, 6, 8),
        "v_head_dim": 12, "intermediate_size": 44, "moe_intermediate_size": pick(rng, 10, 14),
        "n_routed_experts": 8, "n_shared_experts": 2, "num_experts_per_tok": 3, "first_k_dense_replace": 1,
        "moe_layer_freq": 1, "attention_bias": False, "aux_loss_alpha": 0.001, "seq_aux": True})


def deepseek_v2(rng, variant):
    config = common(rng, "deepseek_v2", "DeepseekV2ForCausalLM", 3)
    latent(rng, config)
    config.update({"norm_topk_prob": False, "scoring_func": "softmax", "routed_scaling_factor": 1.0, "n_group": 1,
                   "topk_group": 1, "topk_method": "greedy", "rope_scaling": yarn(rng, 0.707, 0.707)})
    if variant == 1:  # compressed queries, groups, a factor, YaRN's two magnitudes unlike
        config.update({"q_lora_rank": 18, "n_group": 4, "topk_group": 2, "topk_method": "group_limited_greedy",
                       "routed_scaling_factor": 2.5, "rope_scaling": yarn(rng, 0.9, 0.6), "rms_norm_eps": 0.05})
    if variant == 2:  # biases, plain positions, a tied head, one shared expert, two dense layers
        config.update({"attention_bias": True, "q_lora_rank": 16, "rope_scaling": None, "n_shared_experts": 1,
                       "first_k_dense_replace": 2, "tie_word_embeddings": True})
    if variant == 3:  # groups without compressed queries, enough pairs for YaRN's ramp
        config.update({"n_group": 2, "topk_group": 1, "topk_method": "group_limited_greedy", "qk_rope_head_dim": 24})
        config["rope_scaling"].update({"original_max_position_embeddings": 256, "beta_fast": 8})
    return config


def deepseek_v3(rng, variant):
    config = common(rng, "deepseek_v3", "DeepseekV3ForCausalLM", 3)
    latent(rng, config)
    config.update({"norm_topk_prob": True, "scoring_func": "sigmoid", "routed_scaling_factor": 2.446, "n_group": 1,
                   "topk_group": 1, "topk_method": "noaux_tc", "rope_theta": 50000.0, "num_nextn_predict_layers": 0})
    if variant == 1:  # compressed queries, groups, biases
        config.update({"q_lora_rank": 18, "n_group": 4, "topk_group": 2, "attention_bias": True})
    if variant == 2:  # YaRN, weights as they are, one shared expert, a norm epsilon far from that of the latent norms
        config.update({"rope_scaling": yarn(rng, 1.0, 1.0), "norm_topk_prob": False, "n_shared_experts": 1,
                       "rms_norm_eps": 0.1, "tie_word_embeddings": True})
    return config


def glm4_moe_lite(rng, variant):
    config = common(rng, "glm4_moe_lite", "Glm4MoeLiteForCausalLM", 3)
    latent(rng, config)
    for key in ("moe_layer_freq", "aux_loss_alpha", "seq_aux"):
        del config[key]
    config.update({"q_lora_rank": 18, "norm_topk_prob": True, "routed_scaling_factor": 1.8, "n_group": 1,
                   "topk_group": 1, "topk_method": "noaux_tc", "n_shared_experts": 1, "rope_theta": 1000000.0,
                   "num_nextn_predict_layers": 0})
    if variant == 1:  # groups, biases, a list of layers
        config.update({"n_group": 4, "topk_group": 2, "attention_bias": True, "rms_norm_eps": 0.03,
                       "mlp_layer_types": ["sparse", "dense", "sparse"]})
    if variant == 2:  # plain queries, weights as they are, halves rotated, a tied head, YaRN
        config.update({"q_lora_rank": None, "norm_topk_prob": False, "rope_interleave": False, "n_shared_experts": 2,
                       "tie_word_embeddings": True, "rope_scaling": yarn(rng, 1.0, 1.0)})
    return config


def mixtral(rng, variant):
    config = common(rng, "mixtral", "MixtralForCausalLM", 2)
    config.update(shape_of_heads(rng))
    config.update({"intermediate_size": pick(rng, 20, 26), "num_local_experts": pick(rng, 5, 8),
                   "num_experts_per_tok": 2, "rope_theta": 1000000.0, "sliding_window": None,
                   "router_aux_loss_coef": 0.02})
    if variant == 1:  # a window shorter than the sequences
        config.update({"sliding_window": 5, "rms_norm_eps": 0.03})
    if variant == 2:  # heads wider than the model, three experts, a tied head
        config.update({"head_dim": 10, "num_experts_per_tok": 3, "tie_word_embeddings": True, "sliding_window": 64})
    return config


def phimoe(rng, variant):
    config = common(rng, "phimoe", "PhimoeForCausalLM", 2)
    config.update(shape_of_heads(rng))
    pairs = config["hidden_size"] // config["num_attention_heads"] // 2
    config.update({
        "intermediate_size": pick(rng, 20, 26), "num_local_experts": pick(rng, 5, 8), "num_experts_per_tok": 2,
        "attention_bias": True, "lm_head_bias": True, "sliding_window": 64, "router_jitter_noise": 0.01,
        "input_jitter_noise": 0.01, "router_aux_loss_coef": 0.0, "original_max_position_embeddings": 32,
        "rope_scaling": {"type": "longrope", "short_factor": [1.0 + 0.13 * i for i in range(pairs)],
                         "long_factor": [1.02 + 3.7 * i for i in range(pairs)], "short_mscale": 1.243163121016122,
                         "long_mscale": 1.3, "original_max_position_embeddings": 32}})
    if variant == 1:  # many experts near the best one
        config.update({"router_jitter_noise": 0.15, "lm_head_bias": False})
    if variant == 2:  # no biases, a short window
        config.update({"attention_bias": False, "sliding_window": 5, "router_jitter_noise": 0.05, "rms_norm_eps": 0.03})
    return config


def olmoe(rng, variant):
    config = common(rng, "olmoe", "OlmoeForCausalLM", 2)
    config.update(shape_of_heads(rng))
    config.update({"intermediate_size": pick(rng, 10, 14), "num_experts": pick(rng, 7, 10), "num_experts_per_tok": 3,
                   "norm_topk_prob": False, "attention_bias": False, "clip_qkv": None, "router_aux_loss_coef": 0.01,
                   "rope_scaling": None})
    if variant == 1:  # clipped, biases
        config.update({"clip_qkv": 0.8, "attention_bias": True, "rms_norm_eps": 0.03})
    if variant == 2:  # normalised, as many key heads as heads, a tied head
        config.update({"norm_topk_prob": True, "num_key_value_heads": config["num_attention_heads"],
                       "tie_word_embeddings": True, "clip_qkv": 2.0})
    return config


def qwen3_moe(rng, variant):
    config = common(rng, "qwen3_moe", "Qwen3MoeForCausalLM", 3)
    config.update(shape_of_heads(rng))
    config.update({
        "head_dim": pick(rng, 10, 12), "intermediate_size": 44, "moe_intermediate_size": pick(rng, 10, 14),
        "num_experts": pick(rng, 7, 10), "num_experts_per_tok": 3, "norm_topk_prob": True, "decoder_sparse_step": 1,
        "mlp_only_layers": [], "attention_bias": False, "use_sliding_window": False, "sliding_window": None,
        "rms_norm_eps": 1e-6, "rope_theta": 1000000.0, "router_aux_loss_coef": 0.001})
    if variant == 1:  # a dense layer, biases, a window
        config.update({"mlp_only_layers": [1], "attention_bias": True, "use_sliding_window": True,
                       "sliding_window": 5, "rms_norm_eps": 0.03})
    if variant == 2:  # every other layer sparse, weights as they are, a tied head
        config.update({"decoder_sparse_step": 2, "num_hidden_layers": 4, "norm_topk_prob": False,
                       "tie_word_embeddings": True})
    return config


def qwen2_moe(rng, variant):
    config = common(rng, "qwen2_moe", "Qwen2MoeForCausalLM", 3)
    config.update(shape_of_heads(rng))
    config.update({
        "intermediate_size": 44, "moe_intermediate_size": pick(rng, 10, 14),
        "shared_expert_intermediate_size": pick(rng, 18, 22), "num_experts": pick(rng, 7, 10), "num_experts_per_tok": 3,
        "norm_topk_prob": False, "decoder_sparse_step": 1, "use_sliding_window": False, "sliding_window": 5,
        "max_window_layers": 2, "rms_norm_eps": 1e-6, "rope_theta": 1000000.0, "router_aux_loss_coef": 0.001})
    if variant == 1:  # a dense layer, normalised weights
        # A key's bias has no gradient where its pair hardly turns, and train_parity.py's AdamW would train on rounding.
        config.update({"mlp_only_layers": [1], "norm_topk_prob": True, "rms_norm_eps": 0.03, "rope_theta": 10000.0})
    if variant == 2:  # no biases, every other layer sparse, as many key heads as heads, a tied head, YaRN
        config.update({"qkv_bias": False, "decoder_sparse_step": 2, "num_hidden_layers": 4, "tie_word_embeddings": True,
                       "num_key_value_heads": config["num_attention_heads"],
                       "rope_scaling": {"type": "yarn", "factor": 4.0, "original_max_position_embeddings": 16}})
    return config


def corrected(rng, config):
    """DeepSeek-V3's router and experts under grouped attention."""
    config.update(shape_of_heads(rng))
    config.update({
        "head_dim": pick(rng, 8, 12), "intermediate_size": 44, "moe_intermediate_size": pick(rng, 10, 14),
        "n_routed_experts": 8, "n_shared_experts": 1, "num_experts_per_tok": 3, "first_k_dense_replace": 1,
        "norm_topk_prob": True, "routed_scaling_factor": 2.5, "n_group": 1, "topk_group": 1, "attention_bias": False})


def glm4_moe(rng, variant):
    config = common(rng, "glm4_moe", "Glm4MoeForCausalLM", 3)
    corrected(rng, config)
    config.update({"use_qk_norm": False, "partial_rotary_factor": 0.5, "num_nextn_predict_layers": 0,
                   "attention_bias": True})
    if variant == 1:  # queries and keys normalised, groups, two dense layers, another share
        config.update({"use_qk_norm": True, "n_group": 4, "topk_group": 2, "first_k_dense_replace": 2,
                       "num_hidden_layers": 4, "rms_norm_eps": 0.03, "head_dim": 16, "partial_rotary_factor": 0.25})
    if variant == 2:  # no biases, weights as they are, nothing dense, whole heads turned, a tied head, YaRN
        config.update({"attention_bias": False, "norm_topk_prob": False, "first_k_dense_replace": 0,
                       "partial_rotary_factor": 1.0, "tie_word_embeddings": True, "use_qk_norm": True,
                       "rope_scaling": {"type": "yarn", "factor": 4.0, "original_max_position_embeddings": 16}})
    return config


def dots1(rng, variant):
    config = common(rng, "dots1", "Dots1ForCausalLM", 3)
    corrected(rng, config)
    config.update({"sliding_window": None, "max_window_layers": 3, "n_shared_experts": 2})
    if variant == 1:  # biases, groups, two dense layers
        config.update({"attention_bias": True, "n_group": 4, "topk_group": 2, "first_k_dense_replace": 2,
                       "num_hidden_layers": 4, "rms_norm_eps": 0.03})
    if variant == 2:  # weights as they are, nothing dense, a tied head, a window no layer has
        config.update({"norm_topk_prob": False, "first_k_dense_replace": 0, "tie_word_embeddings": True,
                       "sliding_window": 5})
    return config


def ernie4_5_moe(rng, variant):
    config = common(rng, "ernie4_5_moe", "Ernie4_5_MoeForCausalLM", 3)
    config.update(shape_of_heads(rng))
    config.update({
        "intermediate_size": 44, "moe_intermediate_size": pick(rng, 10, 14), "moe_num_experts": pick(rng, 7, 10),
        "moe_k": 3, "moe_num_shared_experts": 2, "moe_layer_start_index": 1, "moe_layer_end_index": -1,
        "moe_layer_interval": 1, "use_bias": False, "rope_theta": 500000.0, "router_aux_loss_coef": 0.001})
    if variant == 1:  # a dense layer at the end, heads of their own width, one shared expert
        config.update({"moe_layer_end_index": 2, "num_hidden_layers": 4, "head_dim": pick(rng, 10, 12),
                       "moe_num_shared_experts": 1, "rms_norm_eps": 0.03})
    if variant == 2:  # every other layer sparse, nothing shared, a tied head, YaRN
        config.update({"moe_layer_interval": 2, "num_hidden_layers": 4, "moe_num_shared_experts": 0,
                       "moe_layer_start_index": 0, "tie_word_embeddings": True,
                       "rope_scaling": {"type": "yarn", "factor": 4.0, "original_max_position_embeddings": 16}})
    return config


def gpt_oss(rng, variant):
    config = common(rng, "gpt_oss", "GptOssForCausalLM", 3)
    config.update(shape_of_heads(rng))
    config.update({"head_dim": pick(rng, 8, 10), "intermediate_size": pick(rng, 20, 26), "num_local_experts": pick(rng, 5, 8),
                   "num_experts_per_tok": 2, "attention_bias": True, "sliding_window": 5, "swiglu_limit": 1.2,
                   "rope_theta": 150000.0, "router_aux_loss_coef": 0.9,
                   "rope_scaling": {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 16,
                                    "beta_fast": 32.0, "beta_slow": 1.0, "truncate": False}})
    if variant == 1:  # its own list of layers, another curve, three experts, a tied head
        config.update({"layer_types": ["full_attention", "sliding_attention", "sliding_attention"],
                       "swiglu_limit": 0.7, "swiglu_alpha": 0.9, "num_experts_per_tok": 3, "tie_word_embeddings": True,
                       "rms_norm_eps": 0.03})
    if variant == 2:  # no biases on attention, the class's own YaRN, gates that are never clamped
        config.update({"attention_bias": False, "swiglu_limit": 70.0, "sliding_window": 3})
        del config["rope_scaling"]
    return config


def sequence_lengths(config, variant):
    """Phi's last variant is longer than the positions it was trained on, and takes its long factors."""
    return (40,) if config["model_type"] == "phimoe" and variant == 3 else (9, 1, 17)


def as_transformers_reads_it(config, lengths):
    """The config that makes transformers compute what the model's own code does.

    transformers has phimoe's long magnitude beyond the original positions, but keeps the short factors.
    """
    if config["model_type"] != "phimoe" or max(lengths) <= config["original_max_position_embeddings"]:
        return config
    scaling = config["rope_scaling"]
    return {**config, "rope_scaling": {**scaling, "short_factor": scaling["long_factor"]}}


VARIANTS = {"deepseek": 3, "deepseek_v2": 4, "deepseek_v3": 3, "mixtral": 3, "phimoe": 4, "olmoe": 3, "qwen3_moe": 3,
            "glm4_moe_lite": 3, "qwen2_moe": 3, "glm4_moe": 3, "dots1": 3, "ernie4_5_moe": 3, "gpt_oss": 3}


def draw(name, variant, rng):
    return globals()[name](rng, variant)
