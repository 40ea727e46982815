#!/usr/bin/env python3
"""Trains attached models with transformers' Trainer and TRL's SFT, DPO and GRPO, and holds every step against autograd.

Each trainer runs twice on the CPU, from the same weights and seed, for a few steps: with metier.attach, and with a plain model
whose trainer adds the formulas (attach_formulas.py) to its loss. Every logged loss must agree to 1e-5, every gradient of
every step to 1e-3. The model's own auxiliary loss is on wherever the model has one: it must not count. Cases:

    trainer, sft   five architectures; gradient accumulation; checkpointing, reentrant or not; PEFT; label smoothing
    dpo            a reference model; PEFT, whose reference pass goes through the attached model without its adapter
    grpo           generation, log-probabilities of the old policy, several updates of one generation

Usage: trl_parity.py [--library build/release/lib/libmetier.so] [--only TEXT]
Needs PyTorch, transformers >= 5.15, trl >= 1.0, peft and datasets.
"""
import argparse
import contextlib
import logging
import os
import sys
import tempfile
import warnings

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path.insert(0, os.path.join(ROOT, "bindings", "python"))

try:
    import datasets
    import peft
    import tokenizers
    import torch
    import transformers
    import trl
except ImportError as error:
    print(f"trl_parity: needs a Python with torch, transformers, trl, peft and datasets: {error}", file=sys.stderr)
    sys.exit(77)

import metier
from attach_formulas import SETTINGS, VOCABULARY, Formulas, gradients_of, make_batch, make_model, worst_gradient

LOSS_LIMIT, GRADIENT_LIMIT = 1e-5, 1e-3
STEPS = 3
OWN_COEFFICIENT = 0.3  # of the model's own auxiliary loss: one that would be seen

GENERAL = {"max_steps": STEPS, "learning_rate": 1e-3, "lr_scheduler_type": "constant", "weight_decay": 0.0, "max_grad_norm": 0.0,
           "logging_steps": 1, "report_to": [], "disable_tqdm": True, "save_strategy": "no", "use_cpu": True,
           "optim": "adamw_torch", "seed": 1, "bf16": False, "logging_nan_inf_filter": False}


class Watch(transformers.TrainerCallback):
    """The gradients of every step."""

    def __init__(self):
        self.gradients = []

    def on_pre_optimizer_step(self, args, state, control, model=None, **_):
        self.gradients.append(gradients_of(model))


def with_formulas(trainer, formulas):
    """The reference: the same trainer, the formulas added to its loss by hand."""
    compute = trainer.compute_loss

    def compute_loss(model, inputs, *arguments, **named):
        labels, whole = inputs.get("labels"), named.get("num_items_in_batch")
        loss = compute(model, inputs, *arguments, **named)
        total = formulas.take()
        scaled = trainer.loss_is_scaled_for_ga
        if scaled is None and whole is not None:  # a loss by labels: so are the terms
            total = total * ((labels[:, 1:] != -100).sum() / whole)
        elif scaled:
            total = total / trainer.current_gradient_accumulation_steps
        return loss + total

    trainer.compute_loss = compute_loss


def train(make_trainer, model, attached):
    """([losses], [gradients], last terms)."""
    watch = Watch()
    objective = metier.attach(model, **SETTINGS) if attached else None
    with tempfile.TemporaryDirectory() as folder, contextlib.redirect_stdout(None):
        # Reentrant checkpointing would hide the terms from autograd.
        trainer = make_trainer(model, folder, watch, **({} if attached else {"gradient_checkpointing": False}))
        formulas = None
        if not attached:
            formulas = Formulas(trainer.model)
            model.config.output_router_logits = trainer.aux_loss_enabled = False  # the reference has no other auxiliary loss
            with_formulas(trainer, formulas)
        trainer.train()
    losses = [row["loss"] for row in trainer.state.log_history if "loss" in row]
    if attached:
        terms = {name: term.loss for name, term in objective.last.terms.items()}
        dead = objective.last.dead
        metier.detach(model)
    else:
        terms, dead = formulas.terms, {}
    return losses, watch.gradients, terms, dead


class Failures:
    def __init__(self):
        self.lines, self.count = [], 0

    def check(self, what, error, limit):
        self.count += 1
        if not error <= limit:
            self.lines.append(f"{what}: {error:.1e}, the limit is {limit:.1e}")
            print(f"FAILED {self.lines[-1]}", flush=True)
        return error


