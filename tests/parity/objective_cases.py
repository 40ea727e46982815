"""Random cases for the objective: routers, inputs, and the settings whose every combination is compared."""
import torch

import objective_reference as reference
from objective_reference import Inputs, Router

# name -> what is fixed of the router; "bias": a correction bias is given
ROUTERS = {
    "softmax": {"kind": "softmax"},
    "softmax norm": {"kind": "softmax", "normalise": True},
    "softmax bias norm": {"kind": "softmax", "normalise": True, "bias": True},
    "softmax groups": {"kind": "softmax", "group_rule": "max", "scale": 16.0},
    "sigmoid": {"kind": "sigmoid"},
    "sigmoid norm": {"kind": "sigmoid", "normalise": True},
    "sigmoid bias norm": {"kind": "sigmoid", "normalise": True, "bias": True, "scale": 2.446},
    "sigmoid groups": {"kind": "sigmoid", "normalise": True, "bias": True, "group_rule": "top2-sum", "scale": 2.5},
    "sparsemixer": {"kind": "sparsemixer", "slots": 2},
}


def only(**keys):
    """A method-less setting: the terms named, unscaled unless said otherwise."""
    return ("none", {"scale": "none", **keys})


# (group, option, (method, keys))
OPTIONS = [
    *[("L_aux", f"aux={form}", only(alpha=0.37, aux=form))
      for form in ("batch", "sequence", "switch", "hf", "ernie", "literal")],
    *[("L_o", f"{form} {reduce}" + (" exclude_first" if first else ""),
       only(beta=0.7, form=form, reduce=reduce, exclude_first=first))
      for form in ("pairwise", "span", "cosine") for reduce in ("mean", "sum") for first in (False, True)],
    *[("L_o", f"pairwise gradient=paper{label}", only(beta=0.7, form="pairwise", gradient="paper", **keys))
      for label, keys in (("", {}), (" sum exclude_first", {"reduce": "sum", "exclude_first": True}),
                          (" tau_gate=0.1", {"tau_gate": 0.1}), (" expert-concat", {"grouping": "expert-concat"}))],
    *[("L_o", f"{form} eps=0.05", only(beta=0.7, form=form, eps=0.05)) for form in ("pairwise", "span", "cosine")],
    *[("L_o", f"{form} tau_gate=0.1", only(beta=0.7, form=form, tau_gate=0.1)) for form in ("pairwise", "span", "cosine")],
    *[("L_o", f"expert-concat {form} {reduce}" + (" exclude_first" if first else ""),
       only(beta=0.7, grouping="expert-concat", form=form, reduce=reduce, exclude_first=first))
      for form, reduce, first in (("pairwise", "mean", False), ("span", "mean", False), ("span", "sum", False),
                                  ("span", "mean", True), ("cosine", "mean", False))],
    *[("L_v", f"axis={axis} scores={scores}", only(gamma=0.9, axis=axis, scores=scores))
      for axis in ("expert", "token") for scores in ("topk", "full")],
    ("L_z", "z-loss", only(zeta=0.3)),
    ("rows", "router_orth", only(lambda_orth=0.8)),
    ("rows", "router_orth orth_groups=2", only(lambda_orth=0.8, orth_groups=2)),
    ("rows", "simbal", only(lambda_simbal=0.1)),
    *[("scale", f"{rule} {form}", ("paper", {"scale": rule, "form": form}))
      for rule in ("once", "running", "none") for form in ("pairwise", "span", "cosine")],
    *[("scale", f"once-pow10 {axis} {scores}", ("paper", {"scale": "once-pow10", "axis": axis, "scores": scores}))
      for axis in ("expert", "token") for scores in ("topk", "full")],
    *[("scale", f"once aux={form}", ("paper", {"aux": form})) for form in ("sequence", "switch", "hf", "literal")],
    ("scale", "once alpha=0", ("paper", {"alpha": 0.0})),
    ("scale", "once-pow10 beta=0", ("paper-code", {"beta": 0.0})),
    ("scale", "c_o=10 c_v=3", ("paper", {"c_o": 10.0, "c_v": 3.0})),
    ("scale", "alpha=0 c_o=2 c_v=5", ("paper", {"alpha": 0.0, "c_o": 2.0, "c_v": 5.0})),
    *[("scale", f"brake={brake}", ("paper", {"brake": brake})) for brake in ("target", "decay")],
    *[("drops", f"capacity={capacity} {label}", ("paper", {"capacity": capacity, "capacity_min": least, **keys}))
      for capacity, least in ((1.0, 0), (0.5, 2))
      for label, keys in (("pairwise", {}), ("span", {"form": "span"}), ("literal", {"aux": "literal"}),
                          ("concat", {"grouping": "expert-concat", "form": "span"}))],
    *[("drops", f"drop_threshold={threshold} {label}", ("paper", {"drop_threshold": threshold, "seed": seed, **keys}))
      for threshold, seed, label, keys in ((0.3, 0, "seed=0", {}), (1.0, 2**40 + 5, "seed=2^40+5", {}),
                                           (0.3, 7, "capacity=1", {"capacity": 1.0}))],
    *[("method", method, (method, {})) for method in reference.METHODS if method != "pool"],
    *[("pool", " ".join([method, *(f"{key}={value}" for key, value in keys.items())]), (method, {**keys, "pool": True}))
      for method, keys in (("pool", {}), ("pool", {"seed": 2**33 + 5, "zeta": 0.3, "aux": "sequence"}),
                           ("paper", {"seed": 7}), ("paper", {"seed": 8, "axis": "token", "scores": "full"}),
                           ("paper-code", {"seed": 9}), ("paper", {"seed": 10, "capacity": 1.0, "form": "cosine"}))],
]




