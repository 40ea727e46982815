"""Where a transformers model has its routers and experts, and which of them are trained."""
from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch

from .library import Failure

# How logits become scores, in the architectures the library knows: what no tensor of a model says.
ROUTER_KINDS = {"deepseek_v2": "softmax", "deepseek_v3": "sigmoid", "glm4_moe_lite": "sigmoid", "mixtral": "softmax",
                "olmoe": "softmax", "phimoe": "sparsemixer", "qwen2_moe": "softmax", "qwen3_moe": "softmax",
                "glm4_moe": "sigmoid", "dots1": "sigmoid", "gpt_oss": "softmax", "ernie4_5_moe": "softmax"}
# Whose weights always sum to one: no key of their configs says so.
NORMALISING = ("mixtral", "gpt_oss", "ernie4_5_moe")


@dataclass
class Block:
    """One MoE layer."""

    name: str  # of the module that has both
    whole: torch.nn.Module
    router: Any  # the module that makes logits
    experts: Any
    slots: int
    normalises: bool  # weights sum to one

    @property
    def bias(self) -> torch.Tensor | None:
        owner = getattr(self.router, "moe_statics", self.router)  # ERNIE's, [1,n]
        bias = getattr(owner, "e_score_correction_bias", None)
        return None if bias is None else bias.detach().view(-1)  # moved in place


def router_kind(model_type: str) -> str:
    if model_type not in ROUTER_KINDS:
        raise Failure(f"models of type {model_type} are not supported: {', '.join(sorted(ROUTER_KINDS))}")
    return ROUTER_KINDS[model_type]


def _innermost(module: torch.nn.Module) -> torch.nn.Module:
    """What PEFT wrapped, however often."""
    while hasattr(module, "base_layer"):
        module = module.base_layer
    return module


def _router_of(block: torch.nn.Module, experts: int) -> torch.nn.Module | None:
    for name, child in block.named_children():
        weight = getattr(_innermost(child), "weight", None)
        if name != "experts" and weight is not None and weight.dim() == 2 and weight.shape[0] == experts:
            return _innermost(child)
    return None


def blocks_of(model: torch.nn.Module) -> list[Block]:
    """The MoE layers, in the order in which they are computed."""
    found = []
    config = model.config
    for name, module in model.named_modules():
        experts = dict(module.named_children()).get("experts")
        inner = None if experts is None else _innermost(experts)
        if inner is None or not hasattr(inner, "num_experts") or not hasattr(inner, "config"):
            continue
        router = _router_of(module, inner.num_experts)
        if router is None:
            raise Failure(f"{name}: there are experts, but no router beside them")
        normalises = bool(getattr(config, "norm_topk_prob", config.model_type in NORMALISING))
        found.append(Block(name, module, router, inner, config.num_experts_per_tok, normalises))
    if not found:
        raise Failure("this model has no routed experts of transformers 5: is it a Mixture-of-Experts model?")
    return found


def trainable_paths(model: torch.nn.Module, blocks: list[Block]) -> list[tuple[bool, bool, bool]]:
    """(router, experts, anything below) of every layer: what learns."""
    paths = []
    learning = {name for name, parameter in model.named_parameters() if parameter.requires_grad}
    order = [name for name, _ in model.named_parameters()]
    for block in blocks:
        own = {name for name in learning if name.startswith(block.name + ".")}
        experts = any(name.startswith(block.name + ".experts.") for name in own)
        children = {id(_innermost(child)): name for name, child in block.whole.named_children()}
        router_name = f"{block.name}.{children[id(block.router)]}."
        router = any(name.startswith(router_name) for name in own)
        first = next(i for i, name in enumerate(order) if name.startswith(block.name + "."))
        paths.append((router, experts, any(name in learning for name in order[:first])))
    return paths
