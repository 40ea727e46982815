#!/usr/bin/env python3
"""What people do to a model besides one forward and its backward, with an objective attached: right, or refused.

    own        the model's own auxiliary loss: taken over, told by name, never counted twice
    forwards   without gradients, several before a backward, the total alone, backward twice, arguments by place
    alive      what backward did is what `alive` says
    copies     deepcopy, pickle, torch.save, save_pretrained, a shared config, PEFT's merge, detach
    wrappers   torch.compile, accelerate, PEFT, generate
    processes  DDP and FSDP2, two processes of gloo on the CPU

Losses and gradients are held against autograd of the formulas (attach_formulas.py): losses to 1e-5, gradients to 1e-3.

Usage: attach_parity.py [--library build/release/lib/libmetier.so] [--only TEXT]
Needs PyTorch, transformers >= 5.15, accelerate and peft.
"""
import argparse
import copy
import io
import os
import pickle
import sys
import tempfile
import warnings

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path.insert(0, os.path.join(ROOT, "bindings", "python"))

try:
    import accelerate
    import peft
    import torch
    import transformers
except ImportError as error:
    print(f"attach_parity: needs a Python with torch, transformers, accelerate and peft: {error}", file=sys.stderr)
    sys.exit(77)

import metier
from attach_formulas import SETTINGS, Formulas, gradients_of, make_batch, make_model, worst_gradient
from attach_processes import check_processes

LOSS_LIMIT, GRADIENT_LIMIT = 1e-5, 1e-3
NAME = "qwen3_moe"


class Failures:
    def __init__(self):
        self.lines, self.count = [], 0

    def check(self, what, error, limit):
        self.count += 1
        if not error <= limit:
            self.lines.append(f"{what}: {error:.1e}, the limit is {limit:.1e}")
            print(f"FAILED {self.lines[-1]}", flush=True)
        return error

    def holds(self, what, is_so):
        self.check(what, 0.0 if is_so else 1.0, 0.0)

    def refused(self, what, function, sentence):
        try:
            function()
        except Exception as failure:  # torch.compile has errors of its own, which quote the sentence
            self.holds(f"{what}: says '{failure}'", sentence in str(failure))
            return
        self.holds(f"{what}: was not refused", False)

    def same(self, what, got, want):
        """Of (loss, gradients)."""
        loss = self.check(f"{what}: loss {got[0]}, wanted {want[0]}", abs(got[0] - want[0]) / abs(want[0]), LOSS_LIMIT)
        gradient = self.check(f"{what}: gradients", worst_gradient(got[1], want[1]), GRADIENT_LIMIT)
        print(f"{what:52} loss {loss:.1e}  gradients {gradient:.1e}", flush=True)


def attached_model(name=NAME, **changes):
    model = make_model(name).train()
    return model, metier.attach(model, **{**SETTINGS, **changes})


def wanted(batches, name=NAME, weigh=None, prepare=None):
    """(loss, gradients) of the formulas: the sum over batches of task and total, in one backward."""
    model = make_model(name).train()
    if prepare is not None:
        model = prepare(model)
    formulas, loss = Formulas(model), 0.0
    for batch in batches:
        task = model(**batch, use_cache=False).loss
        loss = loss + (task + formulas.take() if weigh is None else weigh(task, formulas.take()))
    loss.backward()
    return float(loss.detach()), gradients_of(model)


def backward(model, loss):
    loss.backward()
    return float(loss.detach()), gradients_of(model)


def warned(function):
    """(result, the text of all warnings)"""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        result = function()
    return result, " ".join(str(warning.message) for warning in caught)


# ---------------------------------------------------------------- own


