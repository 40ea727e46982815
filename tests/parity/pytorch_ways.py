"""The ways people train, with an objective attached: PEFT, bf16, transformers' Trainer; and terms that are dead.

pytorch_parity.py runs these on one of its random models; `models` reads it anew, `batch` is its data.
"""
import contextlib
import os
import subprocess
import sys
import tempfile
import warnings

import peft
import torch
import transformers

import metier

RATE = 3e-3


def three_steps(model, batch, method="metier", **settings):
    """([losses], the last Result): AdamW on what learns."""
    attached = metier.attach(model, method, **settings)
    learning = [parameter for parameter in model.train().parameters() if parameter.requires_grad]
    optimizer = torch.optim.AdamW(learning, lr=RATE, weight_decay=0.0)
    losses = []
    for _ in range(3):
        loss = model(**batch, use_cache=False).loss
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(float(loss.detach()))
    metier.detach(model)
    return losses, attached.last


def relative(got, want):
    return max(abs(a - b) / abs(b) for a, b in zip(got, want, strict=True))


# ---------------------------------------------------------------- PEFT


def adapted(model):
    """LoRA on the fused experts and on the router, the same every time."""
    torch.manual_seed(3)
    config = peft.LoraConfig(r=4, lora_alpha=8, target_modules=[], target_parameters=[
        "mlp.experts.gate_up_proj", "mlp.experts.down_proj", "mlp.gate.weight"])
    return peft.get_peft_model(model, config)


def check_peft(failures, name, models, batch):
    losses, last = three_steps(adapted(models()), batch)
    failures.check(f"{name} PEFT: dead terms {last.dead}", float(len(last.dead)), 0.0)
    # Attached before PEFT wraps it: the same.
    inner = models()
    attached = metier.attach(inner, "metier")
    wrapped = adapted(inner).train()
    first = float(wrapped(**batch, use_cache=False).loss.detach())
    failures.check(f"{name} PEFT: attached before", relative([first], losses[:1]), 1e-7)
    metier.detach(inner)
    del attached
    again = adapted(models())
    again.gradient_checkpointing_enable({"use_reentrant": False})
    failures.check(f"{name} PEFT: checkpointing", relative(three_steps(again, batch)[0], losses), 1e-6)
    check_router_gradient(failures, name, models, batch)


def check_router_gradient(failures, name, models, batch):
    """B is zero: the weights are the plain model's, and dB = scale · dW · Aᵀ."""
    plain, lora = models().train(), adapted(models()).train()
    for model in (plain, lora):
        metier.attach(model, "metier", gamma=3.0, beta=3.0)
        model(**batch, use_cache=False).loss.backward()
        metier.detach(model)
    worst = 0.0
    wanted = {key: value.grad for key, value in plain.named_parameters() if key.endswith(".mlp.gate.weight")}
    for key, matrix in lora.named_parameters():
        layer = key.removeprefix("base_model.model.").split(".gate.")[0] + ".gate.weight"
        if ".gate." not in key or "lora_B" not in key or layer not in wanted:
            continue
        low = lora.get_parameter(key.replace("lora_B", "lora_A"))
        want = 2.0 * wanted.pop(layer) @ low.detach().T
        worst = max(worst, float((matrix.grad - want).norm() / want.norm()))
    failures.check(f"{name} PEFT: routers without a pair: {sorted(wanted)}", float(len(wanted)), 0.0)
    failures.check(f"{name} PEFT: gradients of the router's B", worst, 1e-4)


# ---------------------------------------------------------------- bf16


def check_bf16(failures, name, models, batch):
    """In bf16 the task is what it is without us, up to one rounding of the sum; the terms are those of f32."""
    exact, in_f32 = three_steps(models(), batch)
    model = models().to(torch.bfloat16)
    with torch.no_grad():
        want = float(model.train()(**batch, use_cache=False).loss)
    losses, in_bf16 = three_steps(model, batch)
    failures.check(f"{name} bf16: the first loss", abs(losses[0] - want) / want, 2e-2)
    failures.check(f"{name} bf16: losses", relative(losses, exact), 5e-2)
    for term in ("aux", "o"):
        failures.check(f"{name} bf16: L_{term}", relative([in_bf16.terms[term].loss], [in_f32.terms[term].loss]), 5e-2)


# ---------------------------------------------------------------- Trainer


class Rows(torch.utils.data.Dataset):
    def __init__(self, batch):
        self.batch = batch

    def __len__(self):
        return len(self.batch["input_ids"])

    def __getitem__(self, index):
        return {key: value[index] for key, value in self.batch.items()}


def trainer_losses(model, batch, accumulation):
    """(the rows of training, those of evaluation and of the whole run) of the log"""
    attached = metier.attach(model, "metier")
    rows = len(batch["input_ids"])
    with tempfile.TemporaryDirectory() as folder, contextlib.redirect_stdout(None):
        arguments = transformers.TrainingArguments(
            folder, per_device_train_batch_size=rows // accumulation, gradient_accumulation_steps=accumulation, max_steps=3,
            learning_rate=RATE, lr_scheduler_type="constant", weight_decay=0.0, max_grad_norm=0.0, logging_steps=1,
            report_to=[], disable_tqdm=True, save_strategy="no", use_cpu=True, optim="adamw_torch", seed=1,
            eval_strategy="steps", eval_steps=1)
        trainer = transformers.Trainer(model=model, args=arguments, train_dataset=Rows(batch), eval_dataset=Rows(batch),
                                       callbacks=[attached.callback()])
        trainer.train()
    metier.detach(model)
    history = trainer.state.log_history
    return [row for row in history if "loss" in row], [row for row in history if "loss" not in row]


