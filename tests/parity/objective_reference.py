"""The objective in plain PyTorch: routing, every term, every method, gradients by autograd.

Written from the published formulas, as a user of PyTorch would write them and without regard for speed, so that it
can say whether the program is right. Letters: N tokens, n experts, k slots, d width. Everything runs in the
floating-point type asked for; float64 is the reference, float32 shows what single precision costs PyTorch itself.

Needs PyTorch; objective_parity.py and objective_golden.py import it.
"""
import math
import sys
from dataclasses import dataclass, field

try:
    import torch
except ImportError as error:
    print(f"this needs a Python with PyTorch: {error}", file=sys.stderr)
    sys.exit(77)

TERMS = ("aux", "o", "v", "z", "router_orth", "simbal", "erc", "sp", "cp")
COEFFICIENT = {"aux": "alpha", "o": "beta", "v": "gamma", "z": "zeta", "router_orth": "lambda_orth",
               "simbal": "lambda_simbal", "erc": "lambda_erc", "sp": "lambda_sp", "cp": "lambda_cp"}
EPSILON = {"pairwise": 1e-8, "span": 1e-6, "cosine": 1e-12}

OFF = {
    "alpha": 0.0, "beta": 0.0, "gamma": 0.0, "zeta": 0.0, "lambda_orth": 0.0, "lambda_simbal": 0.0,
    "aux": "batch", "grouping": "token", "form": "pairwise", "reduce": "mean", "exclude_first": False, "eps": "auto",
    "tau_gate": 0.0, "gradient": "exact", "axis": "expert", "scores": "topk", "brake": "none", "scale": "once",
    "orth_groups": 1, "capacity": 0.0, "capacity_min": 0, "drop_threshold": 0.0,
    "seed": 0, "lambda_erc": 0.0, "lambda_sp": 0.0, "lambda_cp": 0.0, "erc_alpha": 1.0, "erc_noise": 1.0, "sp": "cosine",
    "pool": False,
}


def row(**changes):
    return {**OFF, **changes}


PAPER = row(alpha=1e-3, beta=1e-3, gamma=1e-3)
METHODS = {
    "none": OFF,
    "aux": row(alpha=1e-3),
    "global-batch": row(alpha=1e-3, aux="global"),  # one batch is the step
    "pool": row(alpha=0.1 / 16, aux="global", zeta=1e-3 / 16, pool=True),
    "gshard": row(alpha=1e-2, aux="switch", drop_threshold=0.2, capacity=1.0),
    "st-moe": row(alpha=1e-2, aux="switch", zeta=1e-3, drop_threshold=0.2, capacity=1.25, capacity_min=4),
    "loss-free": OFF,
    "smebu": OFF,
    "quantile": OFF,
    "densemixer": OFF,
    "ernie": row(alpha=1e-2, aux="ernie", lambda_orth=1e-2, zeta=1e-4),
    "simbal": row(lambda_simbal=0.1, zeta=1e-5),
    "paper": PAPER,
    "paper-code": row(alpha=1e-3, aux="sequence", beta=1e-4, form="span", grouping="expert-concat", gamma=1e-3,
                      axis="token", scores="full", scale="once-pow10"),
    "metier": row(alpha=1e-3, beta=1e-2, form="cosine", exclude_first=True, gamma=3e-3, brake="target"),
    "paper-wo-lv": {**PAPER, "gamma": 0.0},
    "paper-wo-lo": {**PAPER, "beta": 0.0},
    "paper-only-aux": {**PAPER, "beta": 0.0, "gamma": 0.0},
    "paper-wo-all": OFF,
}
# Those that look at experts' activations and weights, or at several layers: for whole models alone.
MODEL_METHODS = {
    "erc": row(alpha=1e-2, lambda_erc=1.0),
    "intra-cross": row(alpha=1e-2, lambda_sp=2e-3, lambda_cp=1e-3),
}


def may_pool(router_name):
    return "group" not in router_name and router_name != "sparsemixer"


def refused(method, router_name):
    """Whether a method cannot work with such a router, or asks for more than layers by themselves give."""
    if method == "quantile" and "group" in router_name or method == "pool" and not may_pool(router_name):
        return True
    return method == "densemixer" or (method in ("loss-free", "smebu", "quantile") and router_name == "sparsemixer")


