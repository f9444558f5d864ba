"""Data-parallel training by PyTorch over gloo: y = X w is learnt, each rank on its own part of the data.

`torchrun` says who this process is (RANK, WORLD_SIZE) and where rank 0 listens (MASTER_ADDR, MASTER_PORT). At the end
all ranks must have the same weights, and these must be the ones that made the data.
"""

import json
import os
import socket
import sys

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

ROWS, STEPS = 256, 200


def main() -> None:
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    report(dist.get_rank(), dist.get_world_size(), *learn(dist.get_rank()))
    dist.barrier()  # nobody needs anything of this rank any more
    sys.stdout.flush()
    os._exit(0)  # gloo's threads now and then abort a process that takes itself apart, whatever is let go before


def learn(rank: int) -> tuple[float, torch.Tensor]:
    """The loss at the end, and the weights."""
    true = torch.tensor([[3.0], [-2.0], [0.5]])
    mine = torch.Generator().manual_seed(rank)
    rows = torch.randn(ROWS, 3, generator=mine)
    wanted = rows @ true + 1.0
    torch.manual_seed(rank)  # unequal at first: DDP gives all those of rank 0
    model = DistributedDataParallel(torch.nn.Linear(3, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for step in range(STEPS):
        optimizer.zero_grad()
        loss = torch.nn.functional.mse_loss(model(rows), wanted)
        loss.backward()  # the gradients are averaged over all ranks here
        optimizer.step()
        if rank == 0 and step % 50 == 0:
            print(f"step {step}: loss {loss.item():.6f}", flush=True)
    return loss.item(), torch.cat([each.detach().flatten() for each in model.parameters()])


def report(rank: int, world: int, loss: float, weights: torch.Tensor) -> None:
    """One line from rank 0 about all of them."""
    everyone: list = [None] * world
    dist.all_gather_object(everyone, {"host": socket.gethostname(), "weights": weights.tolist(), "loss": loss})
    if rank == 0:
        result = {
            "world": world,
            "hosts": [one["host"] for one in everyone],
            "same": all(one["weights"] == everyone[0]["weights"] for one in everyone),
            "weights": [round(number, 3) for number in everyone[0]["weights"]],
            "loss": max(one["loss"] for one in everyone),
            "torch": torch.__version__,
            "local_world": int(os.environ["LOCAL_WORLD_SIZE"]),
        }
        print("RESULT " + json.dumps(result), flush=True)


main()
