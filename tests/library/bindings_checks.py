#!/usr/bin/env python3
"""What bindings/python refuses, with PyTorch: tensors of a wrong shape, type, device or value, numbers and texts that cannot
be. Each gets a metier.Failure that names the argument. What differs only in how it lies in memory gives the same result.

Usage: bindings_checks.py LIBRARY [--rounds 300] [--seconds 0] [--seed 1]
First every case of the table by itself, then calls made at random, each right or with one thing wrong: so many rounds, or
as many as fit into the seconds. Exit status 77: there is no PyTorch.
"""
import argparse
import math
import os
import random
import sys
import time
import warnings

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path.insert(0, os.path.join(ROOT, "bindings", "python"))
sys.dont_write_bytecode = True

try:
    import torch
except ImportError as error:
    print(f"skipped: this needs a Python with PyTorch (PYTHON=...): {error}")
    sys.exit(77)

NAN, INF = float("nan"), float("inf")


def refused(words, call):
    """The call must be refused, in a sentence that has these words."""
    import metier

    try:
        result = call()
    except metier.Failure as failure:
        assert words in str(failure), f"expected '{words}' in: {failure}"
        return
    raise AssertionError(f"accepted, with a total of {getattr(result, 'total', result)}: expected '{words}'")


# ---------------------------------------------------------------- every case by itself


def base():
    """A call that is right: 6 tokens, 2 of 4 experts, width 8."""
    generator = torch.Generator().manual_seed(3)
    return {"logits": torch.randn(6, 4, generator=generator), "outputs": torch.randn(6, 2, 8, generator=generator),
            "method": "paper"}


def cases():
    """(the argument it is about, words of the sentence, what is changed in the call)"""
    given = base()
    logits, outputs = given["logits"], given["outputs"]
    chosen = logits.topk(2).indices
    ones, weight = torch.ones(6, dtype=torch.bool), torch.randn(4, 8)
    row = torch.randn(4)
    for name, good, kind in (("mask", ones, "bool"), ("sequence", ones.long(), "integers"), ("bias", row, "a float type"),
                             ("chosen", chosen, "integers"), ("router_weight", weight, "a float type"),
                             ("outputs", outputs, "a float type"), ("logits", logits, "a float type")):
        wrong = [good[:-1], torch.cat([good, good]), good[:0], good.unsqueeze(0), good.reshape(-1)[0], good.to(torch.complex64),
                 good.to("meta")]
        wrong += [good.reshape(-1)] if good.dim() > 1 else [good.reshape(-1, 1)]
        wrong += [good.to(torch.float32)] if kind != "a float type" else [good.long(), good > 0]
        for one in wrong:
            if name != "logits" or one.dim() != 2 or one.shape[1] != 4 or one.dtype != torch.float32:
                yield name, "metier: ", {name: one}
        for one in (3, "text", good.tolist(), object(), [good, good], [None], {}):
            yield name, name, {name: one}
        if good.dim() > 1:
            yield name, "dense tensor", {name: good.to_sparse()}
    for name in ("logits", "outputs", "router_weight"):
        yield name, name, {"logits": [logits, logits], "outputs": [outputs, outputs], "router_weight": [weight, weight],
                           name: [{"logits": logits, "outputs": outputs, "router_weight": weight}[name]] * 3}
        yield name, name, {"logits": [logits, logits], "outputs": [outputs, outputs], "router_weight": [weight, weight],
                           name: [{"logits": logits, "outputs": outputs, "router_weight": weight}[name]] * 1 + [None]}
    second = {"logits": [logits, logits[:3]], "outputs": [outputs, outputs]}
    yield "logits", "logits is float32 [3, 4]", second
    yield "outputs", "outputs is float32 [6, 2, 7]", {"logits": [logits] * 2, "outputs": [outputs, outputs[:, :, :7]]}
    yield "router_weight", "[4, 7]", {"router_weight": weight[:, :7]}
    yield "mask", "mask[0] is 2", {"mask": torch.full((6,), 2)}
    yield "mask", "mask[1] is -1", {"mask": torch.tensor([0, -1, 0, 0, 0, 0])}
    yield "mask", "bool", {"mask": torch.zeros(6)}  # an additive mask that masks nothing is no padding everywhere
    for bad, words in ((chosen + (1 << 32), "is 429496729"), (chosen + (1 << 31), "is 21474836"), (chosen - 4, "is -"),
                       (chosen * 0, "twice"), (chosen * 0 + 4, "is 4"), (chosen - (1 << 32), "is -42949672"),
                       (torch.full_like(chosen, (1 << 63) - 1), "is 9223372036854775807")):
        yield "chosen", words, {"chosen": bad}
    yield "chosen", "chosen[3] names expert 1 twice", {"chosen": torch.tensor([[0, 1]] * 3 + [[1, 1]] + [[2, 3]] * 2)}
    yield "chosen", "[6, 3]", {"chosen": torch.tensor([[0, 1, 2]] * 6)}
    yield "chosen", "one of the two", {"chosen": chosen, "bias": row}
    for bad in (NAN, INF, -INF):
        yield "bias", "bias[2]", {"bias": torch.tensor([0.0, 0.0, bad, 0.0])}
    yield "logits", "logits[1, 2] is nan", {"logits": torch.where(torch.arange(24).view(6, 4) == 6, NAN, logits)}
    yield "outputs", "outputs[0, 0, 0]", {"outputs": outputs * INF}
    yield "outputs", "width", {"outputs": outputs[:, :, :0]}
    yield "logits", "experts", {"logits": logits[:, :0]}
    yield "logits", "16384 experts", {"logits": logits[:1, :1].expand(6, (1 << 32) + 4)}
    yield "logits", "one of the two", {"logits": None}
    yield "logits", "logits", {"logits": []}
    scores = logits.softmax(-1)
    for bad, words in ((logits, "router_scores["), (scores * 0.5, "sum"), (scores * 2, "router_scores"), (scores * NAN, "is nan"),
                       (scores.long(), "float"), (scores[0], "[N, n]"), (7, "router_scores"), ([], "router_scores")):
        yield "router_scores", words, {"logits": None, "router_scores": bad}
    yield "router_scores", "one of the two", {"router_scores": scores}
    yield "router_weight", "router_weight is missing", {"method": "ernie"}
    yield "outputs", "L_o needs the expert outputs", {"outputs": None, "top_k": 2}
    yield "top_k", "top_k is missing", {"outputs": None, "method": "aux"}
    yield from numbers_and_texts()


