"""What a user of Lightning writes for a Slurm cluster: nothing here knows Phalanx."""

import torch
from lightning_fabric import Fabric
from lightning_fabric.plugins.environments import SLURMEnvironment

assert SLURMEnvironment.detect(), "it is a job of Slurm's"
torch.set_num_threads(1)
fabric = Fabric(accelerator="cpu", devices=2, num_nodes=1, strategy="ddp")
fabric.launch()
fabric.seed_everything(fabric.global_rank)
model = torch.nn.Linear(3, 1)
model, optimizer = fabric.setup(model, torch.optim.SGD(model.parameters(), lr=0.1))
for _step in range(20):
    rows = torch.randn(64, 3)
    loss = torch.nn.functional.mse_loss(model(rows), rows.sum(dim=1, keepdim=True))
    optimizer.zero_grad()
    fabric.backward(loss)
    optimizer.step()
all_weights = fabric.all_gather(
    model.weight.detach() if hasattr(model, "weight") else next(model.parameters()).detach()
)
if fabric.global_rank == 0:
    assert torch.allclose(all_weights[0], all_weights[1]), all_weights
    environment = fabric.strategy.cluster_environment
    print(
        f"{type(environment).__name__}: {fabric.world_size} ranks found each other and have the same weights",
        flush=True,
    )