@dataclass
class Router:
    kind: str = "softmax"  # softmax, sigmoid, sparsemixer
    slots: int = 1
    normalise: bool = False
    scale: float = 1.0
    groups: int = 0
    groups_kept: int = 0
    group_rule: str = "max"  # max, top2-sum
    jitter: float = 0.0  # sparsemixer's threshold


@dataclass
class Inputs:
    logits: torch.Tensor  # [N,n]
    expert_outputs: torch.Tensor = None  # [N,k,d]
    mask: torch.Tensor = None  # [N], 0 marks padding
    sequence: torch.Tensor = None  # [N], any ids
    router_weight: torch.Tensor = None  # [n,d]
    router_bias: torch.Tensor = None  # [n]


@dataclass
class Routing:
    probs: torch.Tensor  # [N,n]
    greedy: torch.Tensor  # [N,k]: the largest probs, for counting
    expert: torch.Tensor  # [N,k], -1 where dropped
    weight: torch.Tensor  # [N,k], of the choice before dropping


@dataclass
class Results:
    loss: dict = field(default_factory=dict)
    scale: dict = field(default_factory=dict)
    total: float = 0.0
    grads: dict = field(default_factory=dict)
    summed: dict = field(default_factory=dict)  # per gradient: how large the parts are that add up to it
    experts: torch.Tensor = None
    weights: torch.Tensor = None
    greedy: torch.Tensor = None


# ---------------------------------------------------------------- routing


def stable_topk(values, k):
    """Indices of the k largest, largest first; equals in the order of their index."""
    return torch.sort(values, dim=-1, descending=True, stable=True).indices[:, :k]


def pool_sizes(sequences, experts, slots, seed, stream=0, first=0):
    """How many experts each of the sequences, numbered from `first` on, may choose from: slots .. experts."""
    return [slots + (philox_word(seed, first + b, stream) * (experts - slots + 1) >> 32) for b in range(sequences)]


def pool_of(probs, bias, size):
    """True for the `size` experts with the highest mean over these tokens, [n]; means and sums in single precision."""
    mean = (probs.sum(dim=0) / max(len(probs), 1)).float()
    mean = mean if bias is None else (mean.double() + bias.double()).float()
    return torch.zeros(len(mean), dtype=torch.bool).scatter(0, stable_topk(mean[None], size)[0], True)


def scores_of(logits, router):
    return torch.sigmoid(logits) if router.kind == "sigmoid" else torch.softmax(logits, dim=-1)


def confine(logits, bias, mask, sequence, router, settings):
    """EMO: logits outside each sequence's pool become -inf. The pool is a constant; sequences go by rising ids."""
    if not settings["pool"]:
        return logits
    probs, outside = scores_of(logits.detach(), router), torch.zeros_like(logits, dtype=torch.bool)
    ids = sorted(set(sequence.tolist()))
    for number, size in zip(ids, pool_sizes(len(ids), logits.shape[1], router.slots, settings["seed"])):
        own = sequence == number
        outside[own] = ~pool_of(probs[own & mask], bias, size)
    return logits.masked_fill(outside, -math.inf)