def compare(failures, label, name, make_trainer):
    model, plain = make_model(name), make_model(name)
    if hasattr(model.config, "router_aux_loss_coef"):
        model.config.router_aux_loss_coef = model.router_aux_loss_coef = OWN_COEFFICIENT
        model.config.output_router_logits = "grpo" not in label  # transformers cannot generate with it; TRL asks in forward
    want_losses, want_gradients, want_terms, _ = train(make_trainer, plain, attached=False)
    losses, gradients, terms, dead = train(make_trainer, model, attached=True)
    same = len(losses) == len(want_losses) == STEPS and len(gradients) == len(want_gradients) == STEPS
    failures.check(f"{label}, {name}: steps {len(losses)}, {len(want_losses)}", 0.0 if same else 1.0, 0.0)
    if not same:
        return
    loss = failures.check(f"{label}, {name}: losses {losses}, wanted {want_losses}",
                          max(abs(a - b) / max(abs(b), 0.1) for a, b in zip(losses, want_losses)), LOSS_LIMIT)
    gradient = failures.check(f"{label}, {name}: gradients",
                              max(worst_gradient(a, b) for a, b in zip(gradients, want_gradients)), GRADIENT_LIMIT)
    term = failures.check(f"{label}, {name}: terms {terms}, wanted {want_terms}",
                          max(abs(terms[key] - value) / abs(value) for key, value in want_terms.items()), 1e-4)
    failures.check(f"{label}, {name}: dead terms {dead}", float(len(dead)), 0.0)
    print(f"{label:28} {name:12} loss {losses[0]:.5f}  losses {loss:.1e}  gradients {gradient:.1e}  terms {term:.1e}", flush=True)


# ---------------------------------------------------------------- what they are trained on


def make_tokenizer():
    words = ["[pad]", "[bos]", "[eos]", *(f"w{number}" for number in range(3, VOCABULARY))]
    raw = tokenizers.Tokenizer(tokenizers.models.WordLevel({word: number for number, word in enumerate(words)}, "w3"))
    raw.pre_tokenizer = tokenizers.pre_tokenizers.WhitespaceSplit()
    return transformers.PreTrainedTokenizerFast(tokenizer_object=raw, pad_token="[pad]", eos_token="[eos]", bos_token="[bos]",
                                                padding_side="left")


def words(generator, count):
    return " ".join(f"w{int(number)}" for number in torch.randint(3, VOCABULARY, (count,), generator=generator))


def sentences(*columns, rows=16):
    generator = torch.Generator().manual_seed(7)
    return datasets.Dataset.from_list([{name: words(generator, 3 + (row * 5 + number) % 8) for number, name in enumerate(columns)}
                                       for row in range(rows)])


class Rows(torch.utils.data.Dataset):
    def __init__(self, batch):
        self.batch = batch

    def __len__(self):
        return len(self.batch["input_ids"])

    def __getitem__(self, index):
        return {key: value[index] for key, value in self.batch.items()}


def lora():
    return peft.LoraConfig(r=4, lora_alpha=8, lora_dropout=0.0, target_modules=["q_proj"], task_type="CAUSAL_LM", target_parameters=[
        "mlp.experts.gate_up_proj", "mlp.experts.down_proj", "mlp.gate.weight"])


# ---------------------------------------------------------------- the trainers


def cross_entropy(outputs, labels, num_items_in_batch=None):
    """A loss of the user's own, which knows nothing of the model's."""
    logits, following = outputs.logits[:, :-1].flatten(0, 1), labels[:, 1:].flatten()
    return torch.nn.functional.cross_entropy(logits, following, reduction="sum", ignore_index=-100) / num_items_in_batch


def trainer_of(loss=None, **changes):
    def make(model, folder, watch, **overrides):
        arguments = transformers.TrainingArguments(folder, **{**GENERAL, "per_device_train_batch_size": 4, **changes, **overrides})
        return transformers.Trainer(model=model, args=arguments, train_dataset=Rows(make_batch(rows=16, length=33)),
                                    compute_loss_func=loss, callbacks=[watch])

    return make


def sft_of(adapter=None, **changes):
    def make(model, folder, watch, **overrides):
        arguments = trl.SFTConfig(folder, **{**GENERAL, "per_device_train_batch_size": 4, "gradient_checkpointing": False,
                                             **changes, **overrides})
        torch.manual_seed(3)
        return trl.SFTTrainer(model=model, args=arguments, train_dataset=sentences("text"), processing_class=make_tokenizer(),
                              callbacks=[watch], peft_config=lora() if adapter else None)

    return make


