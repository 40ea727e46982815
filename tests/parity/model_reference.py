"""Models in PyTorch, run on the tensors of a checkpoint by their names on disk, and differentiated by them.

transformers keeps experts fused in memory and renames some modules; here every tensor has the name it has in a file,
and what transformers wants is put together from those, so that autograd's gradients come out under the same names.
That also makes LoRA plain: a tensor may be W + s·B·A.
"""
import json
import os
import re
from dataclasses import dataclass, field

import torch
import transformers
from safetensors.torch import save_file
from torch.nn import functional as F

import objective_reference as objective
from model_deepseek import DeepseekMoE

NEW_NAMES = {"mixtral", "phimoe"}  # "block_sparse_moe" on disk, "mlp" in memory; w1, w3, w2 on disk
FUSED = re.compile(r"(.*)\.experts\.(gate_up_proj|down_proj)(_bias)?$")


def owner_of_correction(router):
    return getattr(router, "moe_statics", router)  # ERNIE's module of its own


def correction_of(router):
    return getattr(owner_of_correction(router), "e_score_correction_bias", None)


def set_correction(router, value):
    owner, name = owner_of_correction(router), "e_score_correction_bias"
    (owner._parameters if name in owner._parameters else owner._buffers)[name] = value


@dataclass
class Captured:
    """One MoE layer's router, all sequences one after the other."""
    inputs: torch.Tensor  # [T,d]
    logits: torch.Tensor  # [T,n]
    weights: torch.Tensor  # [T,k]
    experts: torch.Tensor  # [T,k]


@dataclass
class Run:
    logits: torch.Tensor = None  # [T,V]
    hidden: list = field(default_factory=list)  # of [T,d], leaving each layer
    routers: dict = field(default_factory=dict)  # layer -> Captured
    training: bool = False  # noise on the router's rows, for terms that have it
    pools: dict = field(default_factory=dict)  # layer -> of [n], True for the experts of each sequence's pool


