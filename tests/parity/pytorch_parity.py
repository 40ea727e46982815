#!/usr/bin/env python3
"""Compares bindings/python with PyTorch's own autograd, and an attached model with `metier train`.

    objective   metier.objective against autograd of the formulas (objective_reference.py, in double), every method and
                option on every router: f32 to 1e-5, or what PyTorch's own f32 loses where that is more; bf16 outputs
                against the same outputs in double, to what one rounding of a result to bf16 is
    attach      three AdamW steps of a transformers model with metier.attach against the losses of `metier train`, to
                1e-4: full training and PEFT's LoRA on experts and router, with and without gradient checkpointing,
                which must be the same
    liveness    terms that reach nothing that is trained are reported dead, or refused

Usage: pytorch_parity.py [--program build/release/bin/metier] [--library build/release/lib/libmetier.so] [--cases 2]
                         [--seed 1] [--only TEXT] [--device cpu]
Needs PyTorch, transformers >= 5.15, peft, tokenizers and safetensors. --device cuda computes objective on a GPU.
"""
import argparse
import copy
import os
import sys
import tempfile

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path.insert(0, os.path.join(ROOT, "bindings", "python"))

try:
    import peft
    import torch
    import transformers
except ImportError as error:
    print(f"pytorch_parity: needs a Python with torch, transformers and peft: {error}", file=sys.stderr)
    sys.exit(77)

import metier
import objective_cases as cases
import objective_reference as reference
import train_parity
from model_parity import Program
from objective_parity import as_outputs, differences

LIMIT, BF16_LIMIT, LOSS_LIMIT = 1e-5, 2.0**-8, 1e-4
STEPS = 3
ARCHITECTURES = ("deepseek_v2", "deepseek_v3", "mixtral", "olmoe", "qwen3_moe", "qwen2_moe", "glm4_moe_lite")
# expert-concat compares neighbours in the batch, and `metier train` shuffles: it is compared without.
METHODS = (("metier", {}), ("paper", {}), ("paper-code", {"grouping": "token"}), ("ernie", {}), ("simbal", {}), ("aux", {}))


class Failures:
    def __init__(self):
        self.lines, self.count = [], 0

    def check(self, what, error, limit):
        self.count += 1
        if not error <= limit:
            self.lines.append(f"{what}: {error:.1e}, the limit is {limit:.1e}")
            print(f"FAILED {self.lines[-1]}", flush=True)
        return error


# ---------------------------------------------------------------- the objective


def evaluate(inputs, router, method, keys, device, dtype=torch.float32):
    """What metier.objective says, under the names of `metier objective`."""
    leaves = {"logits": inputs.logits, "outputs": inputs.expert_outputs, "router_weight": inputs.router_weight}
    leaves = {name: None if value is None else value.detach().to(device, dtype if name == "outputs" else torch.float32)
              .clone().requires_grad_(True) for name, value in leaves.items()}
    others = {"mask": inputs.mask, "sequence": inputs.sequence, "bias": inputs.router_bias}
    others = {name: None if value is None else value.to(device) for name, value in others.items()}
    result = metier.objective(leaves["logits"], leaves["outputs"], router_weight=leaves["router_weight"], method=method,
                              top_k=router.slots, router=router.kind, normalise=router.normalise,
                              routed_scale=router.scale,
                              groups=router.groups, groups_kept=router.groups_kept, sparsemixer_jitter=router.jitter,
                              group_rule=router.group_rule if router.groups else "none", **others, **keys)
    (result.total * 1.0).backward()
    got = {"total": result.total.detach().cpu()}
    for name, term in result.terms.items():
        got["loss." + name], got["scale." + name] = term.loss, term.weight
    for name, leaf in (("logits", leaves["logits"]), ("expert_outputs", leaves["outputs"]),
                       ("router_weight", leaves["router_weight"])):
        if leaf is not None and leaf.grad is not None:
            got["grad." + name] = leaf.grad.float().cpu()
    return got


def objective_errors(got, wanted, inputs):
    got = {**got, "experts": wanted.experts, "weights": wanted.weights}  # the routing is objective_parity.py's business
    errors = differences(got, wanted, inputs)
    # The total is an f32 tensor, where terms may cancel; its parts are held by themselves.
    return {name: error for name, error in errors.items() if name not in ("experts", "weights")}