def numbers_and_texts():
    for name in ("top_k", "groups", "groups_kept"):
        for bad in (-1, True, 2.0, "2", (1 << 32) + 2, 1 << 31, torch.tensor(2), NAN, 2j):
            yield name, name, {name: bad}
    yield "top_k", "top_k", {"top_k": 0}
    yield "top_k", "5 experts", {"top_k": 5, "method": "aux", "outputs": None}
    yield "top_k", "outputs is", {"top_k": 3}
    for name in ("routed_scale", "epsilon", "sparsemixer_jitter", "progress"):
        for bad in (-1.0, NAN, INF, True, "1", 1j, torch.tensor(1.0)) + ((None,) if name != "epsilon" else ()):
            yield name, name, {name: bad}
    yield "routed_scale", "scale is inf", {"routed_scale": 1e300}
    for bad in (1, 0, "false", None, torch.tensor(True)):
        yield "normalise", "normalise", {"normalise": bad}
    for name in ("router", "group_rule"):
        for bad in ("soft", "", 1, None, ["softmax"], "softmax\0"):
            yield name, name, {name: bad}
    for bad in ("papper", "paper\0", "", 3, None, b"paper", "\udc80"):
        yield "method", "method" if not isinstance(bad, str) or bad else "", {"method": bad}
    for bad in (NAN, INF, 1j, None, "1\0", torch.tensor(1.0), [1], -1.0, "x", b"1"):
        yield "beta", "beta", {"beta": bad}
    yield "seed", "seed", {"seed": 1 << 64}
    yield "seed", "seed", {"seed": -1}
    yield "betta", "did you mean", {"betta": 1.0}


def check_cases():
    import metier

    count = 0
    for name, words, changes in cases():
        call = {**base(), **changes}
        try:
            refused(words, lambda call=call: metier.objective(**call))
        except Exception as error:
            shown = {key: (list(value.shape), value.dtype) if isinstance(value, torch.Tensor) else value for key, value in changes.items()}
            raise AssertionError(f"{name}, {shown}: {type(error).__name__}: {error}") from error
        count += 1
    return count


