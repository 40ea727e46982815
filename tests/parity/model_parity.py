#!/usr/bin/env python3
"""Compares `metier forward` with transformers (deepseek: with a model of our own, model_deepseek.py) on random models.

For every architecture and variant (model_configs.py): logits, hidden states, routing; gradients of every tensor;
LoRA's gradients; and with every method of the objective. Checkpoints are written with the names published ones have;
the first variant's by transformers itself. One checkpoint of each architecture is in bf16, its reference upcast from
the same values.

Usage: model_parity.py [--program build/release/bin/metier] [--seed 1] [--rounds 1] [--only TEXT] [--verbose]
Needs PyTorch, transformers >= 5.15, peft and safetensors. Both sides compute in single precision. Logits and hidden
states are compared relative to the reference's root mean square; a gradient by the norm of the difference over the
norm of the reference's, which counts as no smaller than 1e-4 of the norm of all gradients together divided by the
square root of their number: below that it is rounding. 1e-4 is the limit throughout. Experts must be the same for
every token.

One exception, with a column of its own: L_o in the form "span" magnifies rounding where vectors are nearly dependent.
There the reference is differentiated a second time with every weight changed by about its last bit, and what that
changes in a gradient, threefold, is the limit where it is more than 1e-4: no program in single precision is closer.
"""
import argparse
import os
import subprocess
import sys
import tempfile

try:
    import numpy
    import torch
    import transformers
    from safetensors.torch import load_file
except ImportError as error:
    print(f"model_parity: needs a Python with torch, transformers and safetensors: {error}", file=sys.stderr)
    sys.exit(77)

import model_configs as configs
import objective_reference as objective
from model_reference import Model, cross_entropy

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
LIMIT = 1e-4
LORA_ALPHA, LORA_RANK = 6.0, 4
METHOD_MODELS = (("deepseek", 0), ("deepseek_v2", 1), ("deepseek_v3", 1), ("mixtral", 1), ("phimoe", 1), ("olmoe", 1),
                 ("qwen3_moe", 1), ("glm4_moe_lite", 1), ("qwen2_moe", 1), ("glm4_moe", 1), ("dots1", 1),
                 ("ernie4_5_moe", 1), ("gpt_oss", 1))


def shown(values):
    return f"{max(values):9.1e}" if values else "        -"


class Program:
    def __init__(self, path, folder):
        self.path, self.folder = path, folder

    def forward(self, model, sequences, *options):
        ids, out = os.path.join(self.folder, "ids.txt"), os.path.join(self.folder, "out.safetensors")
        with open(ids, "w", encoding="utf-8") as file:
            file.writelines(",".join(map(str, sequence)) + "\n" for sequence in sequences)
        command = [self.path, "forward", model.folder, "--ids-file", ids, "--out", out, "--threads", "1", *options]
        result = subprocess.run(command, capture_output=True, text=True, check=False)
        if result.returncode != 0:
            raise RuntimeError(f"{' '.join(command)}: {result.stderr.strip()}")
        return load_file(out)


class Table:
    """The worst error of each kind, per architecture."""
    KINDS = ("logits", "hidden", "weights", "loss", "full", "lora", "methods", "span")

    def __init__(self, verbose):
        self.rows, self.failures, self.cases, self.verbose = {}, [], 0, verbose

    def add(self, kind, case, what, error, limit=LIMIT):
        self.rows.setdefault(case.split()[0], {}).setdefault(kind, []).append(error)
        if not error <= limit:
            self.failures.append(f"{case}: {what}: {error:.2e}")
            print(f"FAILED {self.failures[-1]}", flush=True)

    def fail(self, case, what):
        self.failures.append(f"{case}: {what}")
        print(f"FAILED {self.failures[-1]}", flush=True)

    def done(self, case):
        self.cases += 1
        if self.verbose:
            print(f"done {case}", flush=True)

    def show(self):
        print(f"{'':12}" + "".join(f"{kind:>10}" for kind in self.KINDS))
        for name, row in self.rows.items():
            print(f"{name:12}" + "".join(" " + shown(row.get(kind, [])) for kind in self.KINDS))
        print(f"{self.cases} cases, {len(self.failures)} failures")