def check_trainer(failures, name, models, batch):
    want, _ = three_steps(models(), batch)
    rows, others = trainer_losses(models(), batch, 1)
    failures.check(f"{name} Trainer: losses", relative([row["loss"] for row in rows], want), 1e-3)
    logged = all({"metier/aux", "metier/o", "metier/o_weighted", "metier/v_alive"} <= set(row) for row in rows)
    failures.check(f"{name} Trainer: terms in the log", 0.0 if logged else 1.0, 0.0)
    failures.check(f"{name} Trainer: alive in the log", sum(1.0 - row["metier/o_alive"] for row in rows), 0.0)
    strays = sum(any(key.startswith("metier/") for key in row) for row in others)
    failures.check(f"{name} Trainer: terms in {strays} rows that are not of training", float(strays), 0.0)
    # In two halves: their shares add up to one total, near that of the whole.
    halves, _ = trainer_losses(models(), batch, 2)
    failures.check(f"{name} Trainer: accumulated", relative([halves[0]["loss"]], want[:1]), 1e-2)


# ---------------------------------------------------------------- liveness


def refused(failures, what, function, sentence):
    try:
        function()
    except metier.Failure as failure:
        failures.check(f"{what}: says '{failure}'", 0.0 if sentence in str(failure) else 1.0, 0.0)
        return
    failures.check(f"{what}: was not refused", 1.0, 0.0)


def check_liveness(failures, name, models, batch):
    model = models().train()
    for key, parameter in model.named_parameters():
        parameter.requires_grad_(".experts." not in key)
    metier.attach(model, "metier")
    refused(failures, f"{name}: frozen experts", lambda: model(**batch, use_cache=False), "term o has coefficient")
    metier.detach(model)
    attached = metier.attach(model, "metier", strict=False)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        model(**batch, use_cache=False).loss.backward()
    told = sum("term o" in str(warning.message) for warning in caught)
    failures.check(f"{name}: told {told} times of a dead term", 0.0 if told > 0 else 1.0, 0.0)
    failures.check(f"{name}: dead are {sorted(attached.last.dead)}", 0.0 if set(attached.last.dead) == {"o"} else 1.0, 0.0)
    failures.check(f"{name}: L_o in the log", attached.last.metrics()["metier/o_alive"], 0.0)
    metier.detach(model)
    # A loss that leaves the total out: refused, or said once.
    without = {key: value for key, value in batch.items() if key != "labels"}
    for strict in (True, False):
        model = models().train()
        metier.attach(model, "metier", beta=1e3, strict=strict)
        if strict:
            refused(failures, f"{name}: the total is not in the loss",
                    lambda: model(**without, use_cache=False).logits.sum().backward(), "add `attached.total`")
        else:
            with warnings.catch_warnings(record=True) as caught:
                warnings.simplefilter("always")
                for _ in range(2):
                    model(**without, use_cache=False).logits.sum().backward()
            told = sum("add `attached.total`" in str(warning.message) for warning in caught)
            failures.check(f"{name}: told {told} times that the total is not in the loss", abs(told - 1.0), 0.0)
        metier.detach(model)
    refused(failures, f"{name}: a method that is not there", lambda: metier.attach(models(), "metir"), "metier")
    refused(failures, f"{name}: a key that is not there", lambda: metier.attach(models(), bete=1), "beta")
    refused(failures, f"{name}: no bias to move", lambda: metier.attach(models(), "loss-free"), "selection bias")


def check_dropping(failures, name, models, batch):
    """Methods that drop slots and shake the router's input train, too; drops are drawn anew in every step."""
    for method in ("gshard", "st-moe"):
        losses, last = three_steps(models(), batch, method)
        failures.check(f"{name} {method}: a loss is not a number", sum(loss != loss for loss in losses), 0.0)
        failures.check(f"{name} {method}: dead terms", float(len(last.dead)), 0.0)


def check_loss_free(failures, name, models, batch):
    """The selection bias moves by its rate, against the loads."""
    model = models()
    before = [b.clone() for key, b in model.state_dict().items() if key.endswith("e_score_correction_bias")]
    three_steps(model, batch, "loss-free")
    after = [b for key, b in model.state_dict().items() if key.endswith("e_score_correction_bias")]
    moved = [float((b - a).abs().max()) for a, b in zip(before, after, strict=True)]
    failures.check(f"{name} loss-free: moved by {moved}", max(abs(m - 2e-3) for m in moved) if moved else 1.0, 1.1e-3)


def check_example(failures, root):
    """docs/pytorch.md begins with a program that works."""
    with open(os.path.join(root, "docs", "pytorch.md"), encoding="utf-8") as file:
        program = file.read().split("```python\n")[1].split("```")[0]
    environment = {**os.environ, "PYTHONPATH": os.path.join(root, "bindings", "python")}
    done = subprocess.run([sys.executable, "-B", "-c", program], cwd=root, env=environment, capture_output=True, text=True,
                          check=False)
    lines = done.stdout.splitlines()
    works = done.returncode == 0 and sum("alive" in line for line in lines) == 9 and "step 2: loss" in done.stdout
    failures.check(f"docs/pytorch.md's example says: {done.stdout[-300:]}{done.stderr[-600:]}", 0.0 if works else 1.0, 0.0)


def check_all(failures, name, models, batch):
    check_liveness(failures, name, models, batch)
    check_peft(failures, name, models, batch)
    check_bf16(failures, name, models, batch)
    check_trainer(failures, name, models, batch)
    check_dropping(failures, name, models, batch)