def options_of():
    """(label, method, keys): every method of the table, then every option of the terms."""
    for method in metier.methods():
        if method.name in reference.METHODS:
            yield f"method {method.name}", method.name, {}
    for group, option, (method, keys) in cases.OPTIONS:
        yield f"{group} {option}", method, keys


def compare_objective(failures, arguments):
    known = {method.name for method in metier.methods()}
    failures.check(f"methods without a reference: {sorted(known - set(reference.METHODS))}",
                   float(len(known - set(reference.METHODS))), 0.0)
    worst, excused, worst_bf16, count = 0.0, 0, 0.0, 0
    for index, (label, method, keys) in enumerate(options_of()):
        if arguments.only and arguments.only not in label:
            continue
        settings = reference.settings_of(method, keys)
        for router_name in cases.ROUTERS:
            if method == "loss-free" and router_name == "sparsemixer":  # refused: it chooses without a bias
                continue
            for turn in range(arguments.cases):
                seed = arguments.seed * 100000 + index * 1000 + turn * 31
                inputs, router = cases.draw_clear(seed, router_name, settings)
                wanted = reference.evaluate(inputs, router, settings)
                got = evaluate(inputs, router, method, keys, arguments.device)
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
            worst_bf16 = max(worst_bf16, compare_bf16(failures, label, inputs, router, method, keys, settings, arguments))
    print(f"objective: {count} cases, worst {worst:.1e} ({excused} as far off as PyTorch's f32), bf16 {worst_bf16:.1e}")


def compare_bf16(failures, label, inputs, router, method, keys, settings, arguments):
    """Outputs in bf16: sums stay f32, so that of the gradient only the last rounding is bf16's."""
    if inputs.expert_outputs is None or settings["form"] == "span":  # span magnifies roundings of nearly dependent rows
        return 0.0
    rounded = copy.copy(inputs)
    rounded.expert_outputs = inputs.expert_outputs.bfloat16().float()
    wanted = reference.evaluate(rounded, router, settings)
    got = evaluate(rounded, router, method, keys, arguments.device, torch.bfloat16)
    if "grad.expert_outputs" not in got:
        return 0.0
    want = wanted.grads["expert_outputs"].reshape(got["grad.expert_outputs"].shape)
    size = max(float(want.norm()), 1e-30)
    error = float((got["grad.expert_outputs"].double() - want).norm()) / size if size > 1e-20 else 0.0
    return failures.check(f"{label}, bf16 outputs: grad.expert_outputs", error, BF16_LIMIT)


# ---------------------------------------------------------------- attached models


def batch_of(examples):
    """input_ids, attention_mask and labels, padded on the right; labels are those of the tokens themselves."""
    length = max(len(ids) for ids, _ in examples)
    ids, mask, labels = [], [], []
    for tokens, following in examples:
        rest = length - len(tokens)
        ids.append(tokens + [0] * rest)
        mask.append([1] * len(tokens) + [0] * rest)
        labels.append([-100, *following[:-1]] + [-100] * rest)
    return {name: torch.tensor(rows) for name, rows in (("input_ids", ids), ("attention_mask", mask), ("labels", labels))}


def read_model(folder):
    return transformers.AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32, attn_implementation="eager",
                                                             experts_implementation="eager")


def train_attached(made, model, method, checkpointing=None, **settings):
    """(losses, tasks, dead terms) of three steps."""
    reference_model, _, examples = made
    attached = metier.attach(model, method=method, **settings)
    if checkpointing is not None:
        model.gradient_checkpointing_enable({"use_reentrant": checkpointing})
    model.train()
    learning = [parameter for parameter in model.parameters() if parameter.requires_grad]
    optimizer = torch.optim.AdamW(learning, lr=train_parity.RATE, betas=(0.9, 0.999),
                                  eps=train_parity.epsilon_of(reference_model), weight_decay=train_parity.DECAY)
    schedule = transformers.get_cosine_schedule_with_warmup(optimizer, train_parity.WARMUP, train_parity.STEPS)
    batch, losses, tasks = batch_of(examples), [], []
    for _ in range(STEPS):
        loss = model(**batch, use_cache=False).loss
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(learning, train_parity.CLIP)
        optimizer.step()
        schedule.step()
        losses.append(float(loss.detach()))
        tasks.append(losses[-1] - float(attached.total.detach()))
    dead = attached.last.dead
    metier.detach(model)
    return losses, tasks, dead


