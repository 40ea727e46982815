"""metier.attach: the objective in the training of a transformers model.

The experts of transformers >= 5 are fused: hooks do not see what each expert says of each token. So an implementation of
transformers' experts interface is registered, which computes the same and hands these rows to the objective on the way.
"""
from __future__ import annotations

import logging
import warnings
import weakref
from collections.abc import Callable
from typing import Any

import torch

from . import library
from .balance import jitter_of, move_biases
from .experts import combine, rows_of
from .layers import Device, Layers, router_of
from .library import Failure, Shape
from .records import Batch
from .report import Result
from .structure import Block, blocks_of, router_kind, trainable_paths

log = logging.getLogger("metier")
NAME = "metier"  # of the experts implementation

_blocks: weakref.WeakKeyDictionary[torch.nn.Module, tuple[Attached, int]] = weakref.WeakKeyDictionary()


def _experts_forward(module: torch.nn.Module, hidden: torch.Tensor, chosen: torch.Tensor,
                     weights: torch.Tensor) -> torch.Tensor:
    """What transformers calls for the experts of an attached model."""
    attached, layer = _blocks[module]
    if not attached.active:
        return attached.otherwise(module, hidden, chosen, weights)
    rows, row_of_slot = rows_of(module, hidden, chosen, attached.otherwise)
    return combine(attached, layer, chosen, row_of_slot, rows, weights).to(hidden.dtype)


class _Total(torch.autograd.Function):
    """The terms' total; in backward, before any layer's, it notes what the total's gradient is."""

    @staticmethod
    def forward(ctx: Any, attached: Attached, anchor: torch.Tensor, total: torch.Tensor) -> torch.Tensor:
        ctx.attached, ctx.step = attached, attached.step
        return total.clone()

    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor) -> Any:
        ctx.attached.note_factor(ctx.step, gradient)
        return None, None, None


