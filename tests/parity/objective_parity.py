#!/usr/bin/env python3
"""Compares `metier objective` with PyTorch autograd: every term, option, scale rule and method on every router.

Usage: objective_parity.py [--program build/release/bin/metier] [--cases 4] [--seed 1] [--only TEXT]
                           [--authors-repo DIR] [--transformers]
Needs PyTorch and safetensors. Inputs are single precision; the reference is double, so an error is the program's own.
Errors are relative to the value, and for gradients to the root mean square of the reference's gradient; 1e-5 is the
limit, or what PyTorch itself loses in single precision on the same case where that is more (gradients that cancel to
nearly nothing); how many needed that is printed. The last column is PyTorch's own loss.

--authors-repo: a work tree of the repository the paper's authors published. Method paper-code is then also compared
with their own MoE layers, run as they are, and so is our description of them (objective_reference.py).
--transformers: routing and the pooled balance loss are also compared with that library.
"""
import argparse
import os
import subprocess
import sys
import tempfile

try:
    import torch
    from safetensors import safe_open
    from safetensors.torch import save_file
except ImportError as error:
    print(f"objective_parity: needs a Python with torch and safetensors: {error}", file=sys.stderr)
    sys.exit(77)

import objective_authors as authors
import objective_cases as cases
import objective_reference as reference
import objective_transformers

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
LIMIT = 1e-5
GRADIENTS = ("logits", "expert_outputs", "router_weight")


class Program:
    def __init__(self, path, folder):
        self.path, self.folder = path, folder

    @staticmethod
    def router_options(router):
        options = ["--router", router.kind, "--top-k", str(router.slots)]
        if router.normalise:
            options.append("--normalise")
        if router.scale != 1.0:
            options += ["--routed-scale", repr(router.scale)]
        if router.groups > 0:
            options += ["--groups", str(router.groups), "--groups-kept", str(router.groups_kept), "--group-rule",
                        router.group_rule]
        if router.kind == "sparsemixer":
            options += ["--jitter", repr(router.jitter)]
        return options

    @staticmethod
    def key_values(keys):
        def text(value):
            return ("true" if value else "false") if isinstance(value, bool) else str(value)

        return [f"{key}={text(value)}" for key, value in keys.items()]

    def command(self, router, method, keys):
        source, target = os.path.join(self.folder, "in.safetensors"), os.path.join(self.folder, "out.safetensors")
        return [self.path, "objective", "--record", source, *self.router_options(router), "--method", method,
                "--out", target, *self.key_values(keys)]

    def run(self, inputs, router, method, keys):
        """What the program writes, name -> tensor."""
        command = self.command(router, method, keys)
        source, target = command[3], os.path.join(self.folder, "out.safetensors")
        names = ("logits", "expert_outputs", "mask", "sequence", "router_weight", "router_bias")
        given = {name: getattr(inputs, name) for name in names}
        save_file({name: value.contiguous() for name, value in given.items() if value is not None}, source)
        if os.path.exists(target):
            os.remove(target)
        done = subprocess.run(command, capture_output=True, text=True)
        if done.returncode != 0:
            raise RuntimeError(f"{' '.join(command)}\n    {done.stderr.strip()}")
        with safe_open(target, framework="pt") as file:
            return {name: file.get_tensor(name) for name in file.keys()}


# ---------------------------------------------------------------- comparing


def value_error(got, wanted):
    difference = abs(float(got) - wanted)
    return difference if difference == 0.0 else difference / max(abs(wanted), 1e-30)


def gradient_error(got, wanted, summed=0.0):
    """The largest difference over the reference's root mean square.

    Where the parts of a gradient cancel (it may be exactly 0), that root says nothing: a tenth of the parts' own, in
    `summed`, stands in.
    """
    if wanted.numel() == 0:
        return 0.0
    yardstick = max(float(wanted.pow(2).mean().sqrt()), 0.1 * summed, 1e-30)
    return float((got.double() - wanted.double()).abs().max()) / yardstick


def differences(got, wanted, inputs):
    """quantity -> error. got maps the program's names to tensors; wanted is the reference's Results."""
    errors = {}
    pushes = sum(abs(wanted.scale[term] * value) for term, value in wanted.loss.items())
    for term, value in wanted.loss.items():
        floor = 1e-7 if term == "v" else 1e-12  # a variance is a difference of squares of size 1
        name = "loss." + term
        errors[name] = value_error(got[name], value) if abs(value) > floor else abs(float(got[name]) - value) * 100
        errors["scale." + term] = value_error(got["scale." + term], wanted.scale[term])
    errors["total"] = abs(float(got["total"]) - wanted.total) / max(pushes, 1e-30)
    for name in GRADIENTS:
        gradient = wanted.grads[name]
        if "grad." + name in got:
            errors["grad." + name] = gradient_error(got["grad." + name], gradient, wanted.summed[name])
        elif bool((gradient != 0).any()):
            errors["grad." + name] = float("inf")
    served = wanted.experts if inputs.mask is None else wanted.experts[inputs.mask != 0]
    found = got["experts"] if inputs.mask is None else got["experts"][inputs.mask != 0]
    errors["experts"] = 0.0 if torch.equal(found.long(), served.long()) else float("inf")
    errors["weights"] = float(((got["weights"].double() - wanted.weights.double()) / wanted.weights.double()).abs().max())
    return errors


