"""metier.objective against autograd of the formulas: for pytorch_parity.py, and for tests/device/pytorch on a GPU.

The reference computes in double on the CPU (objective_reference.py), the inputs are f32. f32 to 1e-5, or what PyTorch's
own f32 loses where that is more; bf16 outputs against the same outputs in double, to what a rounding to bf16 is.
"""
import copy

import torch

import metier
import objective_cases as cases
import objective_reference as reference
from objective_parity import as_outputs, differences

LIMIT, BF16_LIMIT = 1e-5, 2.0**-8


class Failures:
    def __init__(self):
        self.lines, self.count = [], 0

    def check(self, what, error, limit):
        self.count += 1
        if not error <= limit:
            self.lines.append(f"{what}: {error:.1e}, the limit is {limit:.1e}")
            print(f"FAILED {self.lines[-1]}", flush=True)
        return error


def evaluate(inputs, router, method, keys, device, dtype=torch.float32):
    """What metier.objective says, under the names of `metier objective`."""
    leaves = {"logits": inputs.logits, "outputs": inputs.expert_outputs, "router_weight": inputs.router_weight}
    leaves = {name: None if value is None else value.detach().to(device, dtype if name == "outputs" else torch.float32)
              .clone().requires_grad_(True) for name, value in leaves.items()}
    others = {"mask": inputs.mask, "sequence": inputs.sequence, "bias": inputs.router_bias}
    others = {name: None if value is None else value.to(device) for name, value in others.items()}
    result = metier.objective(leaves["logits"], leaves["outputs"], router_weight=leaves["router_weight"], method=method,
                              top_k=router.slots, router=router.kind, normalise=router.normalise,
                              routed_scale=router.scale, groups=router.groups, groups_kept=router.groups_kept,
                              sparsemixer_jitter=router.jitter,
                              group_rule=router.group_rule if router.groups else "none", **others, **keys)
    (result.total * 2.0).backward()  # gradients come with the factor of what the total is part of
    got = {"total": result.total.detach().cpu()}
    for name, term in result.terms.items():
        got["loss." + name], got["scale." + name] = term.loss, term.weight
    for name, leaf in (("logits", leaves["logits"]), ("expert_outputs", leaves["outputs"]),
                       ("router_weight", leaves["router_weight"])):
        if leaf is not None and leaf.grad is not None:
            got["grad." + name] = leaf.grad.float().cpu() / 2.0
    return got


def objective_errors(got, wanted, inputs):
    got = {**got, "experts": wanted.experts, "weights": wanted.weights}  # the routing is objective_parity.py's business
    errors = differences(got, wanted, inputs)
    # The total is an f32 tensor, where terms may cancel; its parts are held by themselves.
    return {name: error for name, error in errors.items() if name not in ("experts", "weights")}


def options_of(methods_alone):
    """(label, method, keys): every method of the table, then every option of the terms."""
    for method in metier.methods():
        if method.name in reference.METHODS:  # others need a whole model
            yield f"method {method.name}", method.name, {}
    if methods_alone:
        return
    for group, option, (method, keys) in cases.OPTIONS:
        yield f"{group} {option}", method, keys


def compare_objective(failures, device="cpu", cases_each=1, seed_base=1, only="", methods_alone=False):
    known = {method.name for method in metier.methods()}
    unknown = known - set(reference.METHODS) - set(reference.MODEL_METHODS)
    failures.check(f"methods without a reference: {sorted(unknown)}", float(len(unknown)), 0.0)
    worst, excused, worst_bf16, count = 0.0, 0, 0.0, 0
    for index, (label, method, keys) in enumerate(options_of(methods_alone)):
        if only and only not in label:
            continue
        settings = reference.settings_of(method, keys)
        for router_name in cases.ROUTERS:
            if reference.refused(method, router_name) or settings["pool"]:  # layers do not choose
                continue
            for turn in range(cases_each):
                seed = seed_base * 100000 + index * 1000 + turn * 31
                inputs, router = cases.draw_clear(seed, router_name, settings)
                wanted = reference.evaluate(inputs, router, settings)
                got = evaluate(inputs, router, method, keys, device)
                errors = objective_errors(got, wanted, inputs)
                single = None
                for name, error in errors.items():
                    limit = LIMIT
                    if not error <= LIMIT:  # PyTorch's own loss, where gradients cancel
                        single = single or objective_errors(
                            as_outputs(reference.evaluate(inputs, router, settings, torch.float32)), wanted, inputs)
                        limit, excused = max(LIMIT, single[name]), excused + 1
                    failures.check(f"{label}, {router_name}, seed {seed}: {name}", error, limit)
                worst, count = max(worst, *errors.values()), count + 1
            worst_bf16 = max(worst_bf16, compare_bf16(failures, label, inputs, router, method, keys, settings, device))
    print(f"objective: {count} cases, worst {worst:.1e} ({excused} as far off as PyTorch's f32), bf16 {worst_bf16:.1e}",
          flush=True)


def compare_bf16(failures, label, inputs, router, method, keys, settings, device):
    """Outputs in bf16: sums stay f32, so that of the gradient only the last rounding is bf16's."""
    if inputs.expert_outputs is None or settings["form"] == "span":  # span magnifies roundings of nearly dependent rows
        return 0.0
    rounded = copy.copy(inputs)
    rounded.expert_outputs = inputs.expert_outputs.bfloat16().float()
    wanted = reference.evaluate(rounded, router, settings)
    got = evaluate(rounded, router, method, keys, device, torch.bfloat16)
    if "grad.expert_outputs" not in got:
        return 0.0
    want = wanted.grads["expert_outputs"].reshape(got["grad.expert_outputs"].shape)
    size = max(float(want.norm()), 1e-30)
    error = float((got["grad.expert_outputs"].double() - want).norm()) / size if size > 1e-20 else 0.0
    return failures.check(f"{label}, bf16 outputs: grad.expert_outputs", error, BF16_LIMIT)
