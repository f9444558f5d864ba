"""What a user of parsl writes for a Slurm cluster: nothing here knows Phalanx."""

from pathlib import Path

import parsl
from parsl import bash_app, python_app
from parsl.config import Config
from parsl.executors import HighThroughputExecutor
from parsl.launchers import SrunLauncher
from parsl.providers import SlurmProvider

provider = SlurmProvider(
    partition="batch", cores_per_node=2, mem_per_node=1, max_blocks=1, walltime="00:10:00", launcher=SrunLauncher()
)
executor = HighThroughputExecutor(label="slurm", address="127.0.0.1", max_workers_per_node=2, provider=provider)


@python_app
def square(number: int) -> int:
    return number * number


@bash_app
def hello(stdout: str) -> str:
    return "echo from job $SLURM_JOB_ID, step $SLURM_STEP_ID"


with parsl.load(Config(executors=[executor])):
    assert sum(one.result(timeout=300) for one in [square(number) for number in range(10)]) == 285
    hello(stdout="hello.txt").result(timeout=300)
said = Path("hello.txt").read_text().strip()
assert said.startswith("from job "), said
print("a block of two workers under srun computed ten squares and said where it is")
