"""A LoRA training step of a Mixture-of-Experts model in PyTorch, as bench/moe-lora times it next to ours.

    moe_lora_torch.py CONFIG.json --side torch|compiled|peft [--tokens 16384] [--length 512] [--rank 16] [--rounds 5]
                      [--recompute none|full|auto] [--dropout 0] [--device cuda|cpu]
    moe_lora_torch.py --check CONFIG.json        the hand-written model computes what transformers' class does, in f32

torch     written by hand for speed: rows sorted by expert once a layer, torch._grouped_mm for experts and their pairs,
          gate and up in one product, whichever of torch's attention kernels is fastest here, norms fused, and logits
          never whole
compiled  the same with torch.compile around each layer
peft      transformers' class with experts_implementation="grouped_mm", and PEFT's LoRA on attention and experts (not on
          the router, which PEFT does not reach), without the load-balancing loss; needs PEFT

As in bench/device_step.c: LoRA on attention, router, routed and shared experts, f32 masters that are rounded to bf16
for the products, loss on every token, the load-balancing loss, and clipped AdamW in every step. Weights and ids are
random, made on the device. Prints one line of JSON; what does not fit is "out of memory". Rope's scaling is left out.
"""
import argparse
import gc
import importlib.util
import json
import sys
import time
from types import SimpleNamespace

try:
    import torch
    import torch.nn.functional as F
    from torch.nn.attention import flex_attention as flex
    from torch.utils.checkpoint import checkpoint
except ImportError as error:
    print(f"this needs a Python with PyTorch: {error}", file=sys.stderr)
    sys.exit(77)

AUX = 1e-3


# ---------------------------------------------------------------- the shape


def read_shape(path):
    """A config.json of our architectures as the few numbers that a layer is made of."""
    with open(path) as file:
        raw = json.load(file)
    get = raw.get
    experts = get("num_experts") or get("n_routed_experts") or get("num_local_experts")
    shape = SimpleNamespace(
        type=raw["model_type"], hidden=raw["hidden_size"], layers=raw["num_hidden_layers"], vocabulary=raw["vocab_size"],
        heads=raw["num_attention_heads"], kv_heads=raw["num_key_value_heads"], epsilon=raw["rms_norm_eps"],
        theta=raw["rope_theta"], latent=get("kv_lora_rank"), experts=experts, chosen=raw["num_experts_per_tok"],
        width=get("moe_intermediate_size") or raw["intermediate_size"], dense_width=raw["intermediate_size"],
        dense_layers=get("first_k_dense_replace", 0), shared=get("n_shared_experts", 0),
        scale=get("routed_scaling_factor", 1.0), normalise=get("norm_topk_prob", True),
        sigmoid=raw["model_type"] in ("deepseek_v3", "glm4_moe"), bias=get("attention_bias", False),
        qk_norm=raw["model_type"] == "qwen3_moe", oss=raw["model_type"] == "gpt_oss",
        window=raw["sliding_window"] if raw["model_type"] == "gpt_oss" else None, limit=get("swiglu_limit"))
    if get("q_lora_rank"):
        raise SystemExit("moe_lora_torch: a latent of the queries is not written here")
    shape.head = get("head_dim") or shape.hidden // shape.heads
    shape.value, shape.rotated = shape.head, int(shape.head * get("partial_rotary_factor", 1.0))
    if shape.latent:
        shape.rotated, shape.value = raw["qk_rope_head_dim"], raw["v_head_dim"]
        shape.head = raw["qk_nope_head_dim"] + shape.rotated
    return shape


