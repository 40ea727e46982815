"""For trl_parity.py and attach_parity.py: tiny models, and a training loss with the terms written out, for autograd alone.

Formulas is to a plain transformers model what metier.attach is, without any of its code: the experts are einsums over each
token's own matrices, the terms are three formulas (docs/objective.md: aux=batch, form=pairwise, axis=expert), and all
gradients are autograd's.
"""
import torch
import transformers
from transformers.integrations.moe import ALL_EXPERTS_FUNCTIONS

SETTINGS = {"method": "paper", "alpha": 0.05, "beta": 0.5, "gamma": 2.0, "scale": "none"}
EPSILON = 1e-8
VOCABULARY = 48

COMMON = {"vocab_size": VOCABULARY, "hidden_size": 24, "num_attention_heads": 2, "num_key_value_heads": 2,
          "num_hidden_layers": 2, "max_position_embeddings": 128, "initializer_range": 0.2, "pad_token_id": 0, "bos_token_id": 1,
          "eos_token_id": 2, "attn_implementation": "eager", "experts_implementation": "eager"}
LATENT = {"n_routed_experts": 6, "n_shared_experts": 1, "num_experts_per_tok": 2, "moe_intermediate_size": 16,
          "intermediate_size": 32, "first_k_dense_replace": 0, "kv_lora_rank": 12, "q_lora_rank": None, "qk_nope_head_dim": 8,
          "qk_rope_head_dim": 8, "v_head_dim": 8, "num_hidden_layers": 3}
MODELS = {
    "qwen3_moe": {"num_experts": 6, "num_experts_per_tok": 2, "moe_intermediate_size": 16, "intermediate_size": 32,
                  "head_dim": 12, "norm_topk_prob": True},
    "mixtral": {"num_local_experts": 6, "num_experts_per_tok": 2, "intermediate_size": 32},
    "olmoe": {"num_experts": 6, "num_experts_per_tok": 3, "intermediate_size": 32},
    "deepseek_v2": {**LATENT, "n_group": 1, "topk_group": 1, "topk_method": "greedy", "routed_scaling_factor": 1.0},
    "deepseek_v3": {**LATENT, "n_group": 1, "topk_group": 1, "routed_scaling_factor": 1.5, "norm_topk_prob": True},
}


def make_model(name, seed=1):
    torch.manual_seed(seed)
    config = transformers.AutoConfig.for_model(name, **{**COMMON, **MODELS[name]})
    return transformers.AutoModelForCausalLM.from_config(config, experts_implementation="eager", attn_implementation="eager")


def make_batch(rows=3, length=11, seed=5):
    """Rows of unlike length, padded on the right."""
    generator = torch.Generator().manual_seed(seed)
    ids = torch.randint(3, VOCABULARY, (rows, length), generator=generator)
    mask = torch.ones_like(ids)
    for row in range(1, rows):
        mask[row, length - 2 * row:] = 0
    ids = ids * mask
    return {"input_ids": ids, "attention_mask": mask, "labels": ids.masked_fill(mask == 0, -100)}


def aux_term(logits, slots, mask, sigmoid):
    """Σ_j f_j P_j, f_j = n·c_j/(N·k), P_j the mean score; sigmoid scores are divided by their sum."""
    scores = torch.sigmoid(logits) if sigmoid else torch.softmax(logits, dim=-1)
    greedy = scores.detach().topk(slots, dim=-1).indices[mask]
    scores = scores / scores.sum(dim=-1, keepdim=True) if sigmoid else scores
    tokens, experts = int(mask.sum()), logits.shape[1]
    counts = torch.bincount(greedy.reshape(-1), minlength=experts).to(scores.dtype)
    return (experts * counts / (tokens * slots) * scores[mask].mean(dim=0)).sum()


def ortho_term(outputs, mask):
    """The mean over tokens of Σ_{a≠b} |projection of x_a on x_b|²."""
    gram = torch.einsum("tad,tbd->tab", outputs[mask], outputs[mask])
    lengths = torch.diagonal(gram, dim1=1, dim2=2)
    share = lengths / (lengths + EPSILON).pow(2)
    parts = gram.pow(2) * share[:, None, :]
    return (parts.sum(dim=(1, 2)) - torch.diagonal(parts, dim1=1, dim2=2).sum(dim=1)).mean()