def check_own(failures):
    batch = make_batch()
    for name in ("qwen3_moe", "mixtral", "olmoe"):
        want = wanted([batch], name)
        for place in ("forward", "config"):
            model = make_model(name).train()
            model.config.router_aux_loss_coef = model.router_aux_loss_coef = 0.25
            if place == "config":
                model.config.output_router_logits = True
            _, said = warned(lambda: metier.attach(model, **SETTINGS))
            failures.holds(f"{name}: told at attach: {said}", ("router_aux_loss_coef 0.25" in said) == (place == "config"))
            asked = {"output_router_logits": True} if place == "forward" else {}
            output, later = warned(lambda: model(**batch, **asked, use_cache=False))
            failures.holds(f"{name}: told in forward: {later}", ("is taken over" in later) == (place == "forward"))
            failures.holds(f"{name}: aux_loss {output.aux_loss}, its router_logits stay",
                           float(output.aux_loss) == 0.0 and output.router_logits is not None)
            failures.same(f"{name}: own auxiliary loss, asked in {place}", backward(model, output.loss), want)
            failures.holds(f"{name}: the coefficient is there again",
                           model.router_aux_loss_coef == model.config.router_aux_loss_coef == 0.25)
            with torch.no_grad():
                model.eval()
                plain = model(**batch, output_router_logits=False).loss
                failures.holds(f"{name}: in evaluation", float(model(**batch, output_router_logits=True).loss) == float(plain))
            failures.refused(f"{name}: a forward that fails", lambda: model(input_ids=torch.tensor([[10**6]])), "index")
            failures.holds(f"{name}: the coefficient after a failure", model.router_aux_loss_coef == 0.25)
    model = make_model("mixtral").train()
    plain = float(model(**batch, output_router_logits=True).loss.detach())
    attached, said = warned(lambda: metier.attach(model, "simbal", lambda_simbal=1e-9, zeta=0.0))
    output, said = warned(lambda: model(**batch, output_router_logits=True))
    failures.holds(f"without L_aux the model's own stays: {said}", "stays in the loss: method simbal has no L_aux" in said)
    failures.check("without L_aux: loss", abs(float((output.loss - attached.total).detach()) - plain), 1e-5)


# ---------------------------------------------------------------- forwards


def check_forwards(failures):
    one, two = make_batch(3, 11, seed=5), make_batch(2, 17, seed=6)
    want_one, want_both = wanted([one]), wanted([one, two])
    for checkpointing in (None, False, True):
        def ready():
            model, attached = attached_model()
            if checkpointing is not None:
                model.gradient_checkpointing_enable({"use_reentrant": checkpointing})
            return model, attached

        label = {None: "", False: ", checkpointed", True: ", checkpointed reentrant"}[checkpointing]
        model, attached = ready()
        loss = model(**one, use_cache=False).loss
        before, step = attached.last, attached.step
        with torch.no_grad():
            model(**two, use_cache=False)
        model.eval()(**two, use_cache=False)
        model.train()
        failures.holds(f"a forward without gradients is no step{label}", attached.last is before and attached.step == step)
        failures.same(f"no_grad and eval before backward{label}", backward(model, loss), want_one)
        model, attached = ready()
        first = model(**one, use_cache=False).loss
        failures.same(f"two forwards, one backward{label}", backward(model, first + model(**two, use_cache=False).loss), want_both)
        model, attached = ready()
        first, second = model(**one, use_cache=False).loss, model(**two, use_cache=False).loss
        total = float((first + second).detach())
        first.backward()
        second.backward()
        failures.same(f"two forwards, two backwards{label}", (total, gradients_of(model)), want_both)
    check_total(failures, one, want_one)
    check_arguments(failures, one, want_one)
    check_state(failures, one, two)
    check_packed(failures)


def check_total(failures, batch, want):
    only = wanted([batch], weigh=lambda task, total: total)
    model, attached = attached_model()
    model(**batch, use_cache=False)
    failures.same("the total alone", backward(model, attached.total), only)
    model, attached = attached_model(strict=False)
    output = model(**{key: value for key, value in batch.items() if key != "labels"}, use_cache=False)
    task = model.loss_function(output.logits, batch["labels"], model.vocab_size)
    failures.same("a loss of one's own, and attached.total", backward(model, task + attached.total), want)
    model, attached = attached_model()
    output = model(**batch, use_cache=False)
    failures.refused("the total twice", lambda: (output.loss + attached.total).backward(), "in the loss twice")
    model, attached = attached_model()
    loss = model(**batch, use_cache=False).loss
    loss.backward(retain_graph=True)
    _ = attached.last.terms
    once = gradients_of(model)
    loss.backward()
    failures.same("backward twice", (float(loss.detach()), {name: value / 2 for name, value in gradients_of(model).items()}),
                  (want[0], once))
    model, attached = attached_model()
    loss = model(**batch, use_cache=False).loss
    loss.backward(retain_graph=True)
    model(**batch, use_cache=False).loss.backward()
    failures.refused("backward again after another forward", loss.backward, "a second backward")
    model, attached = attached_model()
    loss = model(**batch, use_cache=False).loss
    _ = attached.last.terms  # reading in between changes nothing
    failures.same("terms read before backward", backward(model, loss), want)
    whole = torch.tensor(40)
    share = int((batch["labels"][:, 1:] != -100).sum()) / 40
    part = wanted([{**batch, "num_items_in_batch": whole}], weigh=lambda task, total: task + share * total)
    model, attached = attached_model()
    failures.same("num_items_in_batch", backward(model, model(**batch, num_items_in_batch=whole, use_cache=False).loss), part)


