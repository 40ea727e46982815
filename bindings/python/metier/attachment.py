"""metier.attach: the objective in the training of a transformers model.

The experts of transformers >= 5 are fused: hooks do not see what each expert says of each token. So an implementation of
transformers' experts interface is registered, which computes the same and hands these rows to the objective on the way.
"""
from __future__ import annotations

import inspect
import logging
import warnings
import weakref
from collections.abc import Callable
from typing import Any

import torch

from . import library
from .auxiliary import OwnLoss
from .balance import jitter_of, move_biases
from .experts import combine, rows_of
from .layers import Device, Layers, router_of
from .library import Failure, Shape
from .passes import Pass, in_backward, reaches, take_memory
from .records import Batch
from .report import Found, Result, Term
from .structure import Block, blocks_of, router_kind, trainable_paths

log = logging.getLogger("metier")
NAME = "metier:"  # of the experts implementation, before the name of the one that was there: copies of the model go on with that
COMPILED = "metier's objective is not compiled: torch.compile leaves it out, and cannot be given fullgraph=True"

# Of the experts of attached models: by whom, and which layer. Weak both ways: the model's hooks keep what is attached.
_blocks: weakref.WeakKeyDictionary[torch.nn.Module, tuple[weakref.ref[Attached], int]] = weakref.WeakKeyDictionary()


def _otherwise(module: torch.nn.Module, *arguments: torch.Tensor) -> torch.Tensor:
    """The experts as they are computed without an objective."""
    from transformers.integrations.moe import ALL_EXPERTS_FUNCTIONS

    eager: Callable[..., torch.Tensor] = type(module).forward.__wrapped__
    return ALL_EXPERTS_FUNCTIONS.get(module.config._experts_implementation.removeprefix(NAME), eager)(module, *arguments)


@torch.compiler.disable(reason=COMPILED)
def _experts_forward(module: torch.nn.Module, hidden: torch.Tensor, chosen: torch.Tensor,
                     weights: torch.Tensor) -> torch.Tensor:
    """What transformers calls for the experts of an attached model, and of its copies."""
    owner, layer = _blocks.get(module, (None, 0))
    attached = None if owner is None else owner()
    run = None if attached is None else attached.now()
    if run is None:
        if attached is not None and module.training and torch.is_grad_enabled() and attached.is_bypassed():
            raise Failure(f"metier: {attached.blocks[layer].name} is trained outside the forward of the model that the objective is "
                          "attached to: call that model, or metier.detach it")
        return _otherwise(module, hidden, chosen, weights)
    rows, row_of_slot = rows_of(module, hidden, chosen, _otherwise)
    return combine(run, layer, hidden, chosen, row_of_slot, rows, weights).to(hidden.dtype)


def register(former: str | None) -> str:
    """The name under which transformers finds our implementation, in place of this one."""
    from transformers.integrations.moe import ALL_EXPERTS_FUNCTIONS

    name = NAME + (former or "eager").removeprefix(NAME)
    ALL_EXPERTS_FUNCTIONS.register(name, _experts_forward)
    return name


def _nothing(*_: Any, **__: Any) -> None:
    """The hook of a copy of an attached model."""


def _hook_of_copy(implementation: str) -> Callable[..., None]:
    register(implementation)  # the copy may be read in another process
    return _nothing


class _Hook:
    """A hook that copies of the model, by copy or pickle, do not have: these are plain models."""

    def __init__(self, function: Callable[..., Any], implementation: str) -> None:
        self.function, self.implementation = torch.compiler.disable(function, reason=COMPILED), implementation

    def __call__(self, *arguments: Any, **named: Any) -> Any:
        return self.function(*arguments, **named)

    def __reduce__(self) -> Any:
        return _hook_of_copy, (self.implementation,)


class _Total(torch.autograd.Function):
    """The terms' total. In backward its gradient goes to every layer, and is noted for those that are computed again."""

    @staticmethod
    def forward(ctx: Any, run: Pass, slot: str, total: torch.Tensor, anchor: torch.Tensor,
                *tokens: torch.Tensor) -> torch.Tensor:
        ctx.run, ctx.slot, ctx.count = run, slot, len(tokens)
        return total.clone()

    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor) -> Any:
        ctx.run.note_factor(ctx.slot, gradient)
        return None, None, None, None, *[gradient] * ctx.count