def relative_to_rms(got, want):
    got, want = got.detach(), want.detach()
    return float((got - want).abs().max() / want.pow(2).mean().sqrt())


def compare_gradients(table, kind, case, got, want, shaken=None):
    """got, want: name -> gradient; shaken: the same as want, from weights a last bit away."""
    if set(got) != set(want):
        table.fail(case, f"tensors differ: {sorted(set(got) ^ set(want))[:4]}")
    common = [name for name in want if name in got]
    total = sum(float(want[name].double().pow(2).sum()) for name in common) ** 0.5
    floor = 1e-4 * total / len(common) ** 0.5
    for name in common:
        size = max(float(want[name].double().norm()), floor)
        limit = LIMIT
        if shaken is not None:
            limit = max(LIMIT, 3.0 * float((shaken[name].double() - want[name].double()).norm()) / size)
        table.add(kind, case, name, float((got[name].double() - want[name].double()).norm()) / size, limit)


def margin(scores, slots):
    """How far the last chosen score is from the first left out, for each token."""
    ordered = scores.sort(dim=-1, descending=True).values
    return ordered[:, slots - 1] - ordered[:, slots]


def compare_routing(table, case, got, layer, captured):
    experts, order = got[f"experts.{layer}"].long().sort(dim=-1)
    want, want_order = captured.experts.sort(dim=-1)
    differing = (experts != want).any(dim=-1)
    if differing.any():
        near = float(margin(captured.logits, want.shape[1])[differing].max())
        table.fail(case, f"layer {layer}: {int(differing.sum())} tokens choose otherwise, logits {near:.1e} apart")
        return
    weights = got[f"weights.{layer}"].gather(1, order)
    table.add("weights", case, f"weights.{layer}", relative_to_rms(weights, captured.weights.gather(1, want_order)))
    table.add("weights", case, f"router_logits.{layer}",
              relative_to_rms(got[f"router_logits.{layer}"], captured.logits))


def compare_forward(table, case, got, run):
    table.add("logits", case, "logits", relative_to_rms(got["logits"], run.logits))
    for layer, hidden in enumerate(run.hidden):
        table.add("hidden", case, f"hidden.{layer}", relative_to_rms(got[f"hidden.{layer}"], hidden))
    for layer, captured in run.routers.items():
        compare_routing(table, case, got, layer, captured)


def gradients_of(total, leaves):
    values = torch.autograd.grad(total, list(leaves.values()), allow_unused=True)
    return {name: torch.zeros_like(leaf) if value is None else value
            for (name, leaf), value in zip(leaves.items(), values)}


def given_gradients(got):
    return {name[len("grad."):]: value for name, value in got.items() if name.startswith("grad.")}


# ---------------------------------------------------------------- full training


def leaves_of(tensors):
    """Every tensor that can learn, as a leaf; the correction bias cannot."""
    return {name: value.float().clone().requires_grad_(not name.endswith("e_score_correction_bias"))
            for name, value in tensors.items()}


def check_full(table, case, program, model, tensors, sequences):
    leaves = leaves_of(tensors)
    run = model.run(leaves, sequences)
    loss = cross_entropy(run.logits, sequences)
    got = program.forward(model, sequences, "--grads", "--train", "full")
    compare_forward(table, case, got, run)
    table.add("loss", case, "loss", abs(float(got["loss"]) - float(loss.detach())) / abs(float(loss.detach())))
    learning = {name: leaf for name, leaf in leaves.items() if leaf.requires_grad}
    compare_gradients(table, "full", case, given_gradients(got), gradients_of(loss, learning))
    table.done(case)


