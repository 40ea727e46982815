"""For attach_parity.py: an attached model in two processes, with DDP and with FSDP2, on the CPU.

Each process has its own batch; the gradients are means over processes, of the task and of the terms. The reference is one
process with the formulas.
"""
import os
import tempfile

import torch
from torch import distributed, multiprocessing
from torch.distributed.fsdp import fully_shard
from torch.nn.parallel import DistributedDataParallel

import metier
from attach_formulas import SETTINGS, Formulas, gradients_of, make_batch, make_model

PROCESSES = 2
MODEL = "qwen3_moe"
KINDS = ("ddp", "ddp, checkpointed", "ddp, attached after", "fsdp2", "fsdp2, checkpointed", "fsdp2, attached after")


def batch_of(rank):
    return make_batch(3, 11, seed=20 + rank)


def prepare(model, kind):
    if "checkpointed" in kind:
        model.gradient_checkpointing_enable({"use_reentrant": False})
    if kind.startswith("ddp"):
        return DistributedDataParallel(model)
    mesh = distributed.init_device_mesh("cpu", (PROCESSES,))
    for layer in model.model.layers:
        fully_shard(layer, mesh=mesh)
    return fully_shard(model, mesh=mesh)


def work(rank, folder):
    torch.set_num_threads(1)
    distributed.init_process_group("gloo", init_method=f"file://{folder}/meeting", rank=rank, world_size=PROCESSES)
    for kind in KINDS:
        model = make_model(MODEL).train()
        attached = None if "after" in kind else metier.attach(model, **SETTINGS)
        wrapped = prepare(model, kind)
        attached = attached or metier.attach(model, **SETTINGS)
        loss = wrapped(**batch_of(rank), use_cache=False).loss
        loss.backward()
        gradients = {name: gradient.full_tensor() if hasattr(gradient, "full_tensor") else gradient
                     for name, gradient in gradients_of(model).items()}
        torch.save((float(loss.detach()), gradients, dict(attached.last.dead)), f"{folder}/{kind}.{rank}")
        metier.detach(wrapped)
    distributed.destroy_process_group()


def check_processes(failures):
    losses, gradients = [], {}
    for rank in range(PROCESSES):
        model = make_model(MODEL).train()
        formulas = Formulas(model)
        loss = model(**batch_of(rank), use_cache=False).loss
        (loss + formulas.take()).backward()
        losses.append(float(loss.detach()) + sum(formulas.coefficients[key] * value * len(formulas.seen)
                                                 for key, value in formulas.terms.items()))
        for name, gradient in gradients_of(model).items():
            gradients[name] = gradients.get(name, 0.0) + gradient / PROCESSES
    with tempfile.TemporaryDirectory() as folder:
        multiprocessing.spawn(work, args=(folder,), nprocs=PROCESSES)
        for kind in KINDS:
            for rank in range(PROCESSES):
                loss, got, dead = torch.load(os.path.join(folder, f"{kind}.{rank}"))
                failures.same(f"{kind}, process {rank}", (loss, got), (losses[rank], gradients))
                failures.holds(f"{kind}, process {rank}: dead are {dead}", not dead)