def as_outputs(results):
    """A reference's Results under the program's names."""
    got = {"total": results.total, "experts": results.experts, "weights": results.weights}
    got.update({"loss." + term: value for term, value in results.loss.items()})
    got.update({"scale." + term: value for term, value in results.scale.items()})
    got.update({"grad." + name: value for name, value in results.grads.items()})
    return got


class Table:
    """The worst error by row and column, and by quantity."""

    def __init__(self, columns):
        self.columns = columns
        self.rows = {}
        self.quantities = {}
        self.failures = []
        self.excused = []

    def note(self, row, column, errors, what, single=None):
        worst = max(errors.values(), default=0.0)
        cells = self.rows.setdefault(row, {})
        cells[column] = max(cells.get(column, 0.0), worst if worst == worst else float("inf"))
        if column == "torch f32":
            return
        for name, error in errors.items():
            lost = (single or {}).get(name, 0.0)
            if error <= LIMIT:
                pass
            elif error <= lost:
                self.excused.append(f"{what}: {name} is off by {error:.1e}, PyTorch's single precision by {lost:.1e}")
            else:
                self.failures.append(f"{what}: {name} is off by {error:.1e}")
            if not error <= self.quantities.get(name, (0.0, ""))[0]:
                self.quantities[name] = (error, what)

    def print(self):
        width = max(len(f"{group}  {option}") for group, option in self.rows)
        heads = [column.split(" ") for column in self.columns]
        for line in range(max(map(len, heads))):
            print(" " * width, *[f"{head[line] if line < len(head) else '':>13}" for head in heads], sep="")
        last = None
        for (group, option), cells in self.rows.items():
            label = f"{group if group != last else '':<7}{option}"
            last = group
            print(f"{label:<{width}}", *[f"{cells[c]:13.1e}" if c in cells else f"{'-':>13}" for c in self.columns], sep="")
        print()
        for name, (error, what) in sorted(self.quantities.items()):
            print(f"  {name:22} worst {error:.1e}   {what}")


def compare_all(program, options):
    table = Table([*cases.ROUTERS, "torch f32"])
    count = 0
    for index, (group, option, (method, keys)) in enumerate(cases.OPTIONS):
        if options.only and options.only not in f"{group} {option}":
            continue
        settings = reference.settings_of(method, keys)
        for router_name in cases.ROUTERS:
            if settings["pool"] and not reference.may_pool(router_name):
                continue
            for turn in range(options.cases):
                seed = options.seed * 100000 + index * 1000 + turn * 30 + turn
                inputs, router = cases.draw_clear(seed, router_name, settings)
                wanted = reference.evaluate(inputs, router, settings)
                what = f"{router_name}, {method} {' '.join(Program.key_values(keys))}, seed {seed}"
                single = reference.evaluate(inputs, router, settings, torch.float32)
                errors = None
                # PyTorch's single-precision sigmoid of equal numbers depends on their place, and so does who wins a tie.
                if torch.equal(single.greedy, wanted.greedy):
                    errors = differences(as_outputs(single), wanted, inputs)
                    table.note((group, option), "torch f32", errors, what)
                count += 1
                try:
                    got = program.run(inputs, router, method, keys)
                except RuntimeError as error:
                    table.failures.append(f"{what}: the program failed\n    {error}")
                    continue
                table.note((group, option), router_name, differences(got, wanted, inputs), what, errors)
    table.print()
    for line in table.excused:
        print("no worse than PyTorch:", line)
    print(f"{count} cases, {len(cases.OPTIONS)} options, {len(cases.ROUTERS)} routers")
    return table.failures


# ---------------------------------------------------------------- the authors' own code