# ---------------------------------------------------------------- LoRA


def lora_leaves(got):
    """The pairs the program drew: module -> [A, B]."""
    pairs = {}
    for name, value in got.items():
        if not name.startswith("param."):
            continue
        module, _, which = name[len("param.base_model.model."):-len(".weight")].rpartition(".lora_")
        pairs.setdefault(module, {})[which] = value.clone().requires_grad_(True)
    return pairs


def adapted(tensors, pairs):
    effective = {name: value.float() for name, value in tensors.items()}
    for module, pair in pairs.items():
        name = f"{module}.weight"
        effective[name] = effective[name] + LORA_ALPHA / LORA_RANK * pair["B"] @ pair["A"]
    return effective


def lora_options(targets):
    return ("--grads", "--train", "lora", "--targets", targets, "--rank", str(LORA_RANK), "--alpha", str(LORA_ALPHA),
            "--lora-b-std", "0.1", "--seed", "5")


def pair_gradients(total, pairs):
    leaves = {f"base_model.model.{module}.lora_{which}.weight": leaf
              for module, pair in pairs.items() for which, leaf in pair.items()}
    return gradients_of(total, leaves)


def linear_maps(model):
    return {name[:-len(".weight")] for name, shape in model.shapes.items()
            if len(shape) == 2 and not name.startswith("model.embed") and not name.endswith("correction_bias")}


def check_lora(table, case, program, model, tensors, sequences):
    got = program.forward(model, sequences, *lora_options("*"))
    pairs = lora_leaves(got)
    if set(pairs) != linear_maps(model):
        table.fail(case, f"LoRA is not on every linear layer: {sorted(set(pairs) ^ linear_maps(model))[:4]}")
    run = model.run(adapted(tensors, pairs), sequences)
    compare_forward(table, case, got, run)
    compare_gradients(table, "lora", case, given_gradients(got),
                      pair_gradients(cross_entropy(run.logits, sequences), pairs))
    table.done(case)


def check_peft(table, case, program, model, tensors, sequences):
    """Attention with PEFT itself: its names, its scale, its gradients. Fused experts it cannot adapt by name."""
    import peft
    got = program.forward(model, sequences, *lora_options("attention"))
    ours = given_gradients(got)
    modules = sorted({name.split(".lora_")[0].rpartition(".")[2] for name in ours})
    model.model.load_state_dict(model.join({name: value.float() for name, value in tensors.items()}))
    wrapped = peft.get_peft_model(model.model, peft.LoraConfig(r=LORA_RANK, lora_alpha=LORA_ALPHA, lora_dropout=0.0,
                                                               target_modules=modules))
    named = {name.replace(".default.", "."): value for name, value in wrapped.named_parameters()
             if value.requires_grad}
    for name, value in named.items():
        value.data.copy_(got[f"param.{name}"])
    logits = torch.cat([wrapped(input_ids=torch.tensor([ids]), use_cache=False).logits[0] for ids in sequences])
    table.add("logits", case, "logits", relative_to_rms(got["logits"], logits))
    compare_gradients(table, "lora", case, ours, gradients_of(cross_entropy(logits, sequences), named))
    adapter = os.path.join(model.folder, "adapter")
    wrapped.save_pretrained(adapter)
    wrapped.unload()
    read = program.forward(model, sequences, "--grads", "--adapter", adapter)
    if not torch.equal(read["logits"], got["logits"]):
        table.fail(case, "the adapter PEFT saved gives other logits")
    compare_gradients(table, "lora", case, given_gradients(read), ours)
    table.done(case)


# ---------------------------------------------------------------- methods


def unserved_choices(model, tensors, run, settings):
    """layer -> [T,n], True where the method's capacity leaves no room; layers below decide those above."""
    marks = {}
    for layer, captured in run.routers.items():
        served = model.routing(tensors, run, layer, settings).expert
        mark = torch.ones_like(captured.logits, dtype=torch.bool)
        for slot in range(served.shape[1]):
            token = torch.where(served[:, slot] >= 0)[0]
            mark[token, served[token, slot]] = False
        marks[layer] = mark
    return marks