class Attached:
    """An objective at work in a model. `last` is the last step's Result; `total` what was added to its loss."""

    def __init__(self, model: torch.nn.Module, method: str, strict: bool, log_every: int,
                 settings: dict[str, Any]) -> None:
        self.model, self.method, self.strict, self.log_every, self.settings = model, method, strict, log_every, settings
        self.kind = router_kind(model.config.model_type)
        self.blocks: list[Block] = blocks_of(model)
        self.last: Result | None = None
        self.progress: float = 1.0  # the learning rate over its peak, for brake=decay: set it from the schedule
        self.step = 0
        self.active = self.looks = False
        self.layers: Layers | None = None
        self.batch: Batch | None = None
        self.numbers: torch.Tensor | None = None
        self.total: torch.Tensor | None = None
        self._factor: torch.Tensor | None = None
        self._finished = self._warned = False
        self._frozen: dict[str, str] | None = None
        self._logits: dict[int, tuple[torch.Tensor, torch.Tensor | None]] = {}
        self._hooks: list[Any] = []
        self.former = self.blocks[0].experts.config._experts_implementation
        self._prepare(Device.of(next(model.parameters()).device), 1, 1)  # refuses what cannot be, before anything runs

    # ------------------------------------------------------------ what the experts ask

    def stream(self, layer: int) -> int:
        """For what the method draws: another one for every layer and step, the same where a layer is computed again."""
        return self.step * len(self.blocks) + layer

    def take_logits(self, layer: int) -> tuple[torch.Tensor, torch.Tensor | None]:
        found = self._logits.pop(layer, None)
        if found is None:
            raise Failure(f"metier: the router of {self.blocks[layer].name} was not called before its experts")
        return found

    def note_factor(self, step: int, gradient: torch.Tensor) -> None:
        if step == self.step:
            self._factor = gradient.detach().float()

    def factor_of(self, step: int) -> torch.Tensor | None:
        """The gradient of the total, for a layer's backward; None: the total is not in the loss."""
        if step != self.step:
            raise Failure("metier: backward of an earlier forward; with the objective, each forward is followed by its own")
        if self._factor is None and not self._warned and self._finished:
            self._warned = True
            warnings.warn("metier: the terms have no gradient, because their total is not in the loss: add "
                          "`attached.total` to it", stacklevel=2)
        return self._factor

    def otherwise(self, module: torch.nn.Module, *arguments: torch.Tensor) -> torch.Tensor:
        """The experts as they were before."""
        from transformers.integrations.moe import ALL_EXPERTS_FUNCTIONS

        eager: Callable[..., torch.Tensor] = type(module).forward.__wrapped__
        return ALL_EXPERTS_FUNCTIONS.get(self.former, eager)(module, *arguments) if self.former else eager(module, *arguments)

    # ------------------------------------------------------------ a step

    def _prepare(self, device: Device, tokens: int, segments: int) -> None:
        """Memory for a batch; what was decided before is taken along."""
        old = self.layers
        if old is not None and old.device is device and old.shape.tokens >= tokens and old.shape.segments >= segments:
            return
        block = self.blocks[0]
        router = router_of(self.kind, block.slots, block.normalises)
        shape = Shape(layers=len(self.blocks), tokens=tokens, experts=block.router.weight.shape[0], slots=block.slots,
                      segments=segments, width=block.router.weight.shape[1], router=router)
        self.layers = Layers(device, self.method, self.settings, shape, library.GIVEN_WEIGHTS)
        if old is not None:
            self.layers.state()[:] = old.state()[:]
        if self.layers.has_bias and any(block.bias is None for block in self.blocks):
            raise Failure(f"method {self.method} moves a selection bias, which routers of {self.model.config.model_type} do "
                          "not have")

    def _check_live(self) -> None:
        paths = trainable_paths(self.model, self.blocks)
        sentence = self.layers.check_live(paths)
        if sentence and self.strict:
            raise Failure(sentence)
        if sentence:
            warnings.warn(f"metier: {sentence}", stacklevel=2)
        indirect = bool(self.settings.get("allow_indirect")) and any(below for _, _, below in paths)
        router, experts = any(path[0] for path in paths), any(path[1] for path in paths)
        self._frozen = {}
        if not router:
            self._frozen["router_weight"] = "the router is frozen in every layer"
            if not indirect:
                self._frozen["logits"] = "the router is frozen in every layer"
        if not experts and not indirect:
            self._frozen["outputs"] = "the experts are frozen in every layer"

    def _begin(self, module: torch.nn.Module, arguments: tuple[Any, ...], named: dict[str, Any]) -> None:
        self.active = module.training
        self.looks, self._finished, self._factor, self.total = self.active, False, None, None
        self._logits.clear()
        if not self.active:
            return
        tokens = named.get("input_ids", arguments[0] if arguments else None)
        tokens = named.get("inputs_embeds") if tokens is None else tokens
        rows, length = tokens.shape[:2]
        count = rows * length
        if self._frozen is None:
            self._check_live()
        if self.step > 0:
            move_biases(self.layers, self.numbers, self.blocks)
        self.step += 1
        self._prepare(Device.of(tokens.device), count, rows)
        mask = named.get("attention_mask")
        if mask is not None and mask.dim() != 2:
            raise Failure("metier: attention_mask must be [batch, length]: it says which tokens are padding")
        self.numbers = self.layers.new_numbers()
        segment = torch.arange(rows, dtype=torch.int32, device=tokens.device).repeat_interleave(length)
        self.batch = Batch.of(self.layers, count, tokens.device, mask, segment, rows)

    def _end(self, module: torch.nn.Module, arguments: tuple[Any, ...], named: dict[str, Any], output: Any) -> Any:
        if not self.looks:
            return None
        self.looks, self._finished = False, True
        self.last = Result(*self.layers.finish(self.progress, self.numbers, self._frozen or {}))
        if self.log_every and self.step % self.log_every == 0:
            log.info("step %d: %s", self.step, ", ".join(
                f"{name} {term.loss:.5g} (weighted {term.weighted:.3g}{'' if term.alive else ', dead: ' + term.why})"
                for name, term in self.last.terms.items()))
        if not torch.is_grad_enabled():
            return None
        loss = output.get("loss") if hasattr(output, "get") else None
        # Where the layers are: there autograd runs what was made last first, so the factor is known before they need it.
        anchor = torch.zeros((), device=self.layers.torch_device, requires_grad=True)
        self.total = _Total.apply(self, anchor, self.last.total)
        whole, labels = named.get("num_items_in_batch"), named.get("labels")
        if whole is not None and labels is not None:  # the loss is a share of the step's: so are the terms
            self.total = self.total * ((labels[..., 1:] != -100).sum() / whole)
        if loss is None:
            return None
        output["loss"] = loss + self.total.to(loss.device)
        return output

    # ------------------------------------------------------------ on and off

    def on(self) -> Attached:
        from transformers.integrations.moe import ALL_EXPERTS_FUNCTIONS

        ALL_EXPERTS_FUNCTIONS.register(NAME, _experts_forward)
        jitter = jitter_of(self.layers)
        for layer, block in enumerate(self.blocks):
            _blocks[block.experts] = (self, layer)
            block.experts.config._experts_implementation = NAME
            self._hooks.append(block.router.register_forward_hook(self._note_logits(layer)))
            if jitter > 0.0:
                self._hooks.append(block.router.register_forward_pre_hook(self._shake(jitter)))
        self._hooks.append(self.model.register_forward_pre_hook(self._begin, with_kwargs=True))
        self._hooks.append(self.model.register_forward_hook(self._end, with_kwargs=True))
        return self

    def off(self) -> None:
        for hook in self._hooks:
            hook.remove()
        self._hooks.clear()
        for block in self.blocks:
            _blocks.pop(block.experts, None)
            block.experts.config._experts_implementation = self.former

    def _note_logits(self, layer: int) -> Callable[..., None]:
        def note(module: torch.nn.Module, _: Any, output: Any) -> None:
            if self.active:
                logits = output[0] if isinstance(output, tuple) else output
                weight = module.weight if self.layers.needs & library.NEEDS_ROUTER_WEIGHT else None
                self._logits[layer] = (logits.reshape(-1, logits.shape[-1]), weight)

        return note

    def _shake(self, jitter: float) -> Callable[..., Any]:
        def shake(_: torch.nn.Module, arguments: tuple[torch.Tensor, ...]) -> Any:
            hidden = arguments[0]
            return (hidden * (1.0 + jitter * (2.0 * torch.rand_like(hidden) - 1.0)), *arguments[1:]) if self.active else None

        return shake

    def callback(self) -> Any:
        """For transformers' Trainer: each term, its weight and its liveness in every log."""
        from .trainer import callback

        return callback(self)


def attach(model: torch.nn.Module, method: str = "paper", *, strict: bool = True, log_every: int = 0,
           **settings: Any) -> Attached:
    """Adds a method's terms to the loss of a transformers model (>= 5), while it is in training mode.

    settings are the library's keys (metier.keys()). strict: a term whose gradient reaches nothing that is trained is
    refused at the first step, as `metier train` does; otherwise it is a warning. log_every: every so many forwards the
    terms go to the logger "metier". PEFT may wrap the model before or after.
    """
    if getattr(model, "_metier", None) is not None:
        raise Failure("this model has an objective already: metier.detach(model) takes it off")
    attached = Attached(model, method, strict, log_every, settings).on()
    object.__setattr__(model, "_metier", attached)
    return attached


def detach(model: torch.nn.Module) -> None:
    """Takes the objective off; the model is as it was before."""
    attached = getattr(model, "_metier", None)
    if attached is None:
        raise Failure("this model has no objective")
    attached.off()
    object.__setattr__(model, "_metier", None)