def compare_authors(program, repository):
    """paper-code against their layers, in single precision, and our description of it in double."""
    failures = []
    alpha, beta, gamma = 1e-3, 1e-4, 1e-3
    print("\nmethod paper-code against the authors' layers (relative errors)")
    print(f"{'model':12}{'sizes B T n k d':>20}{'L_aux':>10}{'L_o':>10}{'L_v':>10}{'w_o':>10}{'w_v':>10}{'total':>10}"
          f"{'dlogits':>10}{'doutputs':>10}   {'described':>10}")
    for folder, layer, config in authors.MODELS:
        module = authors.load(repository, folder, config)
        for seed, (batch, length, experts, slots, width) in enumerate(
                ((1, 1, 4, 2, 16), (2, 9, 8, 2, 16), (3, 16, 16, 4, 64), (4, 13, 64, 6, 64), (2, 32, 64, 8, 256))):
            normalise = folder == "kimi"  # as their configurations say
            generator = torch.Generator().manual_seed(seed)

            def normal(*shape):
                return torch.randn(*shape, generator=generator)

            hidden, weight = normal(batch, length, width), normal(experts, width) * 2 / width**0.5
            outputs = normal(batch * length, slots, width)
            theirs = authors.run(module, layer, hidden, weight, outputs, normalise, alpha, beta, gamma)
            inputs = reference.Inputs(
                logits=theirs["logits"], expert_outputs=outputs, router_weight=weight,
                sequence=torch.arange(batch, dtype=torch.int32).repeat_interleave(length))
            router = reference.Router(slots=slots, normalise=normalise)
            errors = {}
            described = describe_errors(module, layer, hidden, weight, outputs, normalise, (alpha, beta, gamma))
            got = program.run(inputs, router, "paper-code", {})
            logged = theirs["logged"]
            w_o, w_v = theirs["ortho_weight"], theirs["variance_weight"]
            # One of the three files logs the terms times their weights.
            ortho = logged["Loss/ortho"] / (w_o if folder == "ds" else 1.0)
            variance = logged["Variance"] / (w_v * w_v if folder == "ds" else 1.0)
            errors["L_aux"] = value_error(got["loss.aux"], logged["Loss/aux_loss"] / alpha)
            errors["L_o"] = value_error(got["loss.o"], ortho)
            errors["L_v"] = value_error(got["loss.v"], -variance)
            errors["w_o"] = value_error(got["scale.o"], w_o)
            errors["w_v"] = value_error(got["scale.v"], w_v)
            pushes = logged["Loss/aux_loss"] + w_o * ortho + w_v * variance
            errors["total"] = abs(float(got["total"]) - logged["Loss/gate_loss"]) / pushes
            for name in ("logits", "expert_outputs"):
                errors["grad." + name] = gradient_error(got["grad." + name], theirs["grad." + name])
            sizes = f"{batch} {length} {experts} {slots} {width}"
            print(f"{folder:12}{sizes:>20}", *[f"{error:10.1e}" for error in errors.values()], f"   {described:10.1e}", sep="")
            for name, error in [*errors.items(), ("our description of them", described)]:
                if not error <= LIMIT:
                    failures.append(f"authors' {folder}, {sizes}: {name} is off by {error:.1e}")
    return failures


def describe_errors(module, layer, hidden, weight, outputs, normalise, coefficients):
    """The worst relative error of reference.released_objective against their layer, both in double.

    Their counts are single precision even then, which leaves 1e-7 or so.
    """
    hidden, weight, outputs = hidden.double(), weight.double(), outputs.double()
    theirs = authors.run(module, layer, hidden, weight, outputs, normalise, *coefficients)
    logits = theirs["logits"].clone().requires_grad_(True)
    leaf = outputs.clone().requires_grad_(True)
    parts, total = reference.released_objective(logits, leaf, weight, hidden.shape[0], *coefficients)
    gradients = torch.autograd.grad(total, [logits, leaf])
    errors = [value_error(parts["ortho_weight"], theirs["ortho_weight"]),
              value_error(parts["variance_weight"], theirs["variance_weight"]),
              gradient_error(theirs["grad.logits"], gradients[0]),
              gradient_error(theirs["grad.expert_outputs"], gradients[1])]
    return max(errors)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--program", default=os.path.join(ROOT, "build", "release", "bin", "metier"))
    parser.add_argument("--cases", type=int, default=4, help="random cases for every option and router")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", help="options that contain this")
    parser.add_argument("--authors-repo", help="a work tree of the authors' repository")
    parser.add_argument("--transformers", action="store_true", help="compare routing with the transformers library too")
    options = parser.parse_args()
    if not os.access(options.program, os.X_OK):
        print(f"objective_parity: {options.program} is not there; build first, or name it with --program", file=sys.stderr)
        return 2
    torch.set_num_threads(1)  # everything is tiny
    with tempfile.TemporaryDirectory() as folder:
        program = Program(options.program, folder)
        failures = compare_all(program, options)
        if options.authors_repo:
            failures += compare_authors(program, options.authors_repo)
        if options.transformers:
            failures += objective_transformers.compare(program, LIMIT)
    for failure in failures[:40]:
        print("FAIL", failure)
    print(f"{len(failures)} failures" if failures else "parity holds")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