def run_with_capacity(model, tensors, sequences, settings):
    run = model.run(tensors, sequences, pools=settings if settings["pool"] else None)
    if settings["capacity"] == 0.0:
        return run
    for _ in run.routers:  # each pass settles one layer more
        run = model.run(tensors, sequences, unserved_choices(model, tensors, run, settings))
    return run


def compare_served(table, case, model, tensors, got, run, settings):
    """The same choices find no room."""
    for layer, mark in unserved_choices(model, tensors, run, settings).items():
        experts = got[f"experts.{layer}"].long()
        token, slot = torch.where(experts >= 0)
        served = torch.zeros_like(mark)
        served[token, experts[token, slot]] = True
        if not bool((experts < 0).any()):
            table.fail(case, f"layer {layer}: nothing is dropped")
        if not torch.equal(served, ~mark):
            table.fail(case, f"layer {layer}: other choices are served")


def compare_pools(table, case, got, run, sequences):
    """The same choices, all within the pools, and pools that leave something out."""
    number = torch.cat([torch.full((len(ids),), i) for i, ids in enumerate(sequences)])
    small = 0
    for layer, captured in run.routers.items():
        pools = torch.stack(run.pools[layer])
        small += int((~pools).sum())
        experts = got[f"experts.{layer}"].long().sort(dim=-1).values
        if not torch.equal(experts, captured.experts.sort(dim=-1).values):
            table.fail(case, f"layer {layer}: other choices")
        if not bool(pools[number].gather(1, experts).all()):
            table.fail(case, f"layer {layer}: a choice outside its pool")
    if small == 0:
        table.fail(case, "no pool leaves an expert out")


def compare_terms(table, kind, case, got, loss, values, weights):
    error = abs(float(got["loss"]) - float(loss.detach())) / abs(float(loss.detach()))
    table.add(kind, case, "loss", error)
    for term in objective.TERMS:
        if term not in values:
            continue
        size = max(abs(values[term]), 1e-3 if term == "sp" else 0.0)  # cosines of both signs
        error = abs(float(got[f"loss.{term}"]) - values[term]) / size
        table.add(kind, case, f"loss.{term}", error)
        want = torch.tensor(weights[term], dtype=torch.float64)
        table.add(kind, case, f"scale.{term}", float(((got[f"scale.{term}"] - want) / want).abs().max()))


def shaken_gradients(model, tensors, sequences, settings, pairs):
    """The reference's gradients, every frozen or trained weight a last bit away."""
    generator = torch.Generator().manual_seed(1)
    moved = {name: value.float() * (1.0 + 6e-8 * torch.randn(value.shape, generator=generator))
             for name, value in tensors.items()}
    leaves = leaves_of(moved)
    effective = adapted(moved, pairs) if pairs else leaves
    run = run_with_capacity(model, effective, sequences, settings)
    loss = cross_entropy(run.logits, sequences) + model.objective(effective, run, sequences, settings)[0]
    learning = {name: leaf for name, leaf in leaves.items() if leaf.requires_grad}
    return pair_gradients(loss, pairs) if pairs else gradients_of(loss, learning)