def layer_weights(shape, index):
    """name -> (dimensions, has a LoRA pair); [out,in], or [experts,out,in]."""
    hidden, heads, head = shape.hidden, shape.heads, shape.head
    made = {"norm1": ((hidden,), False), "norm2": ((hidden,), False), "q": ((heads * head, hidden), True)}
    if shape.latent:
        made["kv_a"] = ((shape.latent + shape.rotated, hidden), True)
        made["kv_norm"] = ((shape.latent,), False)
        made["kv_b"] = ((heads * (head - shape.rotated + shape.value), shape.latent), True)
    else:
        for name in "kv":
            made[name] = ((shape.kv_heads * head, hidden), True)
    made["o"] = ((hidden, heads * shape.value), True)
    if shape.bias:
        for name in ("q", "k", "v") + (("o",) if shape.oss else ()):
            made[f"{name}_bias"] = ((made[name][0][0],), False)
    if shape.qk_norm:
        made["q_norm"], made["k_norm"] = ((head,), False), ((head,), False)
    if index < shape.dense_layers:
        return made | {"gate_up": ((2 * shape.dense_width, hidden), False), "down": ((hidden, shape.dense_width), False)}
    made["router"] = ((shape.experts, hidden), True)
    made["experts_gate_up"] = ((shape.experts, 2 * shape.width, hidden), True)
    made["experts_down"] = ((shape.experts, hidden, shape.width), True)
    if shape.sigmoid:
        made["correction"] = ((shape.experts,), False)
    if shape.shared:
        made["gate_up"] = ((2 * shape.width * shape.shared, hidden), True)
        made["down"] = ((hidden, shape.width * shape.shared), True)
    if shape.oss:
        made |= {"sinks": ((heads,), False), "router_bias": ((shape.experts,), False),
                 "experts_gate_up_bias": ((shape.experts, 2 * shape.width), False),
                 "experts_down_bias": ((shape.experts, hidden), False)}
    return made


def lora_pair(name, dimensions, rank, device):
    """A of [.., rank, in] and B of [.., out, rank], f32. Gate and up have two pairs, next to each other."""
    *stack, wide, narrow = dimensions
    inner = 2 * rank if name.endswith("gate_up") else rank
    a = torch.empty(*stack, inner, narrow, device=device).uniform_(-1.0, 1.0) / narrow**0.5
    return a.requires_grad_(), torch.zeros(*stack, wide, rank, device=device).requires_grad_()


# ---------------------------------------------------------------- products


def grouped(x, weight, ends):
    """Rows times their expert's weight, [experts,out,in]."""
    if x.is_cuda:
        return torch._grouped_mm(x, weight.transpose(1, 2), offs=ends)
    counts = ends.diff(prepend=ends.new_zeros(1)).tolist()
    return torch.cat([F.linear(part, weight[i]) for i, part in enumerate(x.split(counts))])


