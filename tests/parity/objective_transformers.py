"""Compares the program's routing, and its pooled balance loss, with the routers of the transformers library.

Used by objective_parity.py --transformers. Names of the library's classes change between versions; what cannot be
found is said and counts as a failure.
"""
import importlib
import types

import torch

from objective_reference import Inputs, Router

TOKENS, EXPERTS = 40, 16


def dense(experts, weights):
    return torch.zeros(TOKENS, EXPERTS, dtype=weights.dtype).scatter(1, experts.long(), weights)


def router_module(model, name, bias=None, **config):
    """A router of the library whose logits are its input, because its weight is the identity."""
    library = importlib.import_module(f"transformers.models.{model}.modeling_{model}")
    module = getattr(library, name)(types.SimpleNamespace(hidden_size=EXPERTS, **config))
    module.weight.data = torch.eye(EXPERTS)
    for holder, field in ((module, "e_score_correction_bias"),
                          (getattr(module, "moe_statics", None), "e_score_correction_bias")):
        if bias is not None and hasattr(holder, field):
            getattr(holder, field).data = bias.reshape(getattr(holder, field).shape)
    return module


def theirs_and_ours(logits, bias):
    """(name, their dense weights, our router, our bias)"""
    def run(module):
        _, weights, experts = module(logits)
        return dense(experts, weights.detach())

    common = {"num_experts_per_tok": 4, "num_experts": EXPERTS, "num_local_experts": EXPERTS}
    yield ("deepseek_v2 greedy",
           run(router_module("deepseek_v2", "DeepseekV2TopkRouter", routed_scaling_factor=1.0, topk_method="greedy",
                             n_group=1, topk_group=1, **common)),
           Router(slots=4), None)
    yield ("deepseek_v2 groups",
           run(router_module("deepseek_v2", "DeepseekV2TopkRouter", routed_scaling_factor=16.0,
                             topk_method="group_limited_greedy", n_group=4, topk_group=2, **common)),
           Router(slots=4, scale=16.0, groups=4, groups_kept=2, group_rule="max"), None)
    yield ("deepseek_v3 groups",
           run(router_module("deepseek_v3", "DeepseekV3TopkRouter", bias, routed_scaling_factor=2.5, n_group=4,
                             topk_group=2, norm_topk_prob=True, **common)),
           Router(kind="sigmoid", slots=4, normalise=True, scale=2.5, groups=4, groups_kept=2, group_rule="top2-sum"),
           bias)
    yield ("ernie4_5_moe",
           run(router_module("ernie4_5_moe", "Ernie4_5_MoeTopKRouter", bias, moe_norm_min=1e-12,
                             moe_num_experts=EXPERTS, **common)),
           Router(slots=4, normalise=True), bias)
    mixer = importlib.import_module("transformers.models.phimoe.modeling_phimoe").sparsemixer
    weights, experts = mixer(logits, jitter_eps=0.1, training=False)
    yield "phimoe", dense(experts, weights), Router(kind="sparsemixer", slots=2, jitter=0.1), None


def compare(program, limit):
    failures = []
    generator = torch.Generator().manual_seed(11)
    logits = torch.randn(TOKENS, EXPERTS, generator=generator)
    bias = 0.2 * torch.randn(EXPERTS, generator=generator)
    print("\nrouting against transformers: largest difference of the weights")
    for name, wanted, router, its_bias in theirs_and_ours(logits, bias):
        got = program.run(Inputs(logits=logits, router_bias=its_bias), router, "none", {})
        error = float((dense(got["experts"], got["weights"]) - wanted).abs().max())
        print(f"  {name:24}{error:10.1e}")
        if not error <= limit * router.scale:
            failures.append(f"transformers' {name}: weights are off by {error:.1e}")
    balance = importlib.import_module("transformers.models.mixtral.modeling_mixtral").load_balancing_loss_func
    mask = (torch.rand(TOKENS, generator=generator) > 0.25).to(torch.int32)
    leaf = logits.clone().requires_grad_(True)
    loss = balance((leaf,), EXPERTS, 2, mask)
    loss.backward()
    got = program.run(Inputs(logits=logits, mask=mask), Router(slots=2), "none", {"alpha": 1.0, "aux": "hf"})
    error = max(abs(float(got["loss.aux"]) / float(loss.detach()) - 1.0),
                float((got["grad.logits"] - leaf.grad).abs().max() / leaf.grad.pow(2).mean().sqrt()))
    print(f"  {'mixtral balance loss':24}{error:10.1e}   value and gradient, relative")
    if not error <= limit:
        failures.append(f"transformers' load_balancing_loss_func: off by {error:.1e}")
    return failures
