"""The model of bench/model_speed.c in PyTorch: the same weights, the same LoRA pairs, the same loss, on the CPU in f32.

    model_torch.py DIR --form looped|grouped|padded [--tokens 2048] [--length 512] [--rank 16] [--rounds 3] [--threads 2]

Written as one would write it for speed in plain PyTorch: rows sorted by expert once a layer, fused attention, no copies
that autograd does not ask for, gradients set to None. The experts come in three forms:
    looped   one product after the other, expert by expert
    grouped  torch._grouped_mm, all experts in one call
    padded   every expert's rows padded to the fullest expert's, one batched product
Prints one line: the median step's seconds, processor seconds of a step over all threads, tokens a second, the losses,
and the peak of resident memory from after loading on.
"""
import argparse
import json
import os
import sys
import time

try:
    import torch
    import torch.nn.functional as F
except ImportError as error:
    print(f"this needs a Python with PyTorch: {error}", file=sys.stderr)
    sys.exit(77)

LORA_ALPHA = 32.0
ALPHA = BETA = GAMMA = 1e-3  # the method "paper"
ORTHO_EPSILON = 1e-8


# ---------------------------------------------------------------- reading


def read_tensors(path):
    """name -> f32 tensor, read one by one, so that loading leaves nothing behind but them."""
    types = {"BF16": torch.bfloat16, "F32": torch.float32}
    tensors = {}
    with open(path, "rb") as file:
        header_bytes = int.from_bytes(file.read(8), "little")
        header = json.loads(file.read(header_bytes))
        for name, entry in header.items():
            if name == "__metadata__":
                continue
            start, end = entry["data_offsets"]
            file.seek(8 + header_bytes + start)
            raw = torch.frombuffer(bytearray(file.read(end - start)), dtype=types[entry["dtype"]])
            tensors[name] = raw.view(entry["shape"]).to(torch.float32)
    return tensors


def lora_pair(shape_a, shape_b, generator):
    a = torch.empty(shape_a).uniform_(-1.0, 1.0, generator=generator) / shape_a[-1] ** 0.5
    return a.requires_grad_(), torch.zeros(shape_b).requires_grad_()


class Layer:
    def __init__(self, tensors, prefix, config, rank, generator):
        def take(name):
            return tensors.pop(f"{prefix}.{name}.weight")

        self.norm1, self.norm2 = take("input_layernorm"), take("post_attention_layernorm")
        self.q_norm, self.k_norm = take("self_attn.q_norm"), take("self_attn.k_norm")
        self.router = take("mlp.gate")
        self.maps = {name: take(f"self_attn.{name}_proj") for name in "qkvo"}
        self.pairs = {}
        for name, weight in {**self.maps, "router": self.router}.items():
            self.pairs[name] = lora_pair((rank, weight.shape[1]), (weight.shape[0], rank), generator)
        experts = config["num_experts"]
        self.experts = {}
        for name in ("gate", "up", "down"):
            stack = torch.stack([take(f"mlp.experts.{e}.{name}_proj") for e in range(experts)])  # [n,out,in]
            self.experts[name] = stack
            self.pairs[name] = lora_pair((experts, rank, stack.shape[2]), (experts, stack.shape[1], rank), generator)


# ---------------------------------------------------------------- the experts, three ways


def linear(x, weight, pair, scale):
    a, b = pair
    return F.linear(x, weight) + scale * F.linear(F.linear(x, a), b)


def experts_looped(rows, counts, layer, scale):
    outputs = []
    for e, x in enumerate(rows.split(counts.tolist())):
        def part(name, y, e=e):
            a, b = layer.pairs[name]
            return linear(y, layer.experts[name][e], (a[e], b[e]), scale)

        outputs.append(part("down", F.silu(part("gate", x)) * part("up", x)))
    return torch.cat(outputs)


def experts_grouped(rows, counts, layer, scale):
    ends = counts.cumsum(0).to(torch.int32)

    def part(name, y):
        a, b = layer.pairs[name]
        low = torch._grouped_mm(y, a.transpose(1, 2), offs=ends)
        return torch._grouped_mm(y, layer.experts[name].transpose(1, 2), offs=ends) + scale * torch._grouped_mm(
            low, b.transpose(1, 2), offs=ends)

    return part("down", F.silu(part("gate", rows)) * part("up", rows))