def check_second_derivatives():
    """The library makes first derivatives alone: asking for more is an error, not a zero."""
    import metier

    given = base()
    logits = given["logits"].requires_grad_()
    total = metier.objective(logits, given["outputs"], method="paper").total + logits.pow(3).sum()
    refused("second derivatives", lambda: torch.autograd.grad(total, logits, create_graph=True))


def check_inner():
    """What attached layers hand over: each array of a layer, once with a wrong shape, once of a wrong type."""
    from metier import checks
    from metier.layers import arrays_of

    sizes = {"N": 5, "n": 4, "k": 2, "R": 10, "d": 8, "m": 5, "s": 9}
    types = {**checks.TYPES, "*": torch.bfloat16}
    good = {name: torch.zeros([sizes[letter] for letter in letters], dtype=types[kind])
            for name, (kind, letters) in checks.LAYER_ARRAYS.items()}
    arrays_of(5, 1, torch.bfloat16, **good)
    for name, value in good.items():
        wrong = [value.to(torch.float16), value.unsqueeze(0)]
        if name != "numbers":  # nothing else is of their size
            wrong.append(torch.zeros([size + 1 for size in value.shape], dtype=value.dtype))
        if value.dim() > 1:
            wrong.append(value.transpose(0, 1).contiguous().transpose(0, 1))
        for one in wrong:
            refused("metier: ", lambda name=name, one=one: arrays_of(5, 1, torch.bfloat16, **{**good, name: one}))


def check_listed():
    import metier

    assert set(dir(metier)) >= {"attach", "detach", "objective", "Objective", "methods", "keys", "version", "Failure"}, dir(metier)
    for name in dir(metier):
        if name not in ("attach", "detach", "Attached"):  # these need transformers
            getattr(metier, name)


# ---------------------------------------------------------------- at random