class Copy(torch.autograd.Function):
    """Every token's row for each of its experts, in the experts' order; backward gathers instead of adding."""

    @staticmethod
    def forward(ctx, x, order, inverse, chosen):
        ctx.save_for_backward(inverse)
        ctx.chosen = chosen
        return x[order // chosen]

    @staticmethod
    def backward(ctx, grad):
        (inverse,) = ctx.saved_tensors
        return grad[inverse].view(-1, ctx.chosen, grad.shape[1]).sum(dim=1), None, None, None


class Combine(torch.autograd.Function):
    """The sum of each token's rows, which already have their weights."""

    @staticmethod
    def forward(ctx, rows, order, inverse, chosen):
        ctx.save_for_backward(order)
        ctx.chosen = chosen
        return rows[inverse].view(-1, chosen, rows.shape[1]).sum(dim=1)

    @staticmethod
    def backward(ctx, grad):
        (order,) = ctx.saved_tensors
        return grad[order // ctx.chosen], None, None, None


class HeadLoss(torch.autograd.Function):
    """Mean cross-entropy of x · headᵀ, some rows at a time; the gradient of x is made on the way."""

    @staticmethod
    def forward(ctx, x, head, labels, rows=2048):
        gradient, total = torch.empty_like(x), x.new_zeros((), dtype=torch.float32)
        for first in range(0, x.shape[0], rows):
            part, wanted = x[first : first + rows], labels[first : first + rows, None]
            logits = F.linear(part, head)
            log = torch.log_softmax(logits, dim=-1, dtype=torch.float32)
            total -= log.gather(1, wanted).sum()
            probs = log.exp_()
            probs.scatter_add_(1, wanted, torch.full_like(wanted, -1.0, dtype=torch.float32))
            gradient[first : first + rows] = (probs.to(x.dtype) @ head) / x.shape[0]
        ctx.save_for_backward(gradient)
        return total / x.shape[0]

    @staticmethod
    def backward(ctx, grad):
        return ctx.saved_tensors[0] * grad.to(ctx.saved_tensors[0].dtype), None, None, None


# ---------------------------------------------------------------- attention


def attend_plain(q, k, v, padded):
    value = v.shape[-1]
    if padded:
        v = F.pad(v, (0, q.shape[-1] - value))
    y = F.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=q.shape[1] != k.shape[1])
    return y[..., :value] if padded else y


def attend_sinks(q, k, v, sinks, mask):
    """A sink takes part in the sum that probabilities are divided by: the rest is scaled by what is left."""
    if q.is_cuda:
        y, aux = flex.flex_attention(q, k, v, block_mask=mask, enable_gqa=True, return_aux=flex.AuxRequest(lse=True))
        return y * torch.sigmoid(aux.lse - sinks.float()[:, None])[..., None].to(y.dtype)
    k, v = (y.repeat_interleave(q.shape[1] // y.shape[1], dim=1) for y in (k, v))
    scores = (q @ k.transpose(2, 3) * q.shape[-1] ** -0.5).masked_fill(~mask, float("-inf"))
    column = sinks[:, None, None].expand(*scores.shape[:-1], 1)
    return torch.cat((scores, column), dim=-1).softmax(dim=-1)[..., :-1] @ v


def causal(b, h, q, k):
    return q >= k


def windowed(width):
    return lambda b, h, q, k: (q >= k) & (q - k < width)


KERNELS = {"flash": torch.backends.cuda.enable_flash_sdp, "cudnn": torch.backends.cuda.enable_cudnn_sdp,
           "efficient": torch.backends.cuda.enable_mem_efficient_sdp, "math": torch.backends.cuda.enable_math_sdp}


def only(kernel):
    for name, enable in KERNELS.items():
        enable(name == kernel)


def fastest_attention(shape, sequences, length):
    """(kernel, whether values are padded): forward and backward of one layer by each, the quickest stays on."""
    def make(heads, width):
        return torch.randn(sequences, length, heads, width, device="cuda", dtype=torch.bfloat16).transpose(1, 2).requires_grad_()

    q, k, v = make(shape.heads, shape.head), make(shape.kv_heads, shape.head), make(shape.kv_heads, shape.value)
    best = (float("inf"), "efficient", False)
    for kernel in ("flash", "cudnn", "efficient"):
        for padded in (False, True) if shape.value != shape.head else (False,):
            only(kernel)
            try:
                for turn in range(4):
                    if turn == 1:
                        torch.cuda.synchronize()
                        start = time.perf_counter()
                    y = attend_plain(q, k, v, padded)
                    y.backward(torch.ones_like(y))
                torch.cuda.synchronize()
                best = min(best, (time.perf_counter() - start, kernel, padded))
            except RuntimeError:  # this kernel does not do this shape
                pass
    only(best[1])
    return best[1], best[2]


# ---------------------------------------------------------------- a layer


class Step:
    """What all layers of a batch have in common."""

    def __init__(self, shape, sequences, length, rank, dropout, device, dtype, alpha=4.0):
        self.shape, self.sequences, self.length, self.rank, self.dropout = shape, sequences, length, rank, dropout
        self.scale = alpha
        frequency = shape.theta ** (-torch.arange(0, shape.rotated, 2, dtype=torch.float64) / shape.rotated)
        angle = torch.arange(length, dtype=torch.float64)[:, None] * frequency
        self.cosine, self.sine = (torch.cat([part] * 2, dim=1).to(device, dtype) for part in (angle.cos(), angle.sin()))
        self.kernel, self.padded, self.masks = "as torch chooses", False, [None, None]
        if shape.oss:
            self.kernel = "flex"
            make = flex.create_block_mask if device == "cuda" else flex.create_mask
            self.masks = [make(mask, None, None, length, length, device=device)
                          for mask in (causal, windowed(shape.window))]
        elif device == "cuda":
            self.kernel, self.padded = fastest_attention(shape, sequences, length)


def dropped(step, x):
    return F.dropout(x, step.dropout) if step.dropout else x


def linear(step, x, w, pairs, name):
    y = F.linear(x, w[name], w.get(f"{name}_bias"))
    if name not in pairs:
        return y
    a, b = (part.to(x.dtype) for part in pairs[name])
    low = F.linear(dropped(step, x), a)
    if not name.endswith("gate_up"):
        return torch.addmm(y, low, b.t(), alpha=step.scale)
    wide = b.shape[0] // 2
    return y + step.scale * torch.cat([F.linear(low[:, : step.rank], b[:wide]), F.linear(low[:, step.rank :], b[wide:])], dim=1)


def grouped_linear(step, x, w, pairs, name, ends, owner):
    """Of the experts: [rows,out], for gate_up two halves of it."""
    y = grouped(x, w[name], ends)
    if owner is not None:
        y = y + w[f"{name}_bias"][owner]
    a, b = (part.to(x.dtype) for part in pairs[name])
    low = grouped(dropped(step, x), a, ends)
    if not name.endswith("gate_up"):
        return y + step.scale * grouped(low, b, ends)
    wide, rank = b.shape[1] // 2, step.rank
    gate, up = y.chunk(2, dim=1)
    return (gate + step.scale * grouped(low[:, :rank], b[:, :wide], ends),
            up + step.scale * grouped(low[:, rank:], b[:, wide:], ends))


def rotate(step, x):
    """x [sequences,length,heads,rotated]."""
    half = x.shape[-1] // 2
    turned = torch.cat((-x[..., half:], x[..., :half]), dim=-1)
    return x * step.cosine[:, None] + turned * step.sine[:, None]


def attention(step, x, w, pairs, mask):
    shape = step.shape

    def split(y, heads):
        return y.view(step.sequences, step.length, heads, -1)

    q = split(linear(step, x, w, pairs, "q"), shape.heads)
    if shape.latent:
        plain = shape.head - shape.rotated
        kv = linear(step, x, w, pairs, "kv_a")
        latent = F.rms_norm(kv[:, : shape.latent], (shape.latent,), w["kv_norm"], shape.epsilon)
        turned = rotate(step, split(kv[:, shape.latent :], 1)).expand(-1, -1, shape.heads, -1)
        both = split(linear(step, latent, w, pairs, "kv_b"), shape.heads)
        q = torch.cat((q[..., :plain], rotate(step, q[..., plain:])), dim=-1)
        k, v = torch.cat((both[..., :plain], turned), dim=-1), both[..., plain:]
    else:
        k, v = (split(linear(step, x, w, pairs, name), shape.kv_heads) for name in "kv")
        if shape.qk_norm:
            q = F.rms_norm(q, (shape.head,), w["q_norm"], shape.epsilon)
            k = F.rms_norm(k, (shape.head,), w["k_norm"], shape.epsilon)
        if shape.rotated == shape.head:
            q, k = rotate(step, q), rotate(step, k)
        else:
            q, k = (torch.cat((rotate(step, y[..., : shape.rotated]), y[..., shape.rotated :]), dim=-1) for y in (q, k))
    q, k, v = (y.transpose(1, 2) for y in (q, k, v))
    y = attend_sinks(q, k, v, w["sinks"], mask) if shape.oss else attend_plain(q, k, v, step.padded)
    return linear(step, y.transpose(1, 2).reshape(x.shape[0], -1), w, pairs, "o")


def gated(shape, gate, up):
    if not shape.oss:
        return F.silu(gate) * up
    gate, up = gate.clamp(max=shape.limit), up.clamp(-shape.limit, shape.limit)
    return (up + 1) * gate * torch.sigmoid(1.702 * gate)


def experts(step, x, w, pairs):
    """The routed experts' sum, and the load-balancing loss."""
    shape = step.shape
    logits = linear(step, x, w, pairs, "router").float()
    probs = logits.sigmoid() if shape.sigmoid else logits.softmax(dim=-1)
    chosen = (probs + w["correction"] if shape.sigmoid else probs).topk(shape.chosen, dim=-1, sorted=False).indices
    weight = probs.gather(1, chosen)
    if shape.normalise:
        weight = weight / weight.sum(dim=-1, keepdim=True)
    sorted_, order = chosen.view(-1).sort(stable=True)
    inverse = torch.empty_like(order).scatter_(0, order, torch.arange(order.shape[0], device=x.device))
    ends = torch.searchsorted(sorted_, torch.arange(shape.experts, device=x.device), right=True).to(torch.int32)
    owner = sorted_ if shape.oss else None
    rows = Copy.apply(x, order, inverse, shape.chosen)
    gate, up = grouped_linear(step, rows, w, pairs, "experts_gate_up", ends, owner)
    y = grouped_linear(step, gated(shape, gate, up), w, pairs, "experts_down", ends, owner)
    y = y * (shape.scale * weight).view(-1)[order][:, None].to(y.dtype)
    counts = ends.diff(prepend=ends.new_zeros(1))
    share = probs / probs.sum(dim=-1, keepdim=True) if shape.sigmoid else probs
    aux = (counts * (shape.experts / order.shape[0]) * share.mean(dim=0)).sum()
    return Combine.apply(y, order, inverse, shape.chosen), aux


def layer(step, h, w, pairs, mask):
    shape = step.shape
    h = h + attention(step, F.rms_norm(h, (shape.hidden,), w["norm1"], shape.epsilon), w, pairs, mask)
    x = F.rms_norm(h, (shape.hidden,), w["norm2"], shape.epsilon)
    aux = h.new_zeros((), dtype=torch.float32)
    if "router" in w:
        y, aux = experts(step, x, w, pairs)
        h = h + y
    if "gate_up" in w:
        gate, up = linear(step, x, w, pairs, "gate_up").chunk(2, dim=1)
        h = h + linear(step, F.silu(gate) * up, w, pairs, "down")
    return h, aux


class Model:
    def __init__(self, shape, step, device, dtype, compiled):
        self.shape, self.step = shape, step

        def weight(dimensions):
            return torch.empty(dimensions, device=device, dtype=dtype).normal_(0.0, 0.02)

        self.embedding, self.head = weight((shape.vocabulary, shape.hidden)), weight((shape.vocabulary, shape.hidden))
        self.norm, self.weights, self.pairs = weight((shape.hidden,)), [], []
        for i in range(shape.layers):
            made = layer_weights(shape, i)
            self.weights.append({name: weight(dimensions) for name, (dimensions, _) in made.items()})
            self.pairs.append({name: lora_pair(name, dimensions, step.rank, device)
                               for name, (dimensions, adapted) in made.items() if adapted})
        self.layer = torch.compile(layer, dynamic=False) if compiled else layer

    def parameters(self):
        return [part for pairs in self.pairs for pair in pairs.values() for part in pair]

    def forward(self, ids, recompute):
        h, terms = F.embedding(ids, self.embedding), []
        for i, (w, pairs) in enumerate(zip(self.weights, self.pairs)):
            given = (self.step, h, w, pairs, self.step.masks[(i + 1) % 2])
            if recompute:
                h, aux = checkpoint(self.layer, *given, use_reentrant=False, preserve_rng_state=self.step.dropout > 0)
            else:
                h, aux = self.layer(*given)
            terms.append(aux)
        return F.rms_norm(h, (self.shape.hidden,), self.norm, self.shape.epsilon), sum(terms)

    def loss(self, ids, labels, recompute):
        h, aux = self.forward(ids, recompute)
        task = HeadLoss.apply(h, self.head, labels)
        return task, task + AUX * aux


# ---------------------------------------------------------------- transformers and PEFT


class PeftModel:
    """transformers' class, its experts by grouped_mm, with PEFT's LoRA."""

    def __init__(self, path, options):
        import peft
        import transformers

        config = transformers.AutoConfig.from_pretrained(path)
        config.use_cache = False
        attention = "flex_attention" if config.model_type == "gpt_oss" and options.device == "cuda" else None
        with torch.device(options.device):
            model = transformers.AutoModelForCausalLM.from_config(
                config, dtype=torch.bfloat16, attn_implementation=attention, experts_implementation="grouped_mm")
        linears = {name.rsplit(".", 1)[1] for name, part in model.named_modules()
                   if isinstance(part, torch.nn.Linear) and ("self_attn" in name or "shared_expert" in name)}
        stacks = {".".join(name.rsplit(".", 3)[1:]) for name, part in model.named_parameters()
                  if part.dim() == 3 and ".experts." in name}
        lora = peft.LoraConfig(r=options.rank, lora_alpha=4 * options.rank, lora_dropout=options.dropout,
                               target_modules=sorted(linears), target_parameters=sorted(stacks))
        self.model = peft.get_peft_model(model, lora)
        self.model.train()
        self.length, self.device, self.checked = options.length, options.device, False

    def parameters(self):
        return [part for part in self.model.parameters() if part.requires_grad]

    def loss(self, ids, labels, recompute):
        if recompute and not self.checked:
            self.model.gradient_checkpointing_enable({"use_reentrant": False})
            self.model.enable_input_require_grads()
            self.checked = True
        with torch.autocast(self.device, torch.bfloat16):
            task = self.model(input_ids=ids.view(-1, self.length), labels=ids.view(-1, self.length),
                              shift_labels=labels.view(-1, self.length)).loss
        return task, task


# ---------------------------------------------------------------- the check

NAMES = {"norm1": "input_layernorm", "norm2": "post_attention_layernorm", "kv_a": "self_attn.kv_a_proj_with_mqa",
         "kv_norm": "self_attn.kv_a_layernorm", "kv_b": "self_attn.kv_b_proj", "sinks": "self_attn.sinks",
         "correction": "mlp.gate.e_score_correction_bias"}


def halves(weight, shape, heads):
    """Rows that rope turns in neighbouring pairs, as DeepSeek has them, put so that halves are turned."""
    rows = weight.view(heads, -1, weight.shape[1])
    plain, turned = rows[:, : -shape.rotated], rows[:, -shape.rotated :]
    return torch.cat((plain, turned[:, ::2], turned[:, 1::2]), dim=1).view_as(weight)


def from_transformers(shape, state, index, name):
    """One of our weights out of the class's state."""
    def take(part):
        full = f"model.layers.{index}.{part}"
        return state[full if full in state else f"{full}.weight"]

    base, bias = name.removesuffix("_bias"), ".bias" if name.endswith("_bias") else ""
    if name == "q" and shape.latent:
        return halves(take("self_attn.q_proj"), shape, shape.heads)
    if name == "kv_a":
        return halves(take(NAMES[name]), shape, 1)
    if name in NAMES:
        return take(NAMES[name])
    if base in ("q", "k", "v", "o"):
        return take(f"self_attn.{base}_proj{bias}")
    if name in ("q_norm", "k_norm"):
        return take(f"self_attn.{name}")
    if base == "router":
        return take(("mlp.router" if shape.oss else "mlp.gate") + bias)
    if base.startswith("experts_"):
        weight = take(f"mlp.{base.replace('_', '.', 1)}_proj{'_bias' if bias else ''}")
        if shape.oss and not bias:
            weight = weight.transpose(1, 2)  # [experts,out,in], gate's and up's rows in turns
        return torch.cat((weight[:, ::2], weight[:, 1::2]), dim=1) if shape.oss and "gate_up" in base else weight
    folder = "mlp" if index < shape.dense_layers else "mlp.shared_experts"
    parts = ("gate", "up") if name == "gate_up" else (name,)
    return torch.cat([take(f"{folder}.{part}_proj") for part in parts])


def check(options):
    """Loss and its gradient of a small shape without rope's scaling: the class, and ours with its weights, in f32."""
    import transformers

    config = transformers.AutoConfig.from_pretrained(options.config)
    theirs = transformers.AutoModelForCausalLM.from_config(config, dtype=torch.float32, attn_implementation="eager")
    for part in theirs.state_dict().values():
        part.normal_(0.0, 0.2)
    shape, length = options.shape, options.length
    step = Step(shape, options.tokens // length, length, options.rank, 0.0, "cpu", torch.float32)
    model = Model(shape, step, "cpu", torch.float32, False)
    state = theirs.state_dict()
    for i, w in enumerate(model.weights):
        for name in w:
            w[name] = from_transformers(shape, state, i, name).clone()
    model.embedding, model.head = state["model.embed_tokens.weight"].requires_grad_(), state["lm_head.weight"]
    model.norm = state["model.norm.weight"]
    ids, labels = torch.randint(shape.vocabulary, (2, options.tokens)).unbind()
    logits = theirs(input_ids=ids.view(-1, length)).logits.view(options.tokens, -1)
    wanted = F.cross_entropy(logits, labels)
    wanted.backward()
    loss, _ = model.loss(ids, labels, True)
    loss.backward()
    grad = theirs.get_input_embeddings().weight.grad
    off = float((model.embedding.grad - grad).norm() / grad.norm())
    print(f"{shape.type}: loss {loss.item():.6f}, transformers' {wanted.item():.6f}; their gradients are {off:.1e} apart")
    return abs((loss - wanted).item()) < 1e-4 and off < 1e-4


# ---------------------------------------------------------------- measuring


def one_step(model, optimizer, ids, labels, recompute):
    optimizer.zero_grad(set_to_none=True)
    task, total = model.loss(ids, labels, recompute)
    total.backward()
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    return task.detach()


def measure(model, options, recompute):
    """Median seconds and the loss, after two steps that are not timed."""
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-5, weight_decay=0.0, fused=True)
    vocabulary, device = options.shape.vocabulary, options.device
    ids, labels = torch.randint(vocabulary, (2, options.tokens), device=device).unbind()
    wait = torch.cuda.synchronize if device == "cuda" else lambda: None
    if device == "cuda":
        torch.cuda.reset_peak_memory_stats()
    times = []
    for _ in range(options.rounds + 2):
        wait()
        start = time.perf_counter()
        loss = one_step(model, optimizer, ids, labels, recompute)
        wait()
        times.append(time.perf_counter() - start)
    return sorted(times[2:])[options.rounds // 2], loss.item()


def build(options):
    if options.side == "peft":
        if importlib.util.find_spec("peft") is None:
            raise SystemExit("PEFT is not installed")
        return PeftModel(options.config, options), "as transformers chooses"
    dtype = torch.bfloat16
    step = Step(options.shape, options.tokens // options.length, options.length, options.rank, options.dropout,
                options.device, dtype)
    if options.shape.oss and options.side == "torch" and options.device == "cuda":
        flex.flex_attention = torch.compile(flex.flex_attention, dynamic=False)  # alone it would hold all scores
    return Model(options.shape, step, options.device, dtype, options.side == "compiled"), step.kernel


def attempt(options, recompute):
    """One row's numbers; None: out of memory. What failed is freed on return."""
    try:
        model, kernel = build(options)
        seconds, loss = measure(model, options, recompute)
    except RuntimeError as error:  # some libraries have words of their own for it
        if any(words in str(error) for words in ("out of memory", "ALLOC_FAILED")):
            return None
        raise
    trained = sum(part.numel() for part in model.parameters())
    on_card = options.device == "cuda"
    return {"seconds": seconds, "loss": loss, "attention": kernel, "trained": trained,
            "bytes": torch.cuda.max_memory_allocated() if on_card else 0,
            "reserved": torch.cuda.max_memory_reserved() if on_card else 0}


def run(options):
    row = {}
    ways = {"none": [False], "full": [True], "auto": [False, True]}[options.recompute]
    for recompute in ways:
        result = attempt(options, recompute)
        gc.collect()
        torch.cuda.empty_cache()
        row = {"recompute": "full" if recompute else "none", "status": "ran" if result else "out of memory"}
        if result:
            row |= result
            break
    row |= {"torch": torch.__version__}
    print(json.dumps(row))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("config")
    parser.add_argument("--side", choices=("torch", "compiled", "peft"), default="torch")
    parser.add_argument("--check", action="store_true")
    parser.add_argument("--recompute", choices=("none", "full", "auto"), default="auto")
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--dropout", type=float, default=0.0)
    for name, value in (("tokens", 16384), ("length", 512), ("rank", 16), ("rounds", 5)):
        parser.add_argument(f"--{name}", type=int, default=value)
    options = parser.parse_args()
    options.shape = read_shape(options.config)
    torch.manual_seed(1)
    if options.check:
        sys.exit(0 if check(options) else 1)
    run(options)


if __name__ == "__main__":
    main()