def experts_padded(rows, counts, layer, scale):
    experts, capacity = counts.shape[0], int(counts.max())
    starts = counts.cumsum(0) - counts
    owner = torch.repeat_interleave(torch.arange(experts), counts)
    place = owner * capacity + torch.arange(rows.shape[0]) - starts[owner]
    x = rows.new_zeros(experts * capacity, rows.shape[1]).index_copy(0, place, rows).view(experts, capacity, -1)

    def part(name, y):
        a, b = layer.pairs[name]
        low = torch.bmm(y, a.transpose(1, 2))
        return torch.baddbmm(torch.bmm(y, layer.experts[name].transpose(1, 2)), low, b.transpose(1, 2), alpha=scale)

    y = part("down", F.silu(part("gate", x)) * part("up", x))
    return y.view(experts * capacity, -1).index_select(0, place)


FORMS = {"looped": experts_looped, "grouped": experts_grouped, "padded": experts_padded}


# ---------------------------------------------------------------- the model


def first_scales(layers_terms):
    """Constants that start L_o (each layer) and L_v (all layers together) at the size of L_aux."""
    values = [[float(term.detach()) for term in terms] for terms in layers_terms]
    ortho = [aux / ortho for aux, ortho, _ in values]
    return ortho, sum(aux for aux, _, _ in values) / abs(sum(variance for _, _, variance in values))