def check_method(table, case, program, model, tensors, sequences, method, keys, lora=False):
    settings = objective.settings_of(method, keys)
    if settings["capacity"] == 0.0 or "capacity" not in keys:
        settings["capacity"], settings["drop_threshold"] = 0.0, 0.0  # in evaluation nothing is dropped
    settings["pool"] = settings["pool"] and "seed" in keys  # nor are there pools
    options = [*(lora_options("*") if lora else ("--grads", "--train", "full")), "--method", method]
    training = settings["capacity"] != 0.0 or settings["pool"] or "erc_noise" in keys
    if training:
        options.append("--training")
    got = program.forward(model, sequences, *options, *(f"{key}={value}" for key, value in keys.items()))
    pairs = lora_leaves(got)
    leaves = {} if lora else leaves_of(tensors)
    effective = adapted(tensors, pairs) if lora else leaves
    run = run_with_capacity(model, effective, sequences, settings)
    run.training = training
    # The logits are confined already.
    total, values, weights = model.objective(effective, run, sequences, {**settings, "pool": False})
    loss = cross_entropy(run.logits, sequences) + total
    compare_terms(table, "loss", case, got, loss, values, weights)
    table.add("logits", case, "logits", relative_to_rms(got["logits"], run.logits))
    if settings["pool"]:
        compare_pools(table, case, got, run, sequences)
    if settings["capacity"] != 0.0:
        compare_served(table, case, model, effective, got, run, settings)
    learning = {name: leaf for name, leaf in leaves.items() if leaf.requires_grad}
    want = pair_gradients(loss, pairs) if lora else gradients_of(loss, learning)
    spans = settings["form"] == "span" and settings["beta"] != 0.0
    shaken = shaken_gradients(model, tensors, sequences, settings, pairs) if spans else None
    compare_gradients(table, "span" if spans else "methods", case, given_gradients(got), want, shaken)
    table.done(case)


METHOD_KEYS = [  # beyond the methods as they are
    ("paper", {"c_o": 300.0, "c_v": 300.0}), ("paper", {"form": "span", "c_o": 300.0}),
    ("paper", {"axis": "token", "scores": "full", "scale": "none", "gamma": 3.0}), ("metier", {"c_o": 300.0}),
    ("paper-code", {"beta": 10.0, "gamma": 10.0}), ("aux", {"alpha": 1.0, "aux": "literal"}),
    ("aux", {"alpha": 1.0, "aux": "sequence"}), ("ernie", {"lambda_orth": 3.0, "zeta": 0.3}),
    ("erc", {"lambda_erc": 10.0, "erc_alpha": 0.7}), ("intra-cross", {"lambda_sp": 1.0, "lambda_cp": 1.0}),
    ("intra-cross", {"sp": "squared", "lambda_sp": 1.0, "lambda_cp": 0.0}),
]
TRAINING_KEYS = [  # with slots that find no room; sampling and noise off, so that the reference can follow
    ("gshard", {"drop_threshold": 0.0, "capacity": 0.6}),
    ("st-moe", {"drop_threshold": 0.0, "capacity": 0.6, "capacity_min": 1, "jitter": 0.0}),
    ("erc", {"lambda_erc": 10.0, "erc_noise": 1.0, "seed": 2**33 + 5}),
]
POOL_KEYS = [  # sizes of pools can be drawn by the reference, too
    ("pool", {"seed": 3, "alpha": 1.0, "zeta": 0.1}), ("pool", {"seed": 2**33 + 5}),
    ("metier", {"pool": "true", "seed": 4, "c_o": 300.0, "c_v": 100.0}),
]


def check_methods(table, name, program, model, tensors, sequences):
    router = model.router()
    name_of_router = "groups" if router.groups > 0 else router.kind
    known = [*objective.METHODS, *objective.MODEL_METHODS]
    methods = [method for method in known if not objective.refused(method, name_of_router)]
    cases = [(method, {}, False) for method in methods]
    cases += [(method, keys, False) for method, keys in METHOD_KEYS]
    cases += [("metier", {"c_o": 300.0}, True), ("simbal", {}, True), ("paper-code", {"beta": 10.0}, True),
              ("erc", {"lambda_erc": 10.0}, True), ("intra-cross", {"lambda_sp": 1.0, "lambda_cp": 1.0}, True)]
    for method, keys, lora in cases:
        text = " ".join([name, "lora" if lora else "full", method, *(f"{k}={v}" for k, v in keys.items())])
        check_method(table, text, program, model, tensors, sequences, method, keys, lora)
    if model.kind == "phimoe":  # in training it samples
        return
    for method, keys in TRAINING_KEYS:
        text = f"{name} training {method}"
        check_method(table, text, program, model, tensors, sequences[-1:], method, keys)


