#!/usr/bin/env python3
"""Makes tests/objective/golden: small inputs, settings, and what PyTorch says of them in double precision.

A file per group of options and router, GROUP.ROUTER.safetensors. Metadata: `router`, and a line of key=value settings
for each case 0, 1, ... Tensors: the inputs; `experts` and `weights`; for each case `I.values` (the losses of all terms,
their weights, the total), the gradients that are not zero everywhere, `I.experts` where slots are dropped, and with
pools `I.experts` and `I.weights`.
tests/objective/test_golden.c compares. Needs PyTorch and safetensors.
"""
import os
import sys

try:
    import torch
    from safetensors.torch import save_file
except ImportError as error:
    print(f"objective_golden: needs a Python with torch and safetensors: {error}", file=sys.stderr)
    sys.exit(77)

import objective_cases as cases
import objective_reference as reference
from objective_parity import GRADIENTS, ROOT, Program

FOLDER = os.path.join(ROOT, "tests", "objective", "golden")
TOKENS, EXPERTS, WIDTH = 7, 8, 10
ROUTERS = ("softmax", "softmax norm", "softmax groups", "sigmoid", "sigmoid bias norm", "sigmoid groups", "sparsemixer")
# L_o sees of the router only who was chosen and how strongly; its gradients are the largest part of the files.
ROUTERS_OF_GROUP = {"L_o": ("softmax", "sparsemixer"), "L_z": ("softmax",), "rows": ("softmax",),
                    "scale": ("softmax norm", "sigmoid bias norm"), "drops": ("softmax norm", "sigmoid groups"),
                    "pool": ("softmax", "sigmoid bias norm"), "method": ("softmax", "softmax groups", "sigmoid bias norm", "sparsemixer")}
FILE_OF_GROUP = {"L_aux": "aux", "L_o": "ortho", "L_v": "variance", "L_z": "zloss", "rows": "router_rows"}


def make_inputs(router_name):
    fixed = cases.ROUTERS[router_name]
    generator = torch.Generator().manual_seed(list(cases.ROUTERS).index(router_name) + 7)

    def normal(*shape):
        return torch.randn(*shape, generator=generator)

    grouped = "group_rule" in fixed
    router = reference.Router(
        kind=fixed["kind"], slots=fixed.get("slots", 3), normalise=fixed.get("normalise", False),
        scale=fixed.get("scale", 1.0), groups=4 if grouped else 0, groups_kept=2 if grouped else 0,
        group_rule=fixed.get("group_rule", "max"), jitter=0.29 if fixed["kind"] == "sparsemixer" else 0.0)
    inputs = reference.Inputs(
        logits=(normal(TOKENS, EXPERTS) * 8).round() / 8,  # a grid: some are equal
        expert_outputs=normal(TOKENS, router.slots, WIDTH) + 0.5 * normal(TOKENS, 1, WIDTH),
        mask=torch.tensor([1, 1, 0, 1, 1, 1, 1], dtype=torch.int32),
        sequence=torch.tensor([5, 5, 5, -2, -2, 5, -2], dtype=torch.int32),
        router_weight=normal(EXPERTS, WIDTH) / WIDTH**0.5,
        router_bias=0.2 * normal(EXPERTS) if fixed.get("bias") else None)
    return inputs, router


def router_text(router):
    return (f"kind={router.kind} slots={router.slots} normalise={int(router.normalise)} scale={router.scale!r} "
            f"groups={router.groups} groups_kept={router.groups_kept} group_rule={router.group_rule} "
            f"jitter={router.jitter!r}")


def single_case(number, inputs, router, method, keys, tensors):
    settings = reference.settings_of(method, keys)
    if cases.unclear(inputs, router, settings):
        raise RuntimeError(f"{method} {keys}: something hangs on rounding; change the seed")
    results = reference.evaluate(inputs, router, settings)
    values = [results.loss.get(term, 0.0) for term in reference.TERMS]
    values += [results.scale.get(term, 0.0) for term in reference.TERMS] + [results.total]
    tensors[f"{number}.values"] = torch.tensor(values, dtype=torch.float64)
    for name in GRADIENTS:
        gradient = results.grads[name]
        if bool((gradient != 0).any()):
            assert float(gradient.pow(2).mean().sqrt()) > 0.03 * results.summed[name], "a gradient that cancels"
            tensors[f"{number}.grad.{name}"] = gradient.to(torch.float32)
    if settings["pool"]:
        tensors[f"{number}.weights"] = results.weights.to(torch.float32)
    if settings["pool"] or reference.drops_slots(settings):
        tensors[f"{number}.experts"] = results.experts.to(torch.int32)
    elif "experts" not in tensors:
        tensors["experts"] = results.experts.to(torch.int32)
    if "weights" not in tensors and not settings["pool"]:
        tensors["weights"] = results.weights.to(torch.float32)
    return " ".join([f"method={method}", *Program.key_values(keys)])


def main():
    os.makedirs(FOLDER, exist_ok=True)
    for name in os.listdir(FOLDER):
        os.remove(os.path.join(FOLDER, name))
    total = count = 0
    for group in dict.fromkeys(group for group, _, _ in cases.OPTIONS):
        for router_name in ROUTERS_OF_GROUP.get(group, ROUTERS):
            inputs, router = make_inputs(router_name)
            tensors = {name: value for name, value in vars(inputs).items() if value is not None}
            metadata = {"router": router_text(router)}
            number = 0
            for its_group, _, (method, keys) in cases.OPTIONS:
                if its_group == group:
                    metadata[str(number)] = single_case(number, inputs, router, method, keys, tensors)
                    number += 1
            file = f"{FILE_OF_GROUP.get(group, group)}.{router_name.replace(' ', '-')}.safetensors"
            path = os.path.join(FOLDER, file)
            save_file({name: value.contiguous() for name, value in tensors.items()}, path, metadata)
            total += os.path.getsize(path)
            count += number
            print(f"  {file:45} {number:3} cases {os.path.getsize(path):7} bytes")
    print(f"{count} cases, {total} bytes")


if __name__ == "__main__":
    main()
