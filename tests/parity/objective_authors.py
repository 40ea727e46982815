"""Runs the MoE layer of the paper's authors on given arrays, from a work tree of their public repository.

Their modeling files are imported as they are. Around them this provides what they expect and an ordinary Python does
not have: a file named `timestamp` in the working directory, a `configuration_deepseek` module, TensorBoard, and names
that newer versions of transformers dropped. Experts are replaced by ones that hand out given rows, so that the layer
computes its losses on our arrays; what it logs is recorded.
"""
import contextlib
import importlib.util
import io
import os
import sys
import tempfile
import types

import torch

import objective_reference as reference

# folder of the repository, name of its MoE layer, name of its configuration
MODELS = (("ds", "DeepseekMoE", "DeepseekConfig"), ("ds_v2_lite", "DeepseekV2MoE", "DeepseekV2Config"),
          ("kimi", "DeepseekV3MoE", "DeepseekV3Config"))


class Recorder:
    """Stands in for TensorBoard's writer."""

    def __init__(self, log_dir=None):
        self.values = {}

    def add_scalar(self, name, value, step):
        self.values[name.split("/MoElayer")[0]] = float(value)


class RowsOfExpert(torch.nn.Module):
    """An expert whose outputs are given."""

    def __init__(self, rows):
        super().__init__()
        self.rows = rows

    def forward(self, hidden):
        assert hidden.shape[0] == self.rows.shape[0]
        return self.rows


class AnyModule(types.ModuleType):
    """A module in which every missing name is a harmless one: for names that only decorate or are never called."""

    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        if name.startswith("is_"):
            return lambda *arguments, **options: False
        return lambda *arguments, **options: (lambda function: function)


def complete(name, fallback_only=False):
    """The module `name`, or what can be imported of it, with missing names made harmless."""
    stand_in = AnyModule(name)
    stand_in.__path__ = []
    if not fallback_only:
        try:
            stand_in.__dict__.update(vars(importlib.import_module(name)))
        except ImportError:
            pass
    return stand_in


def load(repository, folder, config_name):
    """Imports Model/FOLDER/modeling_deepseek.py of the repository, unchanged."""
    path = os.path.join(repository, "Model", folder, "modeling_deepseek.py")
    package_name = f"authors_{folder}"
    package = types.ModuleType(package_name)
    package.__path__ = [os.path.dirname(path)]
    configuration = types.ModuleType(package_name + ".configuration_deepseek")
    setattr(configuration, config_name, type(config_name, (), {}))
    board = types.ModuleType("torch.utils.tensorboard")
    board.SummaryWriter = Recorder
    modules = {package_name: package, package_name + ".configuration_deepseek": configuration,
               "torch.utils.tensorboard": board}
    for name in ("transformers.activations", "transformers.cache_utils", "transformers.modeling_attn_mask_utils",
                 "transformers.modeling_outputs", "transformers.pytorch_utils", "transformers.utils",
                 "transformers.utils.import_utils"):
        modules[name] = complete(name)
    modules["transformers.modeling_utils"] = types.ModuleType("transformers.modeling_utils")
    modules["transformers.modeling_utils"].PreTrainedModel = torch.nn.Module
    modules["transformers.pytorch_utils"].ALL_LAYERNORM_LAYERS = []
    if "transformers" not in sys.modules:
        modules["transformers"] = complete("transformers", fallback_only=True)
    spec = importlib.util.spec_from_file_location(package_name + ".modeling_deepseek", path)
    module = importlib.util.module_from_spec(spec)
    modules[spec.name] = module
    kept = {name: sys.modules.get(name) for name in modules}
    here = os.getcwd()
    with tempfile.TemporaryDirectory() as place:
        with open(os.path.join(place, "timestamp"), "w") as file:
            file.write("now\nlog\n")
        os.chdir(place)
        sys.modules.update(modules)
        try:
            spec.loader.exec_module(module)
        finally:
            os.chdir(here)
            for name, value in kept.items():
                if value is None:
                    del sys.modules[name]
                else:
                    sys.modules[name] = value
    return module


def run(module, layer_name, hidden, router_weight, outputs, normalise, alpha, beta, gamma):
    """One forward and backward of their layer in training mode.

    hidden [B,T,d], router_weight [n,d], outputs [B·T,k,d_out] in the order of a stable top-k. Returns the logits they
    computed, what they logged, their two weights, and the gradients of their loss in logits and outputs.
    """
    experts, slots = router_weight.shape[0], outputs.shape[1]
    config = types.SimpleNamespace(
        num_experts_per_tok=slots, n_routed_experts=experts, scoring_func="softmax", aux_loss_alpha=alpha,
        seq_aux=True, variance_loss_weight=gamma, ortho_loss_weight=beta, norm_topk_prob=normalise,
        hidden_size=hidden.shape[-1], intermediate_size=4, moe_intermediate_size=4, n_shared_experts=None,
        hidden_act="silu", routed_scaling_factor=1.0, topk_method="greedy", n_group=1, topk_group=1,
        pretraining_tp=1)
    seen = {}

    def linear(x, weight, bias=None):
        result = torch.nn.functional.linear(x, weight, bias)
        if result.requires_grad:
            result.retain_grad()
            seen["logits"] = result
        return result

    functional = AnyModule("functional")
    functional.__dict__.update(vars(torch.nn.functional))
    functional.linear = linear
    module.F = functional
    module.oloss_w = module.vloss_w = -1
    module.step_cnt = 0
    with contextlib.redirect_stdout(io.StringIO()):
        layer = getattr(module, layer_name)(config, 1)
    layer.train()
    layer.gate.weight.data = router_weight.clone()
    with torch.no_grad():
        flat = hidden.reshape(-1, hidden.shape[-1])
        chosen = reference.stable_topk(torch.nn.functional.linear(flat, router_weight).softmax(dim=-1), slots)
    outputs = outputs.clone().requires_grad_(True)
    layer.experts = torch.nn.ModuleList([RowsOfExpert(outputs[chosen == j]) for j in range(experts)])
    y = layer(hidden)
    y.backward(torch.zeros_like(y))  # their loss is injected whatever gradient arrives
    return {"logits": seen["logits"].detach(), "logged": layer.gate.writer.values,
            "ortho_weight": float(module.oloss_w), "variance_weight": float(module.vloss_w),
            "grad.logits": seen["logits"].grad, "grad.expert_outputs": outputs.grad}