class Fuzz:
    """Calls that are right in many ways, and wrong in one."""

    def __init__(self, seed):
        self.random, self.seed = random.Random(seed), seed

    def right(self):
        """A call that must be taken."""
        pick = self.random
        tokens, experts = pick.randint(1, 9), pick.randint(2, 9)
        slots, width, layers = pick.randint(1, experts), pick.randint(1, 9), pick.randint(1, 3)
        torch.manual_seed(pick.randrange(1 << 30))
        call = {"method": pick.choice(("aux", "paper", "metier", "st-moe", "none")), "logits": [], "outputs": []}
        for _ in range(layers):
            call["logits"].append(torch.randn(tokens, experts))
            call["outputs"].append(torch.randn(tokens, slots, width))
        if pick.random() < 0.4:
            call["chosen"] = [logits.topk(slots).indices for logits in call["logits"]]
        elif pick.random() < 0.4:
            call["bias"] = torch.randn(experts)
        if pick.random() < 0.5:
            call["mask"] = torch.randint(0, 2, (tokens,)).bool()
        if pick.random() < 0.5:
            call["sequence"] = torch.randint(-3, 3, (tokens,)) * (1 << pick.choice((0, 40)))
        if pick.random() < 0.3:
            call["router_weight"] = [torch.randn(experts, width) for _ in range(layers)]
        call["router"], call["normalise"] = pick.choice(("softmax", "sigmoid")), pick.random() < 0.5
        return call

    def otherwise(self, call):
        """The same numbers, lying otherwise: other strides, other types that hold them."""
        pick = self.random

        def moved(value):
            if isinstance(value, list):
                return [moved(one) for one in value]
            if not isinstance(value, torch.Tensor):
                return value
            way = pick.randrange(5)
            if way == 0:
                return value.unsqueeze(-1).repeat_interleave(2, -1)[..., 0]
            if way == 1 and value.dtype == torch.float32:
                return value.double()
            if way == 2 and value.dtype == torch.float32:
                return torch._neg_view(-value)
            if way == 3 and value.dtype == torch.bool:
                return value.to(pick.choice((torch.uint8, torch.int64, torch.int8)))
            return value.transpose(0, -1).contiguous().transpose(0, -1)

        return {name: moved(value) for name, value in call.items()}

    def spoilt(self, call):
        """(what was done, the call with one argument that cannot be)"""
        pick, call = self.random, dict(call)
        name = pick.choice([name for name, value in call.items() if isinstance(value, (torch.Tensor, list))])
        several = isinstance(call[name], list)
        values = list(call[name]) if several else [call[name]]
        place = pick.randrange(len(values))
        value = values[place]
        ways = {"longer": torch.cat([value, value]), "more axes": value[None], "complex": value.to(torch.complex64),
                "elsewhere": value.to("meta"), "flat": value.reshape(-1)[:1].reshape(()), "none": None, "number": 1.5,
                "wide": value.expand(*[3] * pick.randint(1, 2), *value.shape)}
        if value.shape[0] > 1:
            ways["shorter"] = value[:-1]
        if value.dim() > 1:
            ways["last axis"] = value[..., :-1] if pick.random() < 0.5 else torch.cat([value, value[..., :1]], -1)
            ways["sparse"] = value.to_sparse()
        if value.is_floating_point():
            ways.update({"whole": value.long(), "truth": value > 0})
        else:
            ways["float"] = value.float()
        if name in ("logits", "outputs") and not several:
            ways.pop("none")
        if name in ("mask", "sequence", "bias"):
            ways.pop("none")  # is allowed
        if name == "chosen":
            far = value.clone()
            far[pick.randrange(far.shape[0]), pick.randrange(far.shape[1])] += pick.choice(
                (1 << 32, 1 << 31, 1 << 33, -(1 << 32), -(1 << 62), 16, -16, 1 << 62))
            ways["far index"] = far
            if value.shape[1] > 1:
                twice = value.clone()
                twice[pick.randrange(value.shape[0]), 0:2] = 1
                ways["twice"] = twice
        if name == "mask":
            ways["other numbers"] = value.long() + 2
        if name == "bias":
            ways["no number"] = value * NAN
        if name == "logits" and "mask" not in call:
            ways["no number"] = torch.where(torch.arange(value.numel()).view(value.shape) == 0, NAN, value)
        # One layer has nothing to disagree with in its number of tokens or experts.
        way = pick.choice(sorted(ways))
        values[place] = ways[way]
        call[name] = values if several else values[0]
        return f"{name}: {way}", call

    def is_free(self, what, call):
        """Whether the change leaves a call that is right: with one layer, sizes that nothing else states may be any."""
        name, way = what.split(": ")
        alone = len(call["logits"]) == 1 and "chosen" not in call
        if name == "outputs" and way == "last axis":  # the width, if no other tensor has it
            return len(call["logits"]) == 1 and "router_weight" not in call and call["outputs"][0].shape[-1] > 0
        if name == "logits" and way == "last axis" and alone and "router_weight" not in call and "bias" not in call:
            return call["logits"][0].shape[1] >= call["outputs"][0].shape[1]
        if name == "logits" and way == "last axis" and "bias" not in call and "router_weight" not in call and len(call["logits"]) == 1:
            return bool((call["chosen"][0] < call["logits"][0].shape[1]).all())
        return False

    def round(self):
        import metier

        call = self.right()
        want = metier.objective(**call).total
        assert math.isfinite(float(want))
        got = metier.objective(**self.otherwise(call)).total
        assert abs(float(got) - float(want)) <= 1e-5 * max(abs(float(want)), 1e-3), (float(got), float(want), call)
        what, bad = self.spoilt(call)
        try:
            metier.objective(**bad)
        except metier.Failure:
            return False
        assert self.is_free(what, bad), f"{what} was accepted: {bad}"
        return True


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("library")
    parser.add_argument("--rounds", type=int, default=300)
    parser.add_argument("--seconds", type=float, default=0.0)
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    os.environ["METIER_LIBRARY"] = arguments.library
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    check_listed()
    count = check_cases()
    check_second_derivatives()
    check_inner()
    fuzz, end, rounds, free = Fuzz(arguments.seed), time.time() + arguments.seconds, 0, 0
    while rounds < arguments.rounds or time.time() < end:
        free += fuzz.round()
        rounds += 1
    print(f"{count} cases refused; {rounds} random calls taken, {rounds - free} spoilt ones refused, {free} were right")


if __name__ == "__main__":
    main()