def check_arguments(failures, batch, want):
    model, attached = attached_model()
    output = model(batch["input_ids"], batch["attention_mask"], labels=batch["labels"], use_cache=False)
    failures.same("attention_mask by place", backward(model, output.loss), want)
    model, attached = attached_model()
    failures.same("a tuple as output", backward(model, model(**batch, use_cache=False, return_dict=False)[0]), want)
    model, attached = attached_model()
    wrong = torch.ones(batch["input_ids"].shape[0], 40, dtype=torch.int64)
    failures.refused("a mask of another length", lambda: model(input_ids=batch["input_ids"], attention_mask=wrong),
                     "attention_mask must be")
    failures.refused("the layers called by themselves", lambda: model.model(input_ids=batch["input_ids"]), "outside the forward")
    with torch.no_grad():
        model.model(input_ids=batch["input_ids"])
    failures.refused("a copy of DataParallel's", lambda: model._replicate_for_data_parallel()(**batch), "DataParallel")
    failures.refused("a module without a config", lambda: metier.attach(torch.nn.ModuleList([make_model(NAME)])), "has no config")
    model.set_experts_implementation("eager")
    failures.refused("another experts implementation", lambda: model(**batch), "experts_implementation set after")


def check_packed(failures):
    """Sequences packed into one row, as position_ids say, are the sequences they are."""
    ids = make_batch(2, 10)["input_ids"]
    ids[1] = ids[0].flip(0)
    places = torch.arange(10).repeat(2)[None]
    found = []
    for batch in ({"input_ids": ids}, {"input_ids": ids.reshape(1, -1), "position_ids": places}):
        model = make_model(NAME).train()
        attached = metier.attach(model, "metier", aux="sequence")
        (model(**batch, use_cache=False).logits.sum() + attached.total).backward()
        found.append([term.loss for term in attached.last.terms.values()])
    failures.check(f"packed sequences: {found}", max(abs(a - b) / abs(b) for a, b in zip(*found, strict=True)), 1e-5)


def check_state(failures, one, two):
    """Forwards without gradients decide no scale and move no bias."""
    model, attached = attached_model(scale="once")
    with torch.no_grad():
        model(**two, use_cache=False)
    model(**one, use_cache=False).loss.backward()
    plain, other = attached_model(scale="once")
    plain(**one, use_cache=False).loss.backward()
    weights = [[term.weight for term in x.last.terms.values()] for x in (attached, other)]
    failures.holds(f"scales {weights}", weights[0] == weights[1])
    model = make_model("deepseek_v3").train()
    metier.attach(model, "loss-free")
    biases = [value for key, value in model.named_buffers() if key.endswith("e_score_correction_bias")]
    for _ in range(3):
        with torch.no_grad():
            model(**one, use_cache=False)
    failures.holds("loss-free: moved without gradients", all(float(bias.abs().max()) == 0.0 for bias in biases))
    for _ in range(2):
        model(**one, use_cache=False).loss.backward()
    moved = [float(bias.abs().max()) for bias in biases]
    failures.holds(f"loss-free: moved once by {moved}", all(abs(value - 1e-3) < 1e-6 for value in moved))
    first, second = model(**one, use_cache=False).loss, model(**two, use_cache=False).loss
    (first + second).backward()
    model(**one, use_cache=False)
    moved = [float(bias.abs().max()) for bias in biases]
    failures.holds(f"loss-free: moved by every forward that had its backward: {moved}", all(value > 1.5e-3 for value in moved))
    model = make_model(NAME).train()
    metier.attach(model, "none")
    model(input_ids=one["input_ids"]).logits.sum().backward()  # without terms no total is missed


# ---------------------------------------------------------------- alive


