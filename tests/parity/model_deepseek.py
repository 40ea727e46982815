"""DeepSeek-MoE (model_type deepseek) in plain PyTorch: transformers has no class of its own for it.

Grouped attention with rotation by halves, a dense SwiGLU in the first layers, then routed experts beside shared ones.
Modules are named as the tensors of a checkpoint are, and routers return what those of transformers do.
"""
import math

import torch
from torch import nn
from torch.nn import functional as F


class RMSNorm(nn.Module):
    def __init__(self, width, epsilon):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))
        self.epsilon = epsilon

    def forward(self, x):
        return self.weight * x / torch.sqrt((x * x).mean(dim=-1, keepdim=True) + self.epsilon)


class MLP(nn.Module):
    def __init__(self, width, inner):
        super().__init__()
        self.gate_proj = nn.Linear(width, inner, bias=False)
        self.up_proj = nn.Linear(width, inner, bias=False)
        self.down_proj = nn.Linear(inner, width, bias=False)

    def forward(self, x):
        return self.down_proj(F.silu(self.gate_proj(x)) * self.up_proj(x))


class Attention(nn.Module):
    def __init__(self, config):
        super().__init__()
        width, bias = config["hidden_size"], config["attention_bias"]
        self.heads, self.key_heads = config["num_attention_heads"], config["num_key_value_heads"]
        self.head_width = width // self.heads
        self.q_proj = nn.Linear(width, self.heads * self.head_width, bias=bias)
        self.k_proj = nn.Linear(width, self.key_heads * self.head_width, bias=bias)
        self.v_proj = nn.Linear(width, self.key_heads * self.head_width, bias=bias)
        self.o_proj = nn.Linear(self.heads * self.head_width, width, bias=bias)
        self.theta = config["rope_theta"]
        self.stretch = (config["rope_scaling"] or {}).get("factor", 1.0)

    def rotate(self, x):
        """x [T,heads,D]: the pair (i, i + D/2) turns by position · theta^(-2i/D) / stretch."""
        tokens, _, width = x.shape
        half = width // 2
        frequency = self.theta ** (-torch.arange(half, dtype=torch.float64) / half) / self.stretch
        angle = torch.arange(tokens, dtype=torch.float64)[:, None, None] * frequency
        cosine, sine = angle.cos().to(x.dtype), angle.sin().to(x.dtype)
        first, second = x[..., :half], x[..., half:]
        return torch.cat((first * cosine - second * sine, second * cosine + first * sine), dim=-1)

    def forward(self, x):
        tokens = x.shape[0]
        q = self.rotate(self.q_proj(x).view(tokens, self.heads, self.head_width))
        k = self.rotate(self.k_proj(x).view(tokens, self.key_heads, self.head_width))
        v = self.v_proj(x).view(tokens, self.key_heads, self.head_width)
        share = self.heads // self.key_heads
        k, v = k.repeat_interleave(share, dim=1), v.repeat_interleave(share, dim=1)
        scores = torch.einsum("ihd,jhd->hij", q, k) / math.sqrt(self.head_width)
        future = torch.ones(tokens, tokens, dtype=torch.bool).triu(1)
        attention = torch.softmax(scores.masked_fill(future, -math.inf), dim=-1)
        return self.o_proj(torch.einsum("hij,jhd->ihd", attention, v).reshape(tokens, -1))


class Gate(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(config["n_routed_experts"], config["hidden_size"]))
        self.slots, self.normalise = config["num_experts_per_tok"], config["norm_topk_prob"]

    def forward(self, x):
        logits = F.linear(x, self.weight)
        weights, experts = torch.softmax(logits, dim=-1).topk(self.slots, dim=-1)
        if self.slots > 1 and self.normalise:
            weights = weights / (weights.sum(dim=-1, keepdim=True) + 1e-20)
        return logits, weights, experts


class Experts(nn.ModuleList):
    def forward(self, x, experts, weights):
        y = torch.zeros_like(x)
        for number, expert in enumerate(self):
            token, slot = torch.where(experts == number)
            y = y.index_add(0, token, weights[token, slot, None] * expert(x[token]))
        return y


class MixtureOfExperts(nn.Module):
    def __init__(self, config):
        super().__init__()
        width, inner = config["hidden_size"], config["moe_intermediate_size"]
        self.gate = Gate(config)
        self.experts = Experts(MLP(width, inner) for _ in range(config["n_routed_experts"]))
        shared = config["n_shared_experts"]
        self.shared_experts = MLP(width, inner * shared) if shared else None

    def forward(self, x):
        _, weights, experts = self.gate(x)
        y = self.experts(x, experts, weights)
        return y if self.shared_experts is None else y + self.shared_experts(x)


class Layer(nn.Module):
    def __init__(self, config, number):
        super().__init__()
        width, epsilon = config["hidden_size"], config["rms_norm_eps"]
        self.input_layernorm = RMSNorm(width, epsilon)
        self.self_attn = Attention(config)
        self.post_attention_layernorm = RMSNorm(width, epsilon)
        sparse = number >= config["first_k_dense_replace"] and number % config["moe_layer_freq"] == 0
        self.mlp = MixtureOfExperts(config) if sparse else MLP(width, config["intermediate_size"])

    def forward(self, x):
        x = x + self.self_attn(self.input_layernorm(x))
        return x + self.mlp(self.post_attention_layernorm(x))


class Body(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.embed_tokens = nn.Embedding(config["vocab_size"], config["hidden_size"])
        self.layers = nn.ModuleList(Layer(config, i) for i in range(config["num_hidden_layers"]))
        self.norm = RMSNorm(config["hidden_size"], config["rms_norm_eps"])


class DeepseekMoE(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.model = Body(config)
        self.lm_head = nn.Linear(config["hidden_size"], config["vocab_size"], bias=False)

    def forward(self, ids):
        """ids [T] of one sequence; returns logits [T,V]."""
        x = self.model.embed_tokens(ids)
        for layer in self.model.layers:
            x = layer(x)
        return self.lm_head(self.model.norm(x))
