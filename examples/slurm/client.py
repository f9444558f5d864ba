"""A client of Slurm that others wrote, unchanged, on Slurm's commands: what the `run` of each has in common.

Its own folder holds the program that its user writes, which knows nothing of Phalanx, and `requirements.txt`. That
program runs by the Python of a virtual environment under out/ with these packages, on a `phalanx up` of its own
or on a running one, and prints what is right in its last line, itself or in the output of its job.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))
from needs import ExampleError, Packages, Program, python
from stage import add_install_options, told, up


@dataclass(frozen=True, slots=True, kw_only=True)
class Client:
    """`program`: the words that its user types, the first a file of `folder` for Python or a program of the packages.
    `proof`: what can be imported once the packages are there."""

    about: str
    folder: Path
    program: tuple[str, ...]
    size: str
    room_bytes: int
    proof: str
    programs: tuple[Program, ...] = ()
    venv: str = ""  # of another example, with the same packages; without, one of its own
    shows: str = ""  # the file that the job writes, where the program itself says nothing

    @property
    def packages(self) -> Packages:
        lines = (self.folder / "requirements.txt").read_text().splitlines()
        wanted = tuple(line for line in lines if line and not line.startswith("#"))
        name = self.venv or f"slurm-{self.folder.name}"
        return Packages(name=name, requirements=wanted, size=self.size, room_bytes=self.room_bytes, proof=self.proof)


def main(client: Client) -> int:
    said = _options(client)

    def play() -> None:
        for program in client.programs:
            program.require()
        client.packages.install(said.install_timeout)
        if said.install:
            return
        with tempfile.TemporaryDirectory(prefix="phalanx-example-") as place:
            if said.kubeconfig is not None:
                _run(client, said.kubeconfig.resolve(), Path(place), said.timeout)
                return
            with up(Path(place) / "cluster", "4", []):
                _run(client, Path(place) / "cluster" / "kubeconfig", Path(place), said.timeout)

    return told(play)


def _options(client: Client) -> argparse.Namespace:
    name = client.folder.name
    parser = argparse.ArgumentParser(
        description=f"{client.about} Installs {name} ({client.size}) under out/ once, leaves nothing running.",
        epilog=f"For example: examples/slurm/{name}/run",
    )
    parser.add_argument("--kubeconfig", type=Path, help="a running `phalanx up` of yours, instead of one of its own")
    parser.add_argument("--timeout", type=float, default=240.0, metavar="S", help="seconds for all jobs (240)")
    add_install_options(parser)
    return parser.parse_args()


def _run(client: Client, kubeconfig: Path, place: Path, timeout_s: float) -> None:
    """Raises ExampleError. Slurm's commands are first on the PATH, then the programs of the client's packages."""
    commands, work = place / "commands", place / "work"
    work.mkdir()
    subprocess.run(
        [str(python()), "-m", "phalanx.cli.app", "slurm", "install", str(commands)], check=True, capture_output=True
    )
    programs = client.packages.folder / "bin"
    path = os.pathsep.join([str(commands), str(programs), os.environ["PATH"]])
    around = {**os.environ, "KUBECONFIG": str(kubeconfig), "PATH": path, "PYTHONUNBUFFERED": "1"}
    first, *rest = [word.replace("HERE", str(client.folder)) for word in client.program]
    words = [str(programs / "python"), str(client.folder / first)] if first.endswith(".py") else [first]
    try:
        done = subprocess.run(
            [*words, *rest], cwd=work, env=around, capture_output=True, text=True, timeout=timeout_s, check=False
        )
    except subprocess.TimeoutExpired as late:
        raise ExampleError(f"not over after {timeout_s:.0f} s; it said {late.stdout!r} {late.stderr!r}") from None
    said = done.stdout
    if client.shows and (work / client.shows).exists():
        said += (work / client.shows).read_text()
    if done.returncode:
        raise ExampleError(said + done.stderr)
    print(f"right: {said.strip().splitlines()[-1]}")