class Model:
    def __init__(self, config, folder, read_config=None):
        """Writes config.json to the folder, as published, and builds the model from it, or from read_config."""
        self.config, self.folder, self.kind = config, folder, config["model_type"]
        if self.kind == "deepseek":
            self.model = DeepseekMoE(config)
        else:
            self.write_config(read_config or config)
            parsed = transformers.AutoConfig.from_pretrained(folder)
            self.model = transformers.AutoModelForCausalLM.from_config(
                parsed, attn_implementation="eager", experts_implementation="eager", dtype=torch.float32)
        self.write_config(config)
        self.model.eval()
        self.tied = config["tie_word_embeddings"]
        self.turned = self.kind == "gpt_oss"  # experts' matrices in memory: transposed, gate's and up's columns in turns
        self.shapes = {name: list(tensor.shape) for name, tensor in self.split(self.model.state_dict()).items()}
        self.run_parts, self.unserved, self.pool_settings, self.sequence = None, {}, None, 0
        self.watch()

    def write_config(self, config):
        with open(os.path.join(self.folder, "config.json"), "w", encoding="utf-8") as file:
            json.dump(config, file, indent=1)

    # ------------------------------------------------------------ names

    def disk_name(self, name):
        if self.kind in NEW_NAMES:
            name = name.replace(".mlp.", ".block_sparse_moe.").replace(".router.", ".gate.")
        return name.replace(".gate.moe_statics.", ".moe_statics.")

    def expert_names(self):
        return ("w1", "w3", "w2") if self.kind in NEW_NAMES else ("gate_proj", "up_proj", "down_proj")

    def expert_name(self, layer, expert, which, tensor="weight"):
        block = "block_sparse_moe" if self.kind in NEW_NAMES else "mlp"
        return f"model.layers.{layer}.{block}.experts.{expert}.{self.expert_names()[which]}.{tensor}"

    def router_name(self, layer, tensor="weight"):
        if self.kind == "gpt_oss":
            return f"model.layers.{layer}.mlp.router.{tensor}"
        block = "block_sparse_moe" if self.kind in NEW_NAMES else "mlp"
        return f"model.layers.{layer}.{block}.gate.{tensor}"

    def correction_name(self, layer):
        if self.kind == "ernie4_5_moe":
            return f"model.layers.{layer}.mlp.moe_statics.e_score_correction_bias"
        return self.router_name(layer, "e_score_correction_bias")

    def correction(self, tensors, layer):
        bias = tensors.get(self.correction_name(layer))
        return None if bias is None else bias.flatten()  # ERNIE keeps it as [1,n]

    def split(self, memory):
        """From names and tensors in memory to those on disk."""
        disk = {}
        gate, up, down = self.expert_names()
        for name, tensor in memory.items():
            fused = FUSED.match(name)
            if self.tied and name == "lm_head.weight":
                continue
            if fused is None:
                disk[self.disk_name(name)] = tensor
                continue
            block = self.disk_name(fused[1] + ".experts.")
            ending = "bias" if fused[3] else "weight"
            for number, matrix in enumerate(tensor):
                matrix = matrix.T if self.turned and ending == "weight" else matrix
                if fused[2] == "down_proj":
                    disk[f"{block}{number}.{down}.{ending}"] = matrix
                    continue
                halves = (matrix[0::2], matrix[1::2]) if self.turned else matrix.chunk(2)
                disk[f"{block}{number}.{gate}.{ending}"], disk[f"{block}{number}.{up}.{ending}"] = halves
        return disk

    def join(self, disk):
        """From tensors on disk to those in memory, differentiably."""
        memory = {}
        gate, up, down = self.expert_names()
        for name in self.model.state_dict():
            fused = FUSED.match(name)
            if self.tied and name == "lm_head.weight":
                memory[name] = disk["model.embed_tokens.weight"]
            elif fused is None:
                memory[name] = disk[self.disk_name(name)]
            else:
                block, ending = self.disk_name(fused[1] + ".experts."), "bias" if fused[3] else "weight"
                count = self.model.get_parameter(name).shape[0]
                parts = (down,) if fused[2] == "down_proj" else (gate, up)
                memory[name] = torch.stack([self.fuse([disk[f"{block}{number}.{part}.{ending}"] for part in parts])
                                            for number in range(count)])
        return memory

    def fuse(self, parts):
        """One expert's matrices, or biases, as they lie together in memory."""
        if not self.turned:
            return torch.cat(parts)
        together = torch.stack(parts, dim=1).flatten(0, 1)
        return together.T if together.dim() == 2 else together

    # ------------------------------------------------------------ tensors

    def random_tensors(self, generator, dtype=torch.float32):
        """Weights that keep activations near 1, routers decided, and nothing at its initial value."""
        tensors = {}
        for name, shape in self.shapes.items():
            value = torch.randn(shape, generator=generator)
            if name.endswith("e_score_correction_bias"):
                value = 0.15 * value
            elif name.endswith("norm.weight"):
                value = 1.0 + 0.2 * value
            elif len(shape) == 1:
                value = 0.2 * value
            elif name.endswith(("gate.weight", "router.weight")):
                value = 2.0 * value / shape[1] ** 0.5
            elif not name.startswith("model.embed"):
                value = 1.2 * value / shape[1] ** 0.5
            tensors[name] = value.to(dtype)
        return tensors

    def write(self, tensors, shards=1):
        """The checkpoint as published ones are: names on disk, one file or some with an index."""
        names = list(tensors)
        if shards == 1:
            save_file(tensors, os.path.join(self.folder, "model.safetensors"), metadata={"format": "pt"})
            return
        places = {}
        for number in range(shards):
            file = f"model-{number + 1:05d}-of-{shards:05d}.safetensors"
            part = {name: tensors[name] for name in names[number::shards]}
            save_file(part, os.path.join(self.folder, file), metadata={"format": "pt"})
            places.update({name: file for name in part})
        size = sum(tensor.numel() * tensor.element_size() for tensor in tensors.values())
        with open(os.path.join(self.folder, "model.safetensors.index.json"), "w", encoding="utf-8") as file:
            json.dump({"metadata": {"total_size": size}, "weight_map": places}, file)

    def save_pretrained(self, tensors):
        """The checkpoint as transformers itself writes it, config.json included."""
        self.model.load_state_dict(self.join(tensors))
        self.model.save_pretrained(self.folder)

    # ------------------------------------------------------------ running

    def watch(self):
        for number, layer in enumerate(self.model.model.layers):
            layer.register_forward_hook(self.keep_hidden(number))
            router = getattr(layer.mlp, "gate", None) or getattr(layer.mlp, "router", None)
            if router is not None:
                router.register_forward_hook(self.keep_router(number))
                self.confine(number, router)
                layer.mlp.experts.register_forward_pre_hook(self.drop_slots(number))

    def keep_hidden(self, number):
        def hook(_module, _inputs, output):
            hidden = output[0] if isinstance(output, tuple) else output
            self.run_parts["hidden"].setdefault(number, []).append(hidden.reshape(-1, hidden.shape[-1]))
        return hook

    def keep_router(self, number):
        def hook(_module, inputs, output):
            hidden = inputs[0].reshape(-1, inputs[0].shape[-1])
            self.run_parts["routers"].setdefault(number, []).append((hidden, *output))
        return hook

    def confine(self, number, router):
        """EMO, on transformers' own router: logits outside the pool of the sequence that runs become -inf, and so does
        the bias that selects, because a score of 0 with a bias could be chosen."""
        plain, linear = router.forward, F.linear

        def within_pool(x, weight, bias=None):
            logits = linear(x, weight, bias)
            kind, experts, settings = self.router(), logits.shape[-1], self.pool_settings
            size = objective.pool_sizes(1, experts, kind.slots, settings["seed"], pool_stream(number), self.sequence)[0]
            scores = objective.scores_of(logits.detach().reshape(-1, experts).double(), kind)
            correction = correction_of(router)
            pool = objective.pool_of(scores, None if correction is None else correction.flatten(), size)
            self.run_parts["pools"].setdefault(number, []).append(pool)
            if correction is not None:
                set_correction(router, correction.masked_fill(~pool, -torch.inf))
            return logits.masked_fill(~pool, -torch.inf)

        def forward(*inputs, **named):
            if self.pool_settings is None:
                return plain(*inputs, **named)
            kept = correction_of(router)
            F.linear = within_pool
            try:
                return plain(*inputs, **named)
            finally:
                F.linear = linear
                if kept is not None:
                    set_correction(router, kept)

        router.forward = forward

    def drop_slots(self, number):
        def hook(_module, inputs):
            if number not in self.unserved:
                return None
            hidden, experts, weights = inputs
            dropped = self.unserved[number].gather(1, experts)
            return hidden, experts, weights.masked_fill(dropped, 0.0)
        return hook

    def run(self, tensors, sequences, unserved=None, pools=None):
        """Sequences one at a time; unserved: layer -> [T,n], True where a choice is not to be served; pools: the settings
        of a method whose sequences choose from pools."""
        self.run_parts, self.unserved = {"hidden": {}, "routers": {}, "logits": [], "pools": {}}, unserved or {}
        self.pool_settings = pools
        memory = self.join(tensors)
        for self.sequence, sequence in enumerate(sequences):
            ids = torch.tensor(sequence)
            if self.kind == "deepseek":
                logits = torch.func.functional_call(self.model, memory, (ids,))
            else:
                kwargs = {"input_ids": ids[None], "use_cache": False}
                logits = torch.func.functional_call(self.model, memory, (), kwargs).logits[0]
            self.run_parts["logits"].append(logits)
        parts, run = self.run_parts, Run(pools=self.run_parts["pools"])
        run.logits = torch.cat(parts["logits"])
        run.hidden = [torch.cat(parts["hidden"][number]) for number in sorted(parts["hidden"])]
        for number in sorted(parts["routers"]):
            inputs, logits, weights, experts = (torch.cat(pieces) for pieces in zip(*parts["routers"][number]))
            run.routers[number] = Captured(inputs, logits, weights, experts)
        return run

    # ------------------------------------------------------------ the objective

    def router(self):
        config = self.config
        if self.kind == "phimoe":
            return objective.Router("sparsemixer", 2, jitter=config["router_jitter_noise"])
        router = objective.Router("softmax", config.get("moe_k") or config["num_experts_per_tok"])
        router.normalise = config.get("norm_topk_prob", self.kind in ("mixtral", "ernie4_5_moe", "gpt_oss"))
        router.scale = config.get("routed_scaling_factor", 1.0)
        if self.kind in ("deepseek_v3", "glm4_moe_lite", "glm4_moe", "dots1"):
            router.kind, router.group_rule = "sigmoid", "top2-sum"
        if (router.kind == "sigmoid" or config.get("topk_method", "greedy") != "greedy") and \
                config["topk_group"] < config["n_group"]:
            router.groups, router.groups_kept = config["n_group"], config["topk_group"]
        return router

    def routing(self, tensors, run, layer, settings):
        bias = self.correction(tensors, layer)
        logits = run.routers[layer].logits.double()
        bias = None if bias is None else bias.double()
        return objective.route(logits, bias, torch.ones(logits.shape[0], dtype=torch.bool), self.router(), settings)

    def project(self, tensors, layer, expert, which, x):
        return F.linear(x, tensors[self.expert_name(layer, expert, which)],
                        tensors.get(self.expert_name(layer, expert, which, "bias")))

    def inner(self, tensors, layer, expert, x):
        """What is inside an expert, between its two steps."""
        gate, up = (self.project(tensors, layer, expert, which, x) for which in range(2))
        if self.kind != "gpt_oss":
            return F.silu(gate) * up
        limit, alpha = self.config["swiglu_limit"], self.config.get("swiglu_alpha", 1.702)
        gate, up = gate.clamp(max=limit), up.clamp(-limit, limit)
        return gate * torch.sigmoid(alpha * gate) * (up + 1.0)

    def expert_outputs(self, tensors, layer, inputs, experts):
        """[T,k,d]: what each chosen expert says of its token, before its weight."""
        outputs = torch.zeros(*experts.shape, inputs.shape[1])
        for number in experts.unique().tolist():
            token, slot = torch.where(experts == number)
            y = self.project(tensors, layer, number, 2, self.inner(tensors, layer, number, inputs[token]))
            outputs = outputs.index_put((token, slot), y)
        return outputs

    def activations(self, tensors, layer, inputs, experts):
        """[T,k,I]: what is inside each chosen expert, between its two steps."""
        width = tensors[self.expert_name(layer, 0, 0)].shape[0]
        inner = torch.zeros(*experts.shape, width)
        for number in experts.unique().tolist():
            token, slot = torch.where(experts == number)
            inner = inner.index_put((token, slot), self.inner(tensors, layer, number, inputs[token]))
        return inner

    def model_losses(self, tensors, run, layer, before, settings):
        """The terms that look at more than a layer's scores, outputs and router's rows."""
        losses, routing = {}, self.routing(tensors, run, layer, settings)
        if settings["lambda_erc"] != 0.0:
            rows = tensors[self.router_name(layer)].double()
            gates = torch.stack([tensors[self.expert_name(layer, number, 0)] for number in range(rows.shape[0])])
            if run.training:
                rows = rows * objective.proxy_noise(rows.detach(), settings["erc_noise"], settings["seed"],
                                                    proxy_stream(layer))
            losses["erc"] = objective.erc_loss(rows, gates.double(), settings["erc_alpha"])
        if settings["lambda_sp"] != 0.0:
            inner = self.activations(tensors, layer, run.routers[layer].inputs, routing.expert)
            losses["sp"] = objective.sp_loss(inner.double(), settings["sp"] == "squared")
        if settings["lambda_cp"] != 0.0:
            other = None if before is None else self.routing(tensors, run, before, settings)
            losses["cp"] = objective.cp_loss(routing, other, self.router().kind)
        return losses

    def objective_losses(self, tensors, run, sequences, settings):
        """[layers] of (term -> loss), and of what L_o and L_v are scaled to."""
        number = torch.cat([torch.full((len(ids),), i) for i, ids in enumerate(sequences)])
        losses, scales, before = [], [], None
        for layer, captured in run.routers.items():
            chosen = self.routing(tensors, run, layer, {**settings, "capacity": 0.0}).expert
            weight = tensors[self.router_name(layer)].double()
            outputs = self.expert_outputs(tensors, layer, captured.inputs, chosen).double()
            inputs = objective.Inputs(captured.logits, outputs, None, number, weight,
                                      self.correction(tensors, layer))
            leaves = {"logits": captured.logits.double(), "expert_outputs": outputs, "router_weight": weight}
            parts, _, aux = objective.losses_of(inputs, leaves, self.router(), settings)
            parts.update(self.model_losses(tensors, run, layer, before, settings))
            before = layer
            losses.append(parts)
            scales.append(aux)
        return losses, scales

    def term_weights(self, term, losses, scales, settings, tensors, first_layer):
        """A term's weight in each layer, on the first batch: a constant of the gradient."""
        values = [float(parts[term].detach()) for parts in losses]
        coefficient, layers = float(settings[objective.COEFFICIENT[term]]), len(losses)
        if term not in ("o", "v") or settings["scale"] == "none":
            return [coefficient] * layers
        if settings["scale"] == "once-pow10":
            value = abs(values[0])
            if term == "o":
                weight = tensors[self.router_name(first_layer)].detach().double()
                value = objective.router_rows_span(weight, self.router().slots)
            return [objective.power_of_ten(coefficient, value)] * layers
        if term == "o" and settings["form"] != "cosine":
            return [coefficient * aux / abs(value) for aux, value in zip(scales, values)]
        return [coefficient * sum(scales) / abs(sum(values))] * layers

    def objective(self, tensors, run, sequences, settings):
        """(total, term -> value summed over layers, term -> weight per layer)."""
        losses, scales = self.objective_losses(tensors, run, sequences, settings)
        total, values, weights = torch.zeros((), dtype=torch.float64), {}, {}
        first_layer = next(iter(run.routers))
        for term in losses[0]:
            weights[term] = self.term_weights(term, losses, scales, settings, tensors, first_layer)
            values[term] = sum(float(parts[term].detach()) for parts in losses)
            for weight, parts in zip(weights[term], losses):
                total = total + weight * parts[term]
        return total, values, weights


def scramble(value):
    """Stafford's thirteenth variant of the murmur finaliser, as src/model/pass.c has it."""
    full = 2**64 - 1
    value = (value ^ value >> 30) * 0xBF58476D1CE4E5B9 & full
    value = (value ^ value >> 27) * 0x94D049BB133111EB & full
    return value ^ value >> 31


def layer_stream(purpose, layer, step):
    golden, full = 0x9E3779B97F4A7C15, 2**64 - 1
    own = scramble((purpose << 40) + layer + golden & full)
    return scramble(own + scramble(step + golden & full) & full)


def proxy_stream(layer, step=0):
    """The stream of random numbers for the router's rows of a layer."""
    return layer_stream(4, layer, step)


def pool_stream(layer, step=0):
    """The stream of random numbers for the sizes of sequences' pools in a layer."""
    return layer_stream(5, layer, step)


def cross_entropy(logits, sequences):
    """Mean over every token that has a next one in its sequence."""
    labels = torch.cat([torch.tensor([*ids[1:], -100]) for ids in sequences])
    return F.cross_entropy(logits, labels, ignore_index=-100)
