"""A client of another scheduler's Kubernetes API that others wrote, unchanged: what the `run` of each has in common.

Its own folder holds the program that its user writes, which knows nothing of Phalanx, and `requirements.txt`. That
program runs by the Python of a virtual environment under out/ with these packages, on a `phalanx up` of its own or on
the cluster of `--kubeconfig`, and prints what is right in its last line.
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
from needs import ExampleError, Packages
from stage import add_install_options, told, up


@dataclass(frozen=True, slots=True, kw_only=True)
class Client:
    """`program`: a file of `folder`, for Python. `proof`: what can be imported once the packages are there."""

    about: str
    folder: Path
    program: str
    size: str
    room_bytes: int
    proof: str

    @property
    def packages(self) -> Packages:
        wanted = tuple((self.folder / "requirements.txt").read_text().split())
        name = f"kubernetes-{self.folder.name}"
        return Packages(name=name, requirements=wanted, size=self.size, room_bytes=self.room_bytes, proof=self.proof)


def main(client: Client) -> int:
    name = client.folder.name
    parser = argparse.ArgumentParser(
        description=f"{client.about} Installs {name} ({client.size}) under out/ once, leaves nothing running.",
        epilog=f"For example: examples/kubernetes/{name}/run",
    )
    parser.add_argument("--kubeconfig", type=Path, help="a running `phalanx up` of yours, instead of one of its own")
    parser.add_argument("--timeout", type=float, default=240.0, metavar="S", help="seconds for all jobs (240)")
    add_install_options(parser)
    said = parser.parse_args()

    def play() -> None:
        client.packages.install(said.install_timeout)
        if said.install:
            return
        if said.kubeconfig is not None:
            _run(client, said.kubeconfig.resolve(), said.timeout)
            return
        with tempfile.TemporaryDirectory(prefix="phalanx-example-") as place, up(Path(place) / "cluster", "4", []):
            _run(client, Path(place) / "cluster" / "kubeconfig", said.timeout)

    return told(play)


def _run(client: Client, kubeconfig: Path, timeout_s: float) -> None:
    """Raises ExampleError. The program has an empty home: what stands in its user's counts for nothing."""
    with tempfile.TemporaryDirectory(prefix="phalanx-example-") as home:
        around = {**os.environ, "KUBECONFIG": str(kubeconfig), "HOME": home, "PYTHONUNBUFFERED": "1"}
        words = [str(client.packages.folder / "bin" / "python"), str(client.folder / client.program)]
        try:
            done = subprocess.run(
                words, cwd=home, env=around, capture_output=True, text=True, timeout=timeout_s, check=False
            )
        except subprocess.TimeoutExpired as late:
            raise ExampleError(f"not over after {timeout_s:.0f} s; it said {late.stdout!r} {late.stderr!r}") from None
    if done.returncode:
        raise ExampleError(done.stdout + done.stderr)
    print(f"right: {done.stdout.strip().splitlines()[-1]}")