def choose(probs, bias, router, outside=None):
    scores = probs if bias is None else probs + bias
    if outside is not None:
        scores = scores.masked_fill(outside, -math.inf)
    if router.groups > 0:
        tokens, experts = scores.shape
        grouped = scores.view(tokens, router.groups, experts // router.groups)
        if router.group_rule == "max":
            group_score, outside = grouped.max(dim=-1).values, 0.0
        else:
            group_score, outside = grouped.topk(2, dim=-1).values.sum(dim=-1), -math.inf
        best = stable_topk(group_score, router.groups_kept)
        kept = torch.zeros_like(group_score, dtype=torch.bool).scatter(1, best, True)
        kept = kept.repeat_interleave(experts // router.groups, dim=1)
        scores = torch.where(kept, scores, torch.full_like(scores, outside))
    return stable_topk(scores, router.slots)


def philox_word(seed, index, stream=0):
    """Element `index` of a stream of the seed: Philox4x32-10 (Salmon et al. 2011), 32 bits."""
    low32 = 0xFFFFFFFF
    counter = [index // 4 & low32, index // 4 >> 32, stream & low32, stream >> 32]
    key = [seed & low32, seed >> 32]
    for _ in range(10):
        first, second = 0xD2511F53 * counter[0], 0xCD9E8D57 * counter[2]
        counter = [(second >> 32) ^ counter[1] ^ key[0], second & low32, (first >> 32) ^ counter[3] ^ key[1],
                   first & low32]
        key = [key[0] + 0x9E3779B9 & low32, key[1] + 0xBB67AE85 & low32]
    return counter[index % 4]


def philox_uniform(seed, index, stream=0):
    return (philox_word(seed, index, stream) >> 8) / 2**24


def gumbel_noise(shape, slot, seed, dtype):
    tokens, experts = shape
    words = [[philox_word(seed, (i * 2 + slot) * (experts + 1) + j) for j in range(experts)] for i in range(tokens)]
    return -torch.log(-torch.log(((torch.tensor(words) >> 9) + 0.5).to(dtype) / 2**23))


def drops_slots(settings):
    return settings["capacity"] != 0.0 or settings["drop_threshold"] != 0.0


def sparsemixer(logits, jitter, seed=None):
    """SparseMixer-2, two choices, each weighed by a softmax over the experts near the best one.

    Without a seed, as in evaluation: the best, then the second best. With one, as in training: drawn by Gumbel-max; a
    choice that is not the best weighs 1/3 with probability 3/4, a factor the gradient leaves out, as the original does.
    """
    tokens, experts = logits.shape
    left, chosen, weights = logits, [], []
    for slot in range(2):
        with torch.no_grad():
            highest = left.max(dim=-1, keepdim=True).values
            far = (highest - logits) / torch.maximum(logits.abs(), highest) > 2 * jitter
            best = expert = stable_topk(left, 1)
            if seed is not None:
                noise = gumbel_noise(logits.shape, slot, seed, logits.dtype)
                expert = stable_topk(left.masked_fill(far, -math.inf) + noise, 1)
        weight = torch.softmax(left.masked_fill(far, -math.inf), dim=-1).gather(1, expert)
        if seed is not None:
            lucky = [philox_uniform(seed, (i * 2 + slot) * (experts + 1) + experts) > 0.75 for i in range(tokens)]
            whole = (expert == best) | torch.tensor(lucky)[:, None]
            weight = weight - torch.where(whole, 0.0, 2.0 / 3.0) * weight.detach()
        chosen.append(expert)
        weights.append(weight)
        left = left.scatter(1, expert, -math.inf)
    return torch.cat(chosen, dim=1), torch.cat(weights, dim=1)


def drop_draws(weight, settings):
    """(share, limit) [N,k]: a slot is dropped when its share of the token's weight does not exceed the limit drawn."""
    tokens, slots = weight.shape
    draws = [[0.0 if s == 0 else philox_uniform(settings["seed"], i * slots + s) for s in range(slots)]
             for i in range(tokens)]
    share = weight / weight.sum(dim=-1, keepdim=True)
    return share, settings["drop_threshold"] * torch.tensor(draws, dtype=weight.dtype)


def drop_slots(expert, weight, mask, experts, settings):
    """GShard, ST-MoE: later choices dropped by chance, then all first choices before all second ones, tokens in order;
    what finds its expert full is not served."""
    tokens, slots = expert.shape
    if not drops_slots(settings):
        return expert
    stays = mask[:, None].expand(tokens, slots)
    if settings["drop_threshold"] > 0.0:
        share, limit = drop_draws(weight, settings)
        stays = stays & (share > limit)
    served = torch.where(stays, expert, torch.full_like(expert, -1))
    if settings["capacity"] == 0.0:
        return served
    unmasked = int(mask.sum())
    capacity = max(settings["capacity_min"], math.ceil(settings["capacity"] * slots * unmasked / experts), 1)
    load = [0] * experts
    for s in range(slots):
        for i in range(tokens):
            j = int(served[i, s])
            if j >= 0 and load[j] < capacity:
                load[j] += 1
            else:
                served[i, s] = -1
    return served


def route(logits, bias, mask, router, settings):
    probs = scores_of(logits, router)
    greedy = stable_topk(probs.detach(), router.slots)
    if router.kind == "sparsemixer":
        # What drops slots is training.
        chosen, weight = sparsemixer(logits, router.jitter, settings["seed"] if drops_slots(settings) else None)
    else:
        chosen = choose(probs.detach(), bias, router, torch.isneginf(logits))
        weight = probs.gather(1, chosen)
        if router.normalise:
            weight = weight / weight.sum(dim=-1, keepdim=True)
    weight = weight * router.scale
    served = drop_slots(chosen, weight.detach(), mask, logits.shape[1], settings)
    return Routing(probs, greedy, served, weight)


def dense_weights(routing, experts):
    """s [N,n]: a served slot's weight at its expert, 0 elsewhere."""
    served = routing.expert >= 0
    weight = torch.where(served, routing.weight, torch.zeros_like(routing.weight))
    empty = torch.zeros(weight.shape[0], experts, dtype=weight.dtype)
    return empty.scatter_add(1, routing.expert.clamp(min=0), weight)


# ---------------------------------------------------------------- L_aux


def count(expert, experts, dtype):
    expert = expert.reshape(-1)
    return torch.bincount(expert[expert >= 0], minlength=experts).to(dtype)


def balance_scores(routing, router):
    if router.kind == "sigmoid":
        return routing.probs / routing.probs.sum(dim=-1, keepdim=True)
    return routing.probs


def deepseek_balance(scores, greedy):
    tokens, experts = scores.shape
    slots = greedy.shape[1]
    f = count(greedy, experts, scores.dtype) * experts / (tokens * slots)
    return (f * scores.mean(dim=0)).sum()


def aux_loss(form, routing, router, mask, sequence):
    scores = balance_scores(routing, router)
    experts = scores.shape[1]
    tokens = int(mask.sum())
    if tokens == 0:
        return scores.sum() * 0.0
    if form in ("batch", "global"):
        return deepseek_balance(scores[mask], routing.greedy[mask])
    if form == "sequence":
        parts = []
        for name in sequence[mask].unique():
            inside = mask & (sequence == name)
            parts.append(deepseek_balance(scores[inside], routing.greedy[inside]))
        return torch.stack(parts).mean()
    if form == "switch":
        share = count(routing.greedy[mask][:, :1], experts, scores.dtype) / tokens
        return experts * (share * scores[mask].mean(dim=0)).sum()
    if form in ("hf", "ernie"):
        share = count(routing.greedy[mask], experts, scores.dtype) / tokens
        return experts * (share * scores[mask].mean(dim=0)).sum()
    assert form == "literal"
    share = count(routing.expert[mask], experts, scores.dtype) / tokens
    return (share * dense_weights(routing, experts)[mask].sum(dim=0)).sum()


# ---------------------------------------------------------------- L_o, on groups of k vectors [M,k,d]


def projection(a, b, eps):
    """The part of a along b."""
    return ((a * b).sum(-1, keepdim=True) / ((b * b).sum(-1, keepdim=True) + eps)) * b


def pairwise(x, eps):
    slots = x.shape[1]
    loss = x.sum(dim=(1, 2)) * 0.0
    for j in range(slots):
        for m in range(slots):
            if m != j:
                loss = loss + projection(x[:, j], x[:, m], eps).pow(2).sum(-1)
    return loss


def pairwise_printed(x, eps):
    """The equation's value with the gradient the paper prints: sum over m of x_m x_m^T / (|x_m|² + eps) x_j."""
    slots = x.shape[1]
    pull = x.sum(dim=(1, 2)) * 0.0
    for j in range(slots):
        for m in range(slots):
            if m != j:
                other = x[:, m].detach()
                pull = pull + 0.5 * (x[:, j] * other).sum(-1).pow(2) / ((other * other).sum(-1) + eps)
    return pairwise(x, eps).detach() + pull - pull.detach()


def orthogonal_basis(vectors, eps):
    """Modified Gram-Schmidt, one vector after the other, each divided by (its length + eps)."""
    basis = []
    for v in vectors:
        for u in basis:
            v = v - (u * v).sum(-1, keepdim=True) * u
        basis.append(v / (torch.linalg.vector_norm(v, dim=-1, keepdim=True) + eps))
    return basis


def span_part(x, a, eps):
    """|projection of vector a on the span of the others|², for each group of x [M,m,d]."""
    others = [x[:, b] for b in range(x.shape[1]) if b != a]
    loss = x[:, a].sum(-1) * 0.0
    for u in orthogonal_basis(others, eps):
        loss = loss + ((u * x[:, a]).sum(-1, keepdim=True) * u).pow(2).sum(-1)
    return loss


def span(x, eps):
    slots = x.shape[1]
    return sum(span_part(x, a, eps) for a in range(slots)) / slots


def cosine(x, eps):
    slots = x.shape[1]
    loss = x.sum(dim=(1, 2)) * 0.0
    for a in range(slots):
        for b in range(slots):
            if a != b:
                q = (x[:, a] * x[:, b]).sum(-1)
                loss = loss + q.pow(2) / ((x[:, a].pow(2).sum(-1) + eps) * (x[:, b].pow(2).sum(-1) + eps))
    return loss / (slots * (slots - 1))


def without_first(mask, sequence):
    """The mask less the first unmasked token of every sequence."""
    left, seen = mask.clone(), set()
    for i in range(mask.shape[0]):
        if mask[i] and int(sequence[i]) not in seen:
            seen.add(int(sequence[i]))
            left[i] = False
    return left


def ortho_groups(outputs, routing, mask, settings):
    """[M,k,d]: the vectors compared with each other."""
    slots = outputs.shape[1]
    live = (routing.expert >= 0) & mask[:, None]
    if settings["grouping"] == "token":
        live = live & (routing.weight.detach() > settings["tau_gate"])
        return torch.where(live[:, :, None], outputs, torch.zeros_like(outputs))[mask]
    rows = []
    for j in range(routing.probs.shape[1]):
        rows.append(outputs[live & (routing.expert == j)])  # in the order of tokens
    rows = torch.cat(rows)
    whole = rows.shape[0] // slots
    return rows[: whole * slots].view(whole, slots, outputs.shape[2])


def ortho_loss(outputs, routing, mask, sequence, settings):
    if settings["exclude_first"]:
        mask = without_first(mask, sequence)
    x = ortho_groups(outputs, routing, mask, settings)
    if x.shape[0] == 0 or x.shape[1] == 1:
        return outputs.sum() * 0.0
    eps = EPSILON[settings["form"]] if settings["eps"] == "auto" else float(settings["eps"])
    if settings["form"] == "pairwise":
        loss = pairwise_printed(x, eps) if settings["gradient"] == "paper" else pairwise(x, eps)
    else:
        loss = {"span": span, "cosine": cosine}[settings["form"]](x, eps)
    return loss.sum() if settings["reduce"] == "sum" else loss.mean()


# ---------------------------------------------------------------- the other terms


def variance_loss(routing, mask, settings):
    scores = routing.probs if settings["scores"] == "full" else dense_weights(routing, routing.probs.shape[1])
    scores = scores[mask]
    if scores.shape[0] == 0:
        return routing.probs.sum() * 0.0
    if settings["axis"] == "expert":
        return -scores.var(dim=0, correction=0).mean()
    return -scores.var(dim=1, correction=1).mean()


def z_loss(logits, mask):
    if int(mask.sum()) == 0:
        return logits.sum() * 0.0
    return torch.logsumexp(logits[mask], dim=-1).pow(2).mean()


def router_orth_loss(weight, groups):
    experts = weight.shape[0]
    rows = weight / weight.norm(dim=-1, keepdim=True).clamp(min=1e-12)
    rows = rows.view(groups, experts // groups, -1)
    gram = rows @ rows.transpose(1, 2)
    return (gram - torch.eye(experts // groups, dtype=weight.dtype)).pow(2).sum() / gram.numel()


def simbal_loss(weight):
    return (weight @ weight.T - torch.eye(weight.shape[0], dtype=weight.dtype)).abs().sum()


# ---------------------------------------------------------------- terms of whole models


def proxy_noise(weight, amount, seed, stream):
    """[n,d], a constant: uniform in 1 ± amount·ε_i, ε_i half the distance to the nearest row over the row's length."""
    with torch.no_grad():
        distances = torch.cdist(weight, weight, compute_mode="donot_use_mm_for_euclid_dist")
        distances.fill_diagonal_(math.inf)
        epsilon = amount * distances.min(dim=1).values / 2 / weight.norm(dim=1)
        rows, width = weight.shape
        draws = [[philox_uniform(seed, i * width + j, stream) for j in range(width)] for i in range(rows)]
        return 1.0 + epsilon[:, None] * (2.0 * torch.tensor(draws, dtype=weight.dtype) - 1.0)


def erc_loss(rows, gates, alpha):
    """rows [n,d], the router's with their noise; gates [n,I,d], the experts' gate projections."""
    responses = torch.einsum("jDd,id->ijD", gates, rows).norm(dim=-1)
    own = torch.diag(responses)
    above = (responses - alpha * own[:, None]).clamp(min=0.0) + (responses - alpha * own[None, :]).clamp(min=0.0)
    return (above * (1.0 - torch.eye(rows.shape[0], dtype=rows.dtype))).mean()


def sp_loss(activations, squared):
    """activations [T,k,I] of the chosen experts."""
    rows = activations / activations.norm(dim=-1, keepdim=True)
    slots = rows.shape[1]
    pairs = [(rows[:, a] * rows[:, b]).sum(-1) for a in range(slots) for b in range(a + 1, slots)]
    cosines = torch.stack(pairs)
    return cosines.pow(2).mean() if squared else cosines.mean()


def cp_loss(routing, before, kind):
    """Of two MoE layers, one after the other."""
    if before is None:
        return routing.probs.sum() * 0.0

    def mass(part):
        probs = part.probs / part.probs.sum(dim=-1, keepdim=True) if kind == "sigmoid" else part.probs
        return probs.gather(1, part.greedy).sum(dim=-1)

    return -(mass(routing) * mass(before)).mean()


# ---------------------------------------------------------------- weights of the terms, first batch


def power_of_ten(target, value):
    if target == 0.0:
        return 0.0
    return 10.0 ** float(torch.round(torch.log10(torch.tensor(target / value, dtype=torch.float64))))


def router_rows_span(weight, slots):
    """The authors' yardstick for L_o: the first k router rows, each projected on the span of all other rows."""
    rows = weight.detach()[None]
    return float(sum(span_part(rows, a, 1e-6) for a in range(slots))) / slots


def usable(value):
    return math.isfinite(value) and value != 0.0


def term_scale(term, loss, aux_value, inputs, router, settings):
    coefficient = float(settings[COEFFICIENT[term]])
    if term not in ("o", "v") or settings["scale"] == "none" or coefficient == 0.0:
        return coefficient
    if settings["scale"] == "once-pow10":
        value = router_rows_span(inputs.router_weight, router.slots) if term == "o" else abs(loss)
        return power_of_ten(coefficient, value) if usable(value) else coefficient
    # "running" starts as "once" does; a brake has nothing to stop yet.
    if not usable(loss) or not usable(aux_value):
        return coefficient
    return coefficient * aux_value / abs(loss)


# ---------------------------------------------------------------- everything together


def settings_of(method, changes):
    """A method's row with keys changed; c_o and c_v are multiples of alpha."""
    settings = dict({**METHODS, **MODEL_METHODS}[method])
    settings.update({key: value for key, value in changes.items() if key not in ("c_o", "c_v")})
    alpha = settings["alpha"] if settings["alpha"] > 0.0 else 1e-3
    for key, target in (("c_o", "beta"), ("c_v", "gamma")):
        if key in changes:
            settings[target] = changes[key] * alpha
    return settings


def losses_of(inputs, leaves, router, settings):
    """(term -> loss tensor, routing, the value L_o and L_v are scaled to)."""
    tokens = inputs.logits.shape[0]
    mask = torch.ones(tokens, dtype=torch.bool) if inputs.mask is None else inputs.mask != 0
    sequence = torch.zeros(tokens, dtype=torch.int64) if inputs.sequence is None else inputs.sequence
    logits = leaves["logits"]
    bias = None if inputs.router_bias is None else inputs.router_bias.to(logits.dtype)
    logits = confine(logits, bias, mask, sequence, router, settings)
    routing = route(logits, bias, mask, router, settings)
    losses = {}
    if settings["alpha"] != 0.0:
        losses["aux"] = aux_loss(settings["aux"], routing, router, mask, sequence)
    if settings["beta"] != 0.0:
        losses["o"] = ortho_loss(leaves["expert_outputs"], routing, mask, sequence, settings)
    if settings["gamma"] != 0.0:
        losses["v"] = variance_loss(routing, mask, settings)
    if settings["zeta"] != 0.0:
        losses["z"] = z_loss(logits, mask)
    if settings["lambda_orth"] != 0.0:
        losses["router_orth"] = router_orth_loss(leaves["router_weight"], settings["orth_groups"])
    if settings["lambda_simbal"] != 0.0:
        losses["simbal"] = simbal_loss(leaves["router_weight"])
    aux = losses["aux"] if "aux" in losses else aux_loss("batch", routing, router, mask, sequence)
    return losses, routing, float(aux.detach())


def evaluate(inputs, router, settings, dtype=torch.float64):
    leaves = {}
    for name in ("logits", "expert_outputs", "router_weight"):
        value = getattr(inputs, name)
        if value is not None:
            leaves[name] = value.detach().to(dtype).clone().requires_grad_(True)
    losses, routing, aux_value = losses_of(inputs, leaves, router, settings)
    results = Results(experts=routing.expert, weights=routing.weight.detach(), greedy=routing.greedy)
    total = leaves["logits"].sum() * 0.0
    for term, loss in losses.items():
        value = float(loss.detach())
        results.loss[term] = value
        results.scale[term] = term_scale(term, value, aux_value, inputs, router, settings)
        total = total + results.scale[term] * loss
    results.total = float(total.detach())
    wanted = {**leaves, "probs": routing.probs, "weight": routing.weight}
    gradients = torch.autograd.grad(total, list(wanted.values()), allow_unused=True)
    gradients = [torch.zeros_like(leaf) if gradient is None else gradient
                 for leaf, gradient in zip(wanted.values(), gradients)]
    results.grads = dict(zip(wanted, gradients))
    measure_parts(results, leaves, routing)
    return results


def measure_parts(results, leaves, routing):
    """The root mean square of the parts whose sum a gradient is: what its rounding errors are relative to.

    A logit's gradient is a difference of terms |dP·P| and |dw·w|; one in a row of size x comes from a loss that changes
    by about itself when x does.
    """
    share = (results.grads.pop("weight") * routing.weight).abs().detach()
    parts = (results.grads.pop("probs") * routing.probs).abs().detach()
    parts = parts.scatter_add(1, routing.expert.clamp(min=0), share)
    results.summed["logits"] = float(parts.pow(2).mean().sqrt())
    for name, terms in (("expert_outputs", ("o",)), ("router_weight", ("router_orth", "simbal"))):
        if name in leaves and leaves[name].numel() > 0:
            push = sum(abs(results.scale[term] * results.loss[term]) for term in terms if term in results.loss)
            size = float(leaves[name].detach().pow(2).mean().sqrt())
            results.summed[name] = push / (leaves[name].numel() * size)


# ---------------------------------------------------------------- what the paper's authors released


def released_objective(logits, outputs, router_weight, sequences, alpha, beta, gamma):
    """The authors' public training code, in our words, for one layer on its first batch: (parts, total).

    logits [N,n] of `sequences` sequences of equal length, outputs [N,k,d] in top-k order. Nothing is masked. The
    scores are the full softmax; L_aux is per sequence; the variance is each token's over all experts (n-1); the
    vectors made orthogonal are k neighbours of all outputs listed by expert; weights are powers of ten, for L_o from
    the router's rows and not from L_o itself.
    """
    tokens, slots, width = outputs.shape
    experts = logits.shape[1]
    scores = torch.softmax(logits, dim=-1)
    chosen = stable_topk(scores.detach(), slots)
    length = tokens // sequences
    aux = 0.0
    for b in range(sequences):
        part = slice(b * length, (b + 1) * length)
        load = torch.bincount(chosen[part].reshape(-1), minlength=experts).to(logits.dtype)
        aux = aux + (load * experts / (length * slots) * scores[part].mean(dim=0)).sum() / sequences
    variance = scores.var(dim=-1).mean()
    listed = torch.cat([outputs[chosen == j] for j in range(experts)]).view(tokens, slots, width)
    ortho = sum(span_part(listed, a, 1e-6).sum() for a in range(slots)) / (slots * tokens)
    rows = router_rows_span(router_weight, slots)
    parts = {"aux": aux, "variance": variance, "ortho": ortho,
             "variance_weight": power_of_ten(gamma, float(variance.detach())), "ortho_weight": power_of_ten(beta, rows)}
    return parts, alpha * aux - parts["variance_weight"] * variance + parts["ortho_weight"] * ortho