def variance_term(chosen, weights, experts, mask):
    """−1/n Σ_j var_i(s_ij), s zero where an expert was not chosen."""
    scores = torch.zeros(weights.shape[0], experts, dtype=weights.dtype).scatter(1, chosen, weights)
    return -scores[mask].var(dim=0, correction=0).mean()


class Formulas:
    """The total of every forward with gradients, in `totals`; its terms, means over layers, in `terms`."""

    def __init__(self, model, alpha=SETTINGS["alpha"], beta=SETTINGS["beta"], gamma=SETTINGS["gamma"]):
        self.coefficients = {"aux": alpha, "o": beta, "v": gamma}
        self.totals, self.terms, self.loads, self.seen, self.logits, self.mask = [], {}, [], [], {}, None
        self.sigmoid = model.config.model_type == "deepseek_v3"
        inner = next(module for module in model.modules() if hasattr(module, "lm_head"))
        ALL_EXPERTS_FUNCTIONS.register("formulas", self.experts)
        model.config._experts_implementation = "formulas"
        for name, block in inner.named_modules():
            experts = dict(block.named_children()).get("experts")
            if experts is None:
                continue
            while hasattr(experts, "base_layer"):
                experts = experts.base_layer
            router = block.gate if hasattr(block, "gate") else block.router
            while hasattr(router, "base_layer"):
                router = router.base_layer
            router.register_forward_hook(lambda _, __, output, key=experts: self.note(key, output))
        inner.register_forward_pre_hook(self.begin, with_kwargs=True)
        inner.register_forward_hook(self.end, with_kwargs=True)

    def begin(self, _, __, named):
        self.seen, self.logits, self.mask = [], {}, named.get("attention_mask")

    def note(self, key, output):
        logits = output[0] if isinstance(output, tuple) else output
        self.logits[key] = logits.reshape(-1, logits.shape[-1])

    def experts(self, module, hidden, chosen, weights):
        """y = Σ_s weight · output, every token with its own experts' matrices."""
        inner = torch.einsum("tki,tkoi->tko", hidden[:, None].expand(-1, chosen.shape[1], -1), module.gate_up_proj[chosen])
        gate, up = inner.chunk(2, dim=-1)
        outputs = torch.einsum("tki,tkoi->tko", module.act_fn(gate) * up, module.down_proj[chosen])
        self.seen.append((self.logits.get(module), chosen, weights, outputs))
        return (outputs * weights[..., None]).sum(dim=1).to(hidden.dtype)

    def end(self, module, _, __, output):
        if not (module.training and torch.is_grad_enabled()):
            return
        total, self.terms, self.loads = 0.0, dict.fromkeys(self.coefficients, 0.0), []
        for logits, chosen, weights, outputs in self.seen:
            tokens = torch.ones(len(chosen), dtype=torch.bool) if self.mask is None else self.mask.reshape(-1) != 0
            parts = {"aux": aux_term(logits.float(), chosen.shape[1], tokens, self.sigmoid), "o": ortho_term(outputs, tokens),
                     "v": variance_term(chosen, weights, logits.shape[1], tokens)}
            self.loads.append(torch.bincount(chosen[tokens].reshape(-1), minlength=logits.shape[1]).double())
            for name, value in parts.items():
                total = total + self.coefficients[name] * value
                self.terms[name] += float(value.detach()) / len(self.seen)
        self.totals.append(total)

    def take(self):
        """The mean of the totals since the last call."""
        totals, self.totals = self.totals, []
        return torch.stack(totals).mean()


def gradients_of(model):
    return {name: parameter.grad.detach().clone() for name, parameter in model.named_parameters() if parameter.grad is not None}


def worst_gradient(got, want):
    """(the largest difference of a parameter's gradient relative to its size, missing names)."""
    size = max(float(gradient.norm()) for gradient in want.values())
    return max(float((got[name] - gradient).norm()) / max(float(gradient.norm()), 1e-4 * size) if name in got else 1.0
               for name, gradient in want.items())
