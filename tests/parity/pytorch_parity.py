#!/usr/bin/env python3
"""Compares bindings/python with PyTorch's own autograd, and an attached model with `metier train`.

    objective   metier.objective against autograd of the formulas (objective_reference.py, in double), every method and
                option on every router: f32 to 1e-5, or what PyTorch's own f32 loses where that is more; bf16 outputs
                against the same outputs in double, to what one rounding of a result to bf16 is
    attach      three AdamW steps of a transformers model with metier.attach against the losses of `metier train`, to
                1e-4, and its terms, MaxVio and entropy against metrics.jsonl; with and without gradient checkpointing
    ways        PEFT, bf16, Trainer, methods that drop slots or move a bias; terms that reach nothing that is trained are
                refused, or reported dead (pytorch_ways.py)

Usage: pytorch_parity.py [--program build/release/bin/metier] [--library build/release/lib/libmetier.so] [--cases 2]
                         [--seed 1] [--only TEXT] [--device cpu]
Needs PyTorch, transformers >= 5.15, peft, tokenizers and safetensors. --device cuda computes objective on a GPU.
"""
import argparse
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
import pytorch_ways
import train_parity
from model_parity import Program
from pytorch_objective import Failures, compare_objective

LOSS_LIMIT, FIGURE_LIMIT = 1e-4, 1e-3
STEPS = 3
WAYS, BIASED = "olmoe", ("deepseek_v3", "ernie4_5_moe")  # which model is trained in every way; which have a selection bias
ARCHITECTURES = ("deepseek_v2", "deepseek_v3", "mixtral", "olmoe", "qwen3_moe", "qwen2_moe", "glm4_moe_lite", "glm4_moe", "dots1",
                 "ernie4_5_moe", "gpt_oss")
# expert-concat compares neighbours in the batch, and `metier train` shuffles: it is compared without.
METHODS = (("metier", {}), ("paper", {}), ("paper-code", {"grouping": "token"}), ("ernie", {}), ("simbal", {}), ("aux", {}))


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


def read_model(made):
    reference, tensors, _ = made
    model = transformers.AutoModelForCausalLM.from_pretrained(reference.folder, dtype=torch.float32, attn_implementation="eager",
                                                              experts_implementation="eager")
    if reference.turned:  # the file has every expert by itself, which transformers does not read of gpt_oss
        model.load_state_dict(reference.join(tensors))
    return model


def train_attached(made, model, method, checkpointing=None, **settings):
    """(losses, tasks, figures) of three steps."""
    reference_model, _, examples = made
    attached = metier.attach(model, method=method, **settings)
    if checkpointing is not None:
        model.gradient_checkpointing_enable({"use_reentrant": checkpointing})
    model.train()
    learning = [parameter for parameter in model.parameters() if parameter.requires_grad]
    optimizer = torch.optim.AdamW(learning, lr=train_parity.RATE, betas=(0.9, 0.999),
                                  eps=train_parity.epsilon_of(reference_model), weight_decay=train_parity.DECAY)
    schedule = transformers.get_cosine_schedule_with_warmup(optimizer, train_parity.WARMUP, train_parity.STEPS)
    batch, losses, tasks, figures = batch_of(examples), [], [], []
    for _ in range(STEPS):
        loss = model(**batch, use_cache=False).loss
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(learning, train_parity.CLIP)
        optimizer.step()
        schedule.step()
        losses.append(float(loss.detach()))
        tasks.append(losses[-1] - float(attached.total.detach()))
        figures.append(attached.last.metrics(prefix=""))
    metier.detach(model)
    return losses, tasks, figures


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
    return records[:STEPS]


def compare_figures(failures, label, figures, records):
    """What has a name in metrics.jsonl means the same here: means over layers, and what a term adds to the loss."""
    for step, (figure, record) in enumerate(zip(figures, records, strict=True)):
        for key, got in figure.items():
            name = key if key in record else f"weighted_{key.removesuffix('_weighted')}" if "_weighted" in key else f"term_{key}"
            if not key.endswith("_alive"):
                want = record[name]
                failures.check(f"{label}, step {step}: {key} {got}, {name} {want}", abs(got - want) / max(abs(want), 1e-6), FIGURE_LIMIT)


def compare_attached(failures, program, place, name, arguments):
    made = train_parity.make(os.path.join(place, name), name, arguments.seed)
    row = []
    for method, settings in METHODS:
        records = full_run(program, made, method, settings)
        losses, tasks, figures = train_attached(made, read_model(made), method, **settings)
        row.append(failures.check(f"{name} {method}: losses", largest(losses, [record["loss"] for record in records]), LOSS_LIMIT))
        failures.check(f"{name} {method}: task", largest(tasks, [record["task"] for record in records]), LOSS_LIMIT)
        compare_figures(failures, f"{name} {method}", figures, records)
    plain = train_attached(made, read_model(made), "metier")[0]
    for reentrant in (False, True):
        again = train_attached(made, read_model(made), "metier", checkpointing=reentrant)[0]
        failures.check(f"{name}: checkpointing (reentrant {reentrant})", largest(again, plain), 1e-6)
    batch = batch_of(made[2])
    compare_untouched(failures, name, made, batch)
    if name == WAYS:
        pytorch_ways.check_all(failures, name, lambda: read_model(made), batch)
        pytorch_ways.check_example(failures, ROOT)
    if name in BIASED:
        pytorch_ways.check_loss_free(failures, name, lambda: read_model(made), batch)
    print(f"{name:22}" + "".join(f"{error:11.1e}" for error in row), flush=True)


def compare_untouched(failures, name, made, batch):
    """The model computes what it did: attached, in training and not, and detached again."""
    model = read_model(made).eval()
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
        compare_objective(failures, arguments.device, arguments.cases, arguments.seed, arguments.only)
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