class Attached:
    """An objective at work in a model. `last` is the last step's Result; `total` what was added to its loss."""

    def __init__(self, model: torch.nn.Module, method: str, strict: bool, log_every: int,
                 settings: dict[str, Any]) -> None:
        self.model, self.method, self.strict, self.log_every, self.settings = model, method, strict, log_every, settings
        self.kind = router_kind(model.config.model_type)
        self.blocks: list[Block] = blocks_of(model)
        self.last: Result | None = None
        self.total: torch.Tensor | None = None
        self.progress: float = 1.0  # the learning rate over its peak, for brake=decay: set it from the schedule
        self.indirect = False
        self.step = 0  # forwards with gradients
        self.current: Pass | None = None  # the forward that backward is in
        self.collected: list[torch.Tensor] | None = None  # the totals, where a trainer adds them to a loss of its own
        self._run: Pass | None = None  # the forward that is under way
        self._inside = self._checked = False
        self._told: set[str] = set()
        self._pool: list[Layers] = []
        self._waiting: list[Pass] = []  # whose backward is done, and whose loads have not moved a bias yet
        self._hooks: list[Any] = []
        self.former = self.blocks[0].experts.config._experts_implementation
        device = Device.of(next(model.parameters()).device)
        self.layers = self._memory(device, 1, 1)  # refuses what cannot be, before anything runs
        self.own = OwnLoss(model, method, any(name == "aux" for _, name, _ in self.layers.terms))

    # ------------------------------------------------------------ what the experts ask

    def now(self) -> Pass | None:
        """The forward that experts are computed for: the one under way, or the one that backward computes again."""
        return self._run if self._run is not None or not in_backward() else self.current

    def is_bypassed(self) -> bool:
        return bool(self._hooks) and not self._inside and not in_backward()

    # ------------------------------------------------------------ memory

    def _memory(self, device: Device, tokens: int, segments: int) -> Layers:
        """The library's memory for a forward; what was decided before is taken along."""
        found = take_memory(self._pool, device, tokens, segments)
        if found is None:
            block = self.blocks[0]
            router = router_of(self.kind, block.slots, block.normalises)
            shape = Shape(layers=len(self.blocks), tokens=tokens, experts=block.router.weight.shape[0], slots=block.slots,
                          segments=segments, width=block.router.weight.shape[1], router=router)
            found = Layers(device, self.method, self.settings, shape, library.GIVEN_WEIGHTS)
            if found.has_bias and any(block.bias is None for block in self.blocks):
                raise Failure(f"method {self.method} moves a selection bias, which routers of {self.model.config.model_type} do "
                              "not have")
            self._pool.append(found)
        if self.step > 0 and found is not self.layers:
            found.state()[:] = self.layers.state()[:]
        return found

    def _move_biases(self) -> None:
        """By the loads of every forward whose backward is done."""
        for run in self._waiting:
            if run.layers is not self.layers:
                run.layers.state()[:] = self.layers.state()[:]
            move_biases(run.layers, run.numbers, self.blocks)
            if run.layers is not self.layers:
                self.layers.state()[:] = run.layers.state()[:]
        self._waiting.clear()

    # ------------------------------------------------------------ a step

    def _check_live(self) -> None:
        sentence = self.layers.check_live(trainable_paths(self.model, self.blocks))
        if sentence and self.strict:
            raise Failure(sentence)
        if sentence:
            warnings.warn(f"metier: {sentence}", stacklevel=2)
        self.indirect = bool(self.settings.get("allow_indirect"))
        self._checked = True

    def _arguments(self, module: torch.nn.Module, arguments: tuple[Any, ...], named: dict[str, Any]) -> dict[str, Any]:
        """The arguments of a forward by name."""
        if not arguments:
            return named
        try:
            bound = inspect.signature(module.forward).bind_partial(*arguments).arguments
        except (TypeError, ValueError) as error:
            raise Failure(f"metier: call the model with named arguments: {error}") from None
        return {**bound, **named}

    def _sequences(self, places: torch.Tensor | None, mask: torch.Tensor | None, rows: int, length: int,
                   device: torch.device) -> tuple[torch.Tensor, int]:
        """Which sequence each token belongs to. Rows, unless position_ids say that several are packed into one."""
        needed = self.layers.needs & (library.NEEDS_SEQUENCES | library.NEEDS_ORTHO_MASK)
        if needed and mask is None and places is not None and places.shape == (rows, length):
            starts = places == 0
            starts[:, 0] = True
            return starts.reshape(-1).cumsum(0).int() - 1, int(starts.sum())
        return torch.arange(rows, dtype=torch.int32, device=device).repeat_interleave(length), rows

    def _begin(self, module: torch.nn.Module, arguments: tuple[Any, ...], named: dict[str, Any]) -> None:
        if getattr(module, "_is_replica", False):
            raise Failure("metier: DataParallel trains copies of the model, which have no objective: use DistributedDataParallel")
        self._run, self._inside = None, True
        named = self._arguments(module, arguments, named)
        self.own.begin(named)
        # Without gradients, and in evaluation, the model is its own: nothing is looked at, decided or moved.
        if not (module.training and torch.is_grad_enabled()):
            return
        self.total = None
        tokens = named.get("input_ids")
        tokens = named.get("inputs_embeds") if tokens is None else tokens
        if tokens is None:
            raise Failure("metier: the model is called without input_ids and without inputs_embeds")
        rows, length = tokens.shape[:2]
        mask = named.get("attention_mask")
        if mask is not None and (not isinstance(mask, torch.Tensor) or mask.shape != (rows, length)):
            raise Failure(f"metier: attention_mask must be [batch, length], here {[rows, length]}: it says which tokens are padding")
        if not self._checked:
            self._check_live()
        self._move_biases()
        self.step += 1
        segment, segments = self._sequences(named.get("position_ids"), mask, rows, length, tokens.device)
        self.layers = self._memory(Device.of(tokens.device), rows * length, segments)
        batch = Batch.of(self.layers, rows * length, tokens.device, mask, segment, segments)
        self._run = Pass(self, self.layers, batch, self.step)

    def _end(self, module: torch.nn.Module, arguments: tuple[Any, ...], named: dict[str, Any], output: Any) -> Any:
        run, self._run, self._inside = self._run, None, False
        self.own.clear(output)
        if run is None:
            self._mark(output, self._enter_other)
            return output
        run.finish()
        named = self._arguments(module, arguments, named)
        value, read = run.layers.finish(self.progress, run.numbers, {})
        # Where the layers are: there autograd runs what was made last first, so a layer that is computed again knows the factor.
        anchor = torch.zeros((), device=run.layers.torch_device, requires_grad=True)
        totals = {slot: _Total.apply(run, slot, value, anchor, *run.tokens.values()) for slot in ("loss", "total")}
        run.tokens.clear()
        share = _share_of(named)
        self.total = totals["total"] if share is None else totals["total"] * share
        self.last = self._result(run, self.total, read)
        for total in totals.values():
            total.register_hook(run.enter)
        self._mark(output, run.enter)
        if self.collected is not None:
            self.collected.append(totals["total"])
            return output
        return _with_total(output, totals["loss"] if share is None else totals["loss"] * share)

    def _clean(self, *_: Any) -> None:
        """After every forward, one that failed, too."""
        self._run, self._inside = None, False
        self.own.restore()

    def _enter_other(self, _: torch.Tensor) -> None:
        self.current = None

    def _mark(self, output: Any, enter: Callable[[torch.Tensor], None]) -> None:
        """Backward says when it comes to this output."""
        for value in output.values() if hasattr(output, "values") else output if isinstance(output, tuple) else (output,):
            for tensor in value if isinstance(value, tuple) else (value,):
                if isinstance(tensor, torch.Tensor) and tensor.requires_grad:
                    tensor.register_hook(enter)

    def _result(self, run: Pass, total: torch.Tensor, read: Callable[[], Found]) -> Result:
        paths = {name: path for _, name, path in run.layers.terms}

        def why_dead(term: Term) -> str:
            return run.why_dead(paths[term.name]) or ("its weight is 0 in this step" if term.weight == 0.0 else "")

        result = Result(total, lambda: run.read(read), why_dead)
        run.result = weakref.ref(result)
        return result

    def after_backward(self, run: Pass, first: bool) -> None:
        """Says what did nothing."""
        if first and run.layers.has_bias:
            self._waiting.append(run)
        if run.factor is None and run.layers.terms:
            self._say("the terms have no gradient, because their total is not in the loss: add `attached.total` to it, or tell "
                      "a trainer with a loss of its own with `attached.join(trainer)`")
        for _, name, path in run.layers.terms:
            why = run.why_dead(path, look=False)
            if why and run.factor is not None:
                self._say(f"term {name} did nothing in this backward: {why}")
        if self.log_every and run.step % self.log_every == 0 and self.last is not None:
            log.info("step %d: %s", run.step, ", ".join(
                f"{name} {term.loss:.5g} (weighted {term.weighted:.3g}{'' if term.alive else ', dead: ' + term.why})"
                for name, term in self.last.terms.items()))

    def _say(self, sentence: str) -> None:
        if self.strict:
            raise Failure("metier: " + sentence)
        if sentence not in self._told:
            self._told.add(sentence)
            warnings.warn("metier: " + sentence, stacklevel=2)

    # ------------------------------------------------------------ on and off

    def on(self) -> Attached:
        name = register(self.former)
        jitter = jitter_of(self.layers)

        def hook(function: Callable[..., Any]) -> _Hook:
            return _Hook(function, name)

        for layer, block in enumerate(self.blocks):
            _blocks[block.experts] = (weakref.ref(self), layer)
            block.experts.config._experts_implementation = name
            self._hooks.append(block.router.register_forward_hook(hook(self._note_logits(layer))))
            if jitter > 0.0:
                self._hooks.append(block.router.register_forward_pre_hook(hook(self._shake(jitter))))
        self._hooks.append(self.model.register_forward_pre_hook(hook(self._begin), with_kwargs=True))
        self._hooks.append(self.model.register_forward_hook(hook(self._end), with_kwargs=True))
        self._hooks.append(self.model.register_forward_hook(hook(self._clean), always_call=True))
        return self

    def off(self) -> None:
        for handle in self._hooks:
            handle.remove()
        self._hooks.clear()
        for block in self.blocks:
            _blocks.pop(block.experts, None)
        for block in self.blocks:  # the config may be another attached model's, too
            if not any(module.config is block.experts.config for module in list(_blocks)):
                block.experts.config._experts_implementation = (self.former or "eager").removeprefix(NAME)

    def _note_logits(self, layer: int) -> Callable[..., None]:
        def note(module: torch.nn.Module, arguments: tuple[torch.Tensor, ...], output: Any) -> None:
            run = self.now()
            if run is None:
                return
            logits = output[0] if isinstance(output, tuple) else output
            weight = module.weight if run.layers.needs & library.NEEDS_ROUTER_WEIGHT else None
            learns = torch.is_grad_enabled() and reaches(logits, arguments[0])
            run.logits[layer] = (logits.reshape(-1, logits.shape[-1]), weight, learns)

        return note

    def _shake(self, jitter: float) -> Callable[..., Any]:
        def shake(_: torch.nn.Module, arguments: tuple[torch.Tensor, ...]) -> Any:
            if self.now() is None:
                return None
            hidden = arguments[0]
            return (hidden * (1.0 + jitter * (2.0 * torch.rand_like(hidden) - 1.0)), *arguments[1:])

        return shake

    def join(self, trainer: Any) -> None:
        """Adds the total to the loss of a trainer that computes its own. transformers' Trainer and TRL's are joined when they
        begin to train; for others with a method compute_loss, call it."""
        from .trainer import join

        join(self, trainer)

    def callback(self) -> Any:
        """For transformers' Trainer: each term, its weight and its liveness in every log."""
        from .trainer import callback

        return callback(self)