def check_pools(table, name, program, model, tensors, sequences):
    """Pools are for routers without groups, of which each architecture but phimoe has variants."""
    router = model.router()
    if router.groups > 0 or not objective.may_pool(router.kind):
        return
    for method, keys in POOL_KEYS:
        for lora in (False, True):
            text = f"{name} pools {'lora' if lora else 'full'} {method} seed={keys['seed']}"
            check_method(table, text, program, model, tensors, sequences, method, keys, lora)


# ---------------------------------------------------------------- everything


def draw_sequences(rng, vocabulary, lengths):
    """No sequence begins like another or with a repetition: equal tokens there are equal to the last layer, and the
    span of equal vectors is rounding on both sides."""
    starts = rng.permutation(vocabulary)[: 2 * len(lengths)].tolist()
    return [[*starts[2 * i: 2 * i + 2], *rng.integers(vocabulary, size=length).tolist()][:length]
            for i, length in enumerate(lengths)]


def make(folder, name, variant, seed, dtype=torch.float32):
    rng = numpy.random.default_rng([seed, configs.ARCHITECTURES.index(name), variant])
    config = configs.draw(name, variant, rng)
    config["torch_dtype"] = str(dtype).split(".")[1]
    os.makedirs(folder, exist_ok=True)
    lengths = configs.sequence_lengths(config, variant)
    model = Model(config, folder, configs.as_transformers_reads_it(config, lengths))
    tensors = model.random_tensors(torch.Generator().manual_seed(int(rng.integers(1 << 31))), dtype)
    if variant == 0 and name != "deepseek" and dtype == torch.float32:
        model.save_pretrained(tensors)
    else:
        model.write(tensors, shards=1 + variant % 2)
    return model, tensors, draw_sequences(rng, config["vocab_size"], lengths)


def check_model(table, program, place, name, variant, seed, dtype):
    text = f"{name} variant {variant} seed {seed} {str(dtype).split('.')[1]}"
    folder = os.path.join(place, text.replace(" ", "-"))
    model, tensors, sequences = make(folder, name, variant, seed, dtype)
    check_full(table, text, program, model, tensors, sequences)
    check_lora(table, text + " lora", program, model, tensors, sequences)
    if name != "deepseek" and dtype == torch.float32:
        check_peft(table, text + " peft", program, model, tensors, sequences)
    return model, tensors, sequences


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--program", default=os.path.join(ROOT, "build", "release", "bin", "metier"))
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--rounds", type=int, default=1, help="how many seeds, from --seed on")
    parser.add_argument("--only", default="", help="architectures whose name contains this")
    parser.add_argument("--verbose", action="store_true", help="say when a case is done")
    arguments = parser.parse_args()
    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()
    torch.set_num_threads(1)
    table = Table(arguments.verbose)
    with tempfile.TemporaryDirectory() as place:
        program = Program(arguments.program, place)
        for seed in range(arguments.seed, arguments.seed + arguments.rounds):
            for name in (name for name in configs.ARCHITECTURES if arguments.only in name):
                for variant in range(configs.VARIANTS[name]):
                    made = check_model(table, program, place, name, variant, seed, torch.float32)
                    check_pools(table, f"{name} variant {variant} seed {seed}", program, *made)
                    if (name, variant) in METHOD_MODELS:
                        check_methods(table, f"{name} variant {variant} seed {seed}", program, *made)
                check_model(table, program, place, name, 1, seed, torch.bfloat16)
    table.show()
    return 1 if table.failures else 0


if __name__ == "__main__":
    sys.exit(main())
