"""Clients of Slurm that others wrote run unchanged by Slurm's commands, each as its example does it.

The light ones share one `phalanx up`. The others need torch or a hundred megabytes of packages: `make examples` runs
them, as does PHALANX_EXAMPLES=slurm/snakemake,slurm/torchrun and so on.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.cli.upstart import Up, started
from tests.examples.running import ASKED, folders_of, installing, pins, run, without_a_row

# name -> what it says in the end
LIGHT = {
    "slurm/submitit": "a job, an array of 3 and a failure came back",
    "slurm/simple-slurm": "an array, a job that depends on it, srun with two tasks, squeue and scancel did",
    "slurm/slurmpy": "a job ran, and then one that depends on it",
    "slurm/psij": "jobs ended well, with code 3, of two ranks by srun, and cancelled, and were told so",
    "slurm/mpirun": '"size": 3',
    "slurm/parsl": "a block of two workers under srun computed ten squares",
    "slurm/dask-jobqueue": "two workers came as Slurm jobs, went, and one came back for more work",
}
SMALL = {"slurm/submitit", "slurm/simple-slurm"}  # of the light ones: `make slow` runs the others
HEAVY = {
    "slurm/reframe": "two checks of two tasks each passed, by ReFrame's slurm and squeue back-ends",
    "slurm/clusterfutures": "three functions ran, each as a Slurm job, and their results came back",
    "slurm/snakemake": "three parts, each a Slurm job, came to 60",
    "slurm/torchrun": '"world": 2',
    "slurm/lightning": "SLURMEnvironment: 2 ranks found each other and have the same weights",
}


@pytest.fixture(scope="module")
def up(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Up]:
    with started(tmp_path_factory.mktemp("up"), "--local-cpu", "8", "--local-gpu", "0", "--stop-pods") as up:
        yield up


@pytest.mark.timeout(600)
@pytest.mark.parametrize("name", installing(LIGHT, small=SMALL))
def test_a_client_that_others_wrote_runs_unchanged(name: str, up: Up, installed: None) -> None:
    assert LIGHT[name] in run(name, "--kubeconfig", str(up.data / "kubeconfig"), "--timeout", "500")


@pytest.mark.timeout(1500)
@pytest.mark.parametrize("name", installing(name for name in HEAVY if name in ASKED))
def test_a_client_of_many_packages_runs_unchanged(name: str, up: Up, installed: None) -> None:
    assert HEAVY[name] in run(name, "--kubeconfig", str(up.data / "kubeconfig"), "--timeout", "1000", timeout_s=1150)


def test_every_client_has_its_row_and_its_versions() -> None:
    folders = folders_of("slurm")
    assert folders == {*LIGHT, *HEAVY}
    assert not without_a_row(folders)
    assert not [pin for folder in folders for pin in pins(folder) if "==" not in pin and pin != "numpy"]


@pytest.mark.slow
def test_a_client_says_what_it_takes() -> None:
    assert "--kubeconfig" in run("slurm/parsl", "--help")