def check_alive(failures):
    batch = make_batch()
    model, attached = attached_model()
    loss = model(**batch, use_cache=False).loss
    failures.holds(f"before backward: {attached.last.dead}", all("no backward" in why for why in attached.last.dead.values())
                   and len(attached.last.dead) == 3)
    loss.backward()
    failures.holds(f"after backward: {attached.last.dead}", not attached.last.dead)
    failures.holds("in the log", attached.last.metrics()["metier/o_alive"] == 1.0)
    (model(**batch, use_cache=False).loss * 0.0).backward()
    failures.holds(f"times zero: {attached.last.dead}", all("zero" in why for why in attached.last.dead.values()))
    for checkpointing in (None, False, True):
        model, attached = attached_model(strict=False)
        if checkpointing is not None:
            model.gradient_checkpointing_enable({"use_reentrant": checkpointing})
        for frozen, dead in (((".experts.",), {"o"}), ((".mlp.gate.",), {"aux", "v"}), ((), set())):
            for key, parameter in model.named_parameters():
                parameter.requires_grad_(not any(part in key for part in frozen))
            _, said = warned(lambda: model(**batch, use_cache=False).loss.backward())
            failures.holds(f"frozen {frozen}: dead are {attached.last.dead}", set(attached.last.dead) == dead)
            failures.holds(f"frozen {frozen}: told '{said}'", all(f"term {name} did nothing" in said for name in dead))
        output = model(**{key: value for key, value in batch.items() if key != "labels"}, use_cache=False)
        _, said = warned(lambda: output.logits.sum().backward())
        failures.holds(f"a loss without the total: '{said}'", "their total is not in the loss" in said and len(attached.last.dead) == 3)
    model, attached = attached_model()
    model(**batch, use_cache=False).loss.backward()
    for key, parameter in model.named_parameters():
        parameter.requires_grad_(".experts." not in key)
    failures.refused("frozen after the first step", lambda: model(**batch, use_cache=False).loss.backward(), "term o did nothing")
    lora = adapted(make_model(NAME)).train()
    attached = metier.attach(lora, **SETTINGS, strict=False)
    lora(**batch, use_cache=False).loss.backward()
    failures.holds(f"PEFT: dead are {attached.last.dead}", not attached.last.dead)
    lora.get_input_embeddings().weight.requires_grad_(True)  # so that there is something to differentiate
    with lora.disable_adapter():
        _, said = warned(lambda: lora(**batch, use_cache=False).loss.backward())
    failures.holds(f"PEFT, adapter off: dead are {attached.last.dead}", len(attached.last.dead) == 3)


# ---------------------------------------------------------------- copies


def plain_output(model, batch):
    with torch.no_grad():
        return model.eval()(**batch, use_cache=False).logits


def check_copies(failures):
    batch = make_batch()
    want, plain = wanted([batch]), plain_output(make_model(NAME), batch)
    model, attached = attached_model()
    model(**batch, use_cache=False)  # a graph is there
    buffer = io.BytesIO()
    torch.save(model, buffer)
    buffer.seek(0)
    for label, other in (("deepcopy", copy.deepcopy(model)), ("pickle", pickle.loads(pickle.dumps(model))),
                         ("torch.save", torch.load(buffer, weights_only=False))):
        failures.check(f"{label}: logits", float((plain_output(other, batch) - plain).abs().max()), 0.0)
        other.train()
        task = other(**batch, use_cache=False).loss
        task.backward()  # a copy is a plain model: nothing is added, nothing refused
        failures.check(f"{label}: loss", abs(float(task.detach()) - float(make_model(NAME).train()(**batch).loss.detach())), 1e-6)
        other.zero_grad()
        metier.attach(other, **SETTINGS)
        failures.same(f"{label}, attached anew", backward(other, other(**batch, use_cache=False).loss), want)
        metier.detach(other)
    failures.same("the original after its copies", backward(model, model(**batch, use_cache=False).loss), want)
    with tempfile.TemporaryDirectory() as folder:
        model.save_pretrained(folder)
        with open(os.path.join(folder, "config.json"), encoding="utf-8") as file:
            failures.holds("save_pretrained: nothing of ours in config.json", "metier" not in file.read())
    failures.refused("attached twice", lambda: metier.attach(model), "has an objective already")
    metier.detach(model)
    failures.refused("detached twice", lambda: metier.detach(model), "has no objective")
    failures.check("detached: logits", float((plain_output(model, batch) - plain).abs().max()), 0.0)
    check_shared_config(failures, batch, want)
    check_merge(failures, batch)