def draw_sizes(generator, router, settings):
    def between(low, high):
        return int(torch.randint(low, high + 1, (1,), generator=generator))

    tokens = between(1, 64)
    slots = router.get("slots", between(1, 8))
    if "group_rule" in router:
        groups = between(2, 8)
        size = settings["orth_groups"] * between(2, 8 // settings["orth_groups"])
        kept = between(1, groups)
        slots = min(slots, kept * size)
        experts = groups * size
    else:
        groups = kept = 0
        experts = between(max(slots, 2), 64)
        experts += experts % settings["orth_groups"]
    # Gram-Schmidt of vectors that nearly depend on each other has no answer in single precision.
    width = between(4 * slots, max(64, 4 * slots)) if settings["form"] == "span" else between(1, 64)
    return tokens, experts, slots, width, groups, kept


def draw(seed, router_name, settings):
    """(inputs, router) of one random case."""
    generator = torch.Generator().manual_seed(seed)
    fixed = ROUTERS[router_name]
    tokens, experts, slots, width, groups, kept = draw_sizes(generator, fixed, settings)
    router = Router(kind=fixed["kind"], slots=slots, normalise=fixed.get("normalise", False),
                    scale=fixed.get("scale", 1.0), groups=groups, groups_kept=kept,
                    group_rule=fixed.get("group_rule", "max"),
                    jitter=float(torch.tensor([0.01, 0.1, 0.3])[seed % 3]) if fixed["kind"] == "sparsemixer" else 0.0)

    def normal(*shape):
        return torch.randn(*shape, generator=generator)

    def below(high, *shape):
        return torch.randint(0, high, shape, generator=generator)

    logits = 1.5 * normal(tokens, experts)
    if seed % 2 == 0:  # on a grid: equal logits are frequent, so ties are decided
        logits = (logits * 16).round() / 16
    outputs = normal(tokens, slots, width) + 0.5 * normal(tokens, 1, width)
    inputs = Inputs(logits=logits, expert_outputs=outputs, router_weight=normal(experts, width) / width**0.5)
    if fixed.get("bias"):
        inputs.router_bias = 0.2 * normal(experts)
    if seed % 3 != 0:
        inputs.mask = (below(4, tokens) > 0).to(torch.int32)
        inputs.mask[int(below(tokens, 1))] = 1  # a batch of padding alone is refused
    if seed % 5 != 0:
        inputs.sequence = (below(4, tokens) * 7 - 3).to(torch.int32)  # any ids, in any order
    return inputs, router


def close(a, b, margin):
    """True where two numbers are so close that rounding could order them either way; equal numbers are not."""
    return ((a - b).abs() < margin * (a.abs() + b.abs())) & (a != b)


def order_unclear(values, margin=2e-6):
    values = values.sort(dim=-1, descending=True).values
    return bool(close(values[:, 1:], values[:, :-1], margin).any())


def unclear(inputs, router, settings):
    """True when a choice of this case hangs on rounding, so that single and double precision may differ."""
    logits = inputs.logits.double()
    probs = reference.scores_of(logits, router)
    if order_unclear(probs):
        return True
    mask = torch.ones(logits.shape[0], dtype=torch.bool) if inputs.mask is None else inputs.mask != 0
    if settings["pool"]:
        sequence = torch.zeros(logits.shape[0], dtype=torch.int64) if inputs.sequence is None else inputs.sequence
        means = torch.stack([probs[(sequence == number) & mask].mean(dim=0) for number in sequence.unique()]).nan_to_num()
        if order_unclear(means if inputs.router_bias is None else means + inputs.router_bias.double()):
            return True
        logits = reference.confine(logits, inputs.router_bias, mask, sequence, router, settings)
        probs = reference.scores_of(logits, router)
    if inputs.router_bias is not None:
        probs = probs + inputs.router_bias.double()
        if order_unclear(probs):
            return True
    if router.groups > 0 and router.group_rule == "top2-sum":
        grouped = probs.view(probs.shape[0], router.groups, -1)
        if order_unclear(grouped.topk(2, dim=-1).values.sum(dim=-1)):
            return True
    if router.kind == "sparsemixer" and sparsemixer_unclear(logits, router, settings):
        return True
    routing = reference.route(logits, inputs.router_bias, mask, router, settings)
    gate = torch.tensor(settings["tau_gate"], dtype=torch.float64)
    if bool(close(routing.weight, gate, 1e-5).any()):
        return True
    if settings["drop_threshold"] > 0.0 and bool(close(*reference.drop_draws(routing.weight, settings), 2e-6).any()):
        return True
    gram = inputs.router_weight.double() @ inputs.router_weight.double().T
    if settings["lambda_simbal"] and bool(((gram - torch.eye(gram.shape[0])).abs() < 1e-6).any()):
        return True
    return settings["scale"] == "once-pow10" and power_unclear(inputs, router, settings, routing, mask)


def sparsemixer_unclear(logits, router, settings):
    """True when an expert is about as far from the best as the threshold, or a draw is about to go either way."""
    chosen, left = reference.sparsemixer(logits, router.jitter)[0], logits
    if reference.drops_slots(settings):
        chosen = reference.sparsemixer(logits, router.jitter, settings["seed"])[0]
    for slot in range(2):
        highest = left.max(dim=-1, keepdim=True).values
        ratio = (highest - logits) / torch.maximum(logits.abs(), highest)
        noisy = left.masked_fill(ratio > 2 * router.jitter, -torch.inf)
        noisy = noisy + reference.gumbel_noise(logits.shape, slot, settings["seed"], logits.dtype)
        best = noisy.topk(2, dim=-1).values
        if bool(((ratio - 2 * router.jitter).abs() < 1e-5).any()) or bool((best[:, 0] - best[:, 1] < 1e-4).any()):
            return True
        left = left.scatter(1, chosen[:, slot : slot + 1], -torch.inf)
    return False


def power_unclear(inputs, router, settings, routing, mask):
    """True when a power of ten is about to be rounded at half."""
    values = {"beta": reference.router_rows_span(inputs.router_weight.double(), router.slots),
              "gamma": abs(float(reference.variance_loss(routing, mask, settings)))}
    for key, value in values.items():
        if settings[key] > 0.0 and value > 0.0:
            power = torch.log10(torch.tensor(settings[key] / value, dtype=torch.float64))
            if abs(abs(float(power - power.round())) - 0.5) < 1e-3:
                return True
    return False


def draw_clear(seed, router_name, settings):
    for attempt in range(100):
        inputs, router = draw(seed + 1000003 * attempt, router_name, settings)
        if not unclear(inputs, router, settings):
            return inputs, router
    raise RuntimeError(f"no clear case for {router_name}, seed {seed}")