def largest(got, want):
    return max(abs(a - b) / abs(b) for a, b in zip(got, want, strict=True))


def full_run(program, made, method, settings):
    """What `metier train` says of its first three steps, everything trained."""
    model = made[0]
    config = train_parity.base_config(model, os.path.join(model.folder, "rows.jsonl"))
    config.pop("lora")
    train_parity.write_config(os.path.join(model.folder, "train.yaml"), {**config, "train": "full", "targets": ["*"]})
    _, records = train_parity.train(program, model.folder, f"full-{method}",
                                    [f"method={method}", *(f"objective.{key}={value}" for key, value in settings.items())])
    return [record["loss"] for record in records[:STEPS]], [record["task"] for record in records[:STEPS]]


def compare_attached(failures, program, place, name, arguments):
    made = train_parity.make(os.path.join(place, name), name, arguments.seed)
    folder, row = made[0].folder, []
    for method, settings in METHODS:
        want_losses, want_tasks = full_run(program, made, method, settings)
        losses, tasks, _ = train_attached(made, read_model(folder), method, **settings)
        row.append(failures.check(f"{name} {method}: losses", largest(losses, want_losses), LOSS_LIMIT))
        failures.check(f"{name} {method}: task", largest(tasks, want_tasks), LOSS_LIMIT)
    plain = train_attached(made, read_model(folder), "metier")[0]
    for reentrant in (False, True):
        again = train_attached(made, read_model(folder), "metier", checkpointing=reentrant)[0]
        failures.check(f"{name}: checkpointing (reentrant {reentrant})", largest(again, plain), 1e-6)
    compare_untouched(failures, name, folder, batch_of(made[2]))
    print(f"{name:22}" + "".join(f"{error:11.1e}" for error in row), flush=True)


def compare_untouched(failures, name, folder, batch):
    """The model computes what it did: attached, in training and not, and detached again."""
    model = read_model(folder).eval()
    with torch.no_grad():
        want = model(**batch, use_cache=False)
        metier.attach(model)
        same = model(**batch, use_cache=False)
        trained = model.train()(**batch, use_cache=False)
        task = trained.loss  # without gradients nothing is added to it
        metier.detach(model)
        after = model.eval()(**batch, use_cache=False)
    size = float(want.logits.pow(2).mean().sqrt())
    failures.check(f"{name}: logits in evaluation", float((same.logits - want.logits).abs().max()), 0.0)
    failures.check(f"{name}: logits in training", float((trained.logits - want.logits).abs().max()) / size, 1e-4)
    failures.check(f"{name}: loss in training", largest([float(task)], [float(want.loss)]), 1e-5)
    failures.check(f"{name}: logits detached", float((after.logits - want.logits).abs().max()), 0.0)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--program", default=os.path.join(ROOT, "build", "release", "bin", "metier"))
    parser.add_argument("--library", default=os.path.join(ROOT, "build", "release", "lib", "libmetier.so"))
    parser.add_argument("--cases", type=int, default=2, help="random cases for every option and router")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", default="", help="options or architectures that contain this")
    parser.add_argument("--device", default="cpu", help="where objective computes: cpu or cuda")
    parser.add_argument("--part", choices=("objective", "attach"), help="only this part")
    arguments = parser.parse_args()
    os.environ["METIER_LIBRARY"] = arguments.library
    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()
    torch.set_num_threads(1)
    failures = Failures()
    if arguments.part != "attach":
        compare_objective(failures, arguments)
    if arguments.part != "objective":
        with tempfile.TemporaryDirectory() as place:
            program = Program(arguments.program, place)
            print(f"{'losses of three steps':22}" + "".join(f"{method:>11}" for method, _ in METHODS))
            for name in (name for name in ARCHITECTURES if arguments.only in name):
                compare_attached(failures, program, place, name, arguments)
    print(f"{failures.count} comparisons, {len(failures.lines)} failures")
    return 1 if failures.lines else 0


if __name__ == "__main__":
    sys.exit(main())