def _share_of(named: dict[str, Any]) -> torch.Tensor | None:
    """Of a loss that is divided by the labels of the whole step: the part these labels are. The terms' is the same."""
    whole, labels = named.get("num_items_in_batch"), named.get("labels")
    shifted = named.get("shift_labels")
    if whole is None or (labels is None and shifted is None):
        return None
    count = ((labels[..., 1:] if shifted is None else shifted) != -100).sum()
    return count / torch.as_tensor(whole, device=count.device).clamp(min=1)


def _with_total(output: Any, total: torch.Tensor) -> Any:
    """The output, the total added to its loss, if it has one."""
    if hasattr(output, "get"):
        loss = output.get("loss")
        if loss is not None:
            output["loss"] = loss + total.to(loss.device)
    elif isinstance(output, tuple) and output and isinstance(output[0], torch.Tensor) and output[0].dim() == 0:
        output = (output[0] + total.to(output[0].device), *output[1:])
    return output


def attached_to(model: torch.nn.Module) -> Attached | None:
    """The objective of a model, however it is wrapped, or of a part of it."""
    for module in model.modules() if _blocks else ():
        owner = _blocks.get(module, (None, 0))[0]
        if owner is not None:
            return owner()
    return None


def attach(model: torch.nn.Module, method: str = "paper", *, strict: bool = True, log_every: int = 0,
           **settings: Any) -> Attached:
    """Adds a method's terms to the loss of a transformers model (>= 5), while it is in training mode.

    settings are the library's keys (metier.keys()). strict: a term whose gradient reaches nothing that is trained is
    refused at the first step, as `metier train` does, and so is a backward without the terms; otherwise it is a warning.
    log_every: every so many steps the terms go to the logger "metier". PEFT may wrap the model before or after.
    """
    if attached_to(model) is not None:
        raise Failure("this model has an objective already: metier.detach(model) takes it off")
    if not hasattr(model, "config"):
        raise Failure(f"{type(model).__name__} has no config: attach to the transformers model inside, before or after it is wrapped")
    if hasattr(model, "_orig_mod"):
        raise Failure("this model is compiled already: attach first, then torch.compile")
    attached = Attached(model, method, strict, log_every, settings).on()
    from .trainer import watch_trainers

    watch_trainers()
    return attached


def detach(model: torch.nn.Module) -> None:
    """Takes the objective off; the model is as it was before."""
    attached = attached_to(model)
    if attached is None:
        raise Failure("this model has no objective")
    attached.off()