def check_shared_config(failures, batch, want):
    model, _ = attached_model()
    other = transformers.AutoModelForCausalLM.from_config(model.config)
    other.load_state_dict(model.state_dict())
    other.train()
    task = other(**batch, use_cache=False).loss
    failures.check("a shared config: the other is plain", abs(float(task.detach()) - float(make_model(NAME).train()(**batch).loss.detach())), 1e-6)
    metier.attach(other, **SETTINGS)
    metier.detach(model)
    failures.same("a shared config: one detached", backward(other, other(**batch, use_cache=False).loss), want)


# ---------------------------------------------------------------- wrappers


def adapted(model):
    torch.manual_seed(3)
    config = peft.LoraConfig(r=4, lora_alpha=8, target_modules=["q_proj"], target_parameters=[
        "mlp.experts.gate_up_proj", "mlp.experts.down_proj", "mlp.gate.weight"])
    wrapped = peft.get_peft_model(model, config)
    generator = torch.Generator().manual_seed(4)
    with torch.no_grad():
        for name, parameter in wrapped.named_parameters():
            if "lora_B" in name:
                parameter.copy_(0.05 * torch.randn(parameter.shape, generator=generator))
    return wrapped


def check_merge(failures, batch):
    want = wanted([batch], prepare=adapted)
    for before in (False, True):
        label = f"PEFT, attached {'before' if before else 'after'}"
        inner = make_model(NAME).train()
        if before:
            metier.attach(inner, **SETTINGS)
        model = adapted(inner).train()
        if not before:
            metier.attach(model, **SETTINGS)
        failures.same(label, backward(model, model(**batch, use_cache=False).loss), want)
        logits = plain_output(model, batch)
        merged = model.merge_and_unload()
        failures.check(f"{label}: merged logits", float((plain_output(merged, batch) - logits).abs().max()), 1e-4)
        if not before:
            failures.refused(f"{label}: merged, trained", lambda: merged.train()(**batch), "outside the forward")
        metier.detach(merged)
        merged.train()(**batch, use_cache=False)


def check_wrappers(failures):
    batch = make_batch()
    want = wanted([batch])
    model, attached = attached_model()
    accelerator = accelerate.Accelerator(cpu=True)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.0)
    prepared, optimizer = accelerator.prepare(model, optimizer)
    loss = prepared(**batch, use_cache=False).loss
    accelerator.backward(loss)
    failures.same("accelerate", (float(loss.detach()), gradients_of(model)), want)
    optimizer.zero_grad()
    whole = accelerator.unwrap_model(prepared)
    failures.same("accelerate, unwrapped", backward(whole, whole(**batch, use_cache=False).loss), want)
    model.zero_grad()
    before = attached.last
    with torch.no_grad():
        model.generate(input_ids=batch["input_ids"][:1], max_new_tokens=4, do_sample=False)
    failures.holds("generate in training mode is no step", attached.last is before)
    failures.same("after generate", backward(model, model(**batch, use_cache=False).loss), want)
    metier.detach(prepared)
    check_compile(failures, batch, want)


def check_compile(failures, batch, want):
    model, attached = attached_model()
    compiled = torch.compile(model, backend="aot_eager")
    for label in ("torch.compile", "torch.compile, again"):
        model.zero_grad()
        failures.same(label, backward(model, compiled(**batch, use_cache=False).loss), want)
        failures.holds(f"{label}: dead are {attached.last.dead}", not attached.last.dead)
    failures.refused("compiled before", lambda: metier.attach(torch.compile(make_model(NAME))), "attach first, then torch.compile")
    torch._dynamo.reset()
    model, attached = attached_model()
    whole = torch.compile(model, backend="aot_eager", fullgraph=True)
    failures.refused("fullgraph", lambda: whole(**batch, use_cache=False), "metier's objective is not compiled")
    torch._dynamo.reset()


PARTS = {"own": check_own, "forwards": check_forwards, "alive": check_alive, "copies": check_copies, "wrappers": check_wrappers,
         "processes": check_processes}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--library", default=os.path.join(ROOT, "build", "release", "lib", "libmetier.so"))
    parser.add_argument("--only", default="", help="parts that contain this")
    arguments = parser.parse_args()
    os.environ["METIER_LIBRARY"] = arguments.library
    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    failures = Failures()
    for name, check in PARTS.items():
        if arguments.only in name:
            check(failures)
    print(f"{failures.count} comparisons, {len(failures.lines)} failures")
    return 1 if failures.lines else 0


if __name__ == "__main__":
    sys.exit(main())