class Model:
    def __init__(self, directory, rank, length):
        with open(os.path.join(directory, "config.json")) as file:
            self.config = json.load(file)
        tensors = read_tensors(os.path.join(directory, "model.safetensors"))
        generator = torch.Generator().manual_seed(1)
        self.embedding = tensors.pop("model.embed_tokens.weight")
        self.head = tensors.pop("lm_head.weight")
        self.norm = tensors.pop("model.norm.weight")
        self.layers = [Layer(tensors, f"model.layers.{i}", self.config, rank, generator)
                       for i in range(self.config["num_hidden_layers"])]
        self.scale = LORA_ALPHA / rank
        self.epsilon = self.config["rms_norm_eps"]
        width = self.config["head_dim"]
        frequency = self.config["rope_theta"] ** (-torch.arange(0, width, 2, dtype=torch.float64) / width)
        angle = torch.arange(length, dtype=torch.float64)[:, None] * frequency
        self.cosine = torch.cat([angle.cos()] * 2, dim=1).to(torch.float32)
        self.sine = torch.cat([angle.sin()] * 2, dim=1).to(torch.float32)
        self.scales = None

    def parameters(self):
        return [tensor for layer in self.layers for pair in layer.pairs.values() for tensor in pair]

    def rms(self, x, weight):
        return F.rms_norm(x, (x.shape[-1],), weight, self.epsilon)

    def rotate(self, x):
        half = x.shape[-1] // 2
        return x * self.cosine + torch.cat((-x[..., half:], x[..., :half]), dim=-1) * self.sine

    def attention(self, layer, x, sequences):
        heads = self.config["num_attention_heads"]

        def project(name):
            y = linear(x, layer.maps[name], layer.pairs[name], self.scale)
            return y.view(sequences, -1, heads, y.shape[1] // heads).transpose(1, 2)

        q = self.rotate(self.rms(project("q"), layer.q_norm))
        k = self.rotate(self.rms(project("k"), layer.k_norm))
        out = F.scaled_dot_product_attention(q, k, project("v"), is_causal=True)
        out = out.transpose(1, 2).reshape(x.shape[0], -1)
        return linear(out, layer.maps["o"], layer.pairs["o"], self.scale)

    def experts(self, layer, x, form):
        """The block's output, and its terms (L_aux, L_o, L_v)."""
        tokens = x.shape[0]
        probs = torch.softmax(linear(x, layer.router, layer.pairs["router"], self.scale), dim=-1)
        number = probs.shape[1]
        chosen_probs, chosen = probs.topk(self.config["num_experts_per_tok"], dim=-1)
        weight = chosen_probs / chosen_probs.sum(dim=-1, keepdim=True)
        flat = chosen.view(-1)
        order = flat.argsort(stable=True)
        counts = torch.bincount(flat, minlength=number)
        rows = FORMS[form](x[order // chosen.shape[1]], counts, layer, self.scale)
        inverse = torch.empty_like(order).scatter_(0, order, torch.arange(order.shape[0]))
        outputs = rows[inverse].view(tokens, chosen.shape[1], -1)  # [N,k,d]
        y = torch.bmm(weight[:, None, :], outputs)[:, 0]
        aux = (counts.to(probs.dtype) * (number / flat.shape[0]) * probs.mean(dim=0)).sum()
        gram = torch.bmm(outputs, outputs.transpose(1, 2))
        square = torch.diagonal(gram, dim1=1, dim2=2)
        pairs = gram.square() * (square / (square + ORTHO_EPSILON).square())[:, None, :]
        ortho = (pairs.sum(dim=(1, 2)) - torch.diagonal(pairs, dim1=1, dim2=2).sum(dim=1)).mean()
        dense = torch.zeros_like(probs).scatter(1, chosen, weight)
        return y, (aux, ortho, -dense.var(dim=0, correction=0).mean())

    def losses(self, ids, labels, sequences, form):
        """L_h and the objective's weighted sum."""
        h, layers_terms = F.embedding(ids, self.embedding), []
        for layer in self.layers:
            h = h + self.attention(layer, self.rms(h, layer.norm1), sequences)
            y, terms = self.experts(layer, self.rms(h, layer.norm2), form)
            h = h + y
            layers_terms.append(terms)
        logits = F.linear(self.rms(h, self.norm), self.head)
        task = F.cross_entropy(logits, labels, ignore_index=-1)
        if self.scales is None:
            self.scales = first_scales(layers_terms)
        ortho_scales, variance_scale = self.scales
        total = sum(ALPHA * aux + BETA * scale * ortho + GAMMA * variance_scale * variance
                    for (aux, ortho, variance), scale in zip(layers_terms, ortho_scales))
        return task, total


# ---------------------------------------------------------------- measuring


def peak_bytes():
    with open("/proc/self/status") as file:
        for line in file:
            if line.startswith("VmHWM:"):
                return int(line.split()[1]) * 1024
    return 0


def forget_peak():
    """From here on VmHWM counts anew: loading is not what is compared."""
    with open("/proc/self/clear_refs", "w") as file:
        file.write("5")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("directory")
    parser.add_argument("--form", choices=FORMS, default="looped")
    parser.add_argument("--ids", help="a file with the ids and labels, i32; without it the ids are drawn")
    for name, value in (("tokens", 2048), ("length", 512), ("rank", 16), ("rounds", 3), ("threads", 2)):
        parser.add_argument(f"--{name}", type=int, default=value)
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    model = Model(options.directory, options.rank, options.length)
    vocabulary = model.config["vocab_size"]
    if options.ids:
        with open(options.ids, "rb") as file:
            both = torch.frombuffer(bytearray(file.read()), dtype=torch.int32).view(2, -1).long()
        ids, labels = both[0], both[1]
    else:
        ids = torch.randint(vocabulary, (options.tokens,), generator=torch.Generator().manual_seed(2))
        labels = ids.roll(-1)
        labels[options.length - 1 :: options.length] = -1
    forget_peak()
    times = []
    for round_number in range(options.rounds + 1):  # the first warms up
        if round_number == 1:
            processor = time.process_time()
        start = time.perf_counter()
        for parameter in model.parameters():
            parameter.grad = None
        task, total = model.losses(ids, labels, options.tokens // options.length, options.form)
        (task + total).backward()
        times.append(time.perf_counter() - start)
    processor = (time.process_time() - processor) / options.rounds
    seconds = sorted(times[1:])[options.rounds // 2]
    print(f"seconds {seconds:.4f} processor {processor:.4f} tokens/s {options.tokens / seconds:.1f} task {float(task.detach()):.6f} "
          f"terms {float(total.detach()):.6f} peak {peak_bytes()}")


if __name__ == "__main__":
    main()