def dpo_of(name, adapter=None, **changes):
    def make(model, folder, watch, **overrides):
        arguments = trl.DPOConfig(folder, **{**GENERAL, "per_device_train_batch_size": 4, "gradient_checkpointing": False, **changes,
                                             **overrides})
        torch.manual_seed(3)
        return trl.DPOTrainer(model=model, ref_model=None if adapter else make_model(name, seed=2), args=arguments,
                              train_dataset=sentences("prompt", "chosen", "rejected"), processing_class=make_tokenizer(),
                              callbacks=[watch], peft_config=lora() if adapter else None)

    return make


def even_words(completions, **_):
    """A reward that varies: the share of words with an even number."""
    return [sum(int(word[1:]) % 2 == 0 for word in text.split() if word[1:].isdigit()) / 8.0 for text in completions]


def grpo_of(adapter=None, **changes):
    def make(model, folder, watch, **overrides):
        arguments = trl.GRPOConfig(folder, **{**GENERAL, "per_device_train_batch_size": 4, "gradient_checkpointing": False,
                                              "num_generations": 4, "max_completion_length": 8, "use_vllm": False, **changes,
                                              **overrides})
        if adapter is None:  # the reference model is read from where the model came from
            model.save_pretrained(os.path.join(folder, "base"))
            model.config._name_or_path = os.path.join(folder, "base")
        torch.manual_seed(3)
        return trl.GRPOTrainer(model=model, reward_funcs=even_words, args=arguments, train_dataset=sentences("prompt"),
                               processing_class=make_tokenizer(), callbacks=[watch], peft_config=lora() if adapter else None)

    return make


def cases():
    """(label, model, what makes the trainer)"""
    for name in ("qwen3_moe", "mixtral", "olmoe", "deepseek_v2", "deepseek_v3"):
        yield "trainer", name, trainer_of()
        yield "sft", name, sft_of()
    yield "trainer, accumulated", "qwen3_moe", trainer_of(gradient_accumulation_steps=2, per_device_train_batch_size=2)
    yield "trainer, compute_loss_func", "qwen3_moe", trainer_of(cross_entropy, gradient_accumulation_steps=2,
                                                                per_device_train_batch_size=2)
    yield "trainer, label smoothing", "mixtral", trainer_of(label_smoothing_factor=0.1)
    yield "sft, accumulated", "qwen3_moe", sft_of(gradient_accumulation_steps=2, per_device_train_batch_size=2)
    for reentrant in (False, True):
        yield (f"sft, checkpointed {'reentrant' if reentrant else 'anew'}", "olmoe",
               sft_of(gradient_checkpointing=True, gradient_checkpointing_kwargs={"use_reentrant": reentrant}))
    yield "sft, PEFT", "qwen3_moe", sft_of(adapter=True)
    yield "sft, own coefficient", "mixtral", sft_of(router_aux_loss_coef=0.7)
    yield "dpo", "qwen3_moe", dpo_of("qwen3_moe")
    yield "dpo", "deepseek_v3", dpo_of("deepseek_v3")
    yield "dpo, own coefficient", "mixtral", dpo_of("mixtral", router_aux_loss_coef=0.7)
    yield "dpo, PEFT, checkpointed", "qwen3_moe", dpo_of("qwen3_moe", adapter=True, gradient_checkpointing=True,
                                                         gradient_checkpointing_kwargs={"use_reentrant": False})
    yield "dpo, PEFT, accumulated", "qwen3_moe", dpo_of("qwen3_moe", adapter=True, gradient_accumulation_steps=2,
                                                        per_device_train_batch_size=2)
    yield "grpo", "qwen3_moe", grpo_of(beta=0.04)
    yield "grpo", "deepseek_v3", grpo_of()
    yield "grpo, PEFT, two updates", "qwen3_moe", grpo_of(adapter=True, num_iterations=2, beta=0.04, gradient_accumulation_steps=2,
                                                          per_device_train_batch_size=2, num_generations=2)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--library", default=os.path.join(ROOT, "build", "release", "lib", "libmetier.so"))
    parser.add_argument("--only", default="", help="cases that contain this")
    arguments = parser.parse_args()
    os.environ["METIER_LIBRARY"] = arguments.library
    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()
    datasets.disable_progress_bars()
    logging.getLogger("trl").setLevel(logging.ERROR)
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    failures = Failures()
    for label, name, make_trainer in cases():
        if arguments.only in f"{label}, {name}":
            compare(failures, label, name, make_trainer)
    print(f"{failures.count} comparisons, {len(failures.lines)} failures")
    return 1 if failures.lines else 0


if __name__ == "__main__":
    sys.exit(main())
