"""`phalanx demo`: run six applications at once, first pod by pod, then as gangs, on a cluster of its own."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import yaml
from rich.console import Console
from rich.text import Text

from phalanx.cli.local.data_directory import DataDirectory
from phalanx.cli.local.draining import drain
from phalanx.cli.local.local_cluster import LocalMachines, running
from phalanx.cli.terminal.output import note, print_json
from phalanx.cli.terminal.stopping import stop_wish
from phalanx.client.connection import Connection
from phalanx.demo.play import Access, DemoResult, play
from phalanx.demo.stage import LiveStage, PlainStage, SilentStage, bars, draw, require_drawable
from phalanx.demo.trial import APPLICATIONS, Trial

CPUS = 6
INTERRUPTED = 130


async def demo(*, timeline: Path = Path("phalanx-demo.svg"), keep: bool = False, json: bool = False) -> int:
    """Run six applications at once: first pod by pod, then as gangs. The demo starts its own cluster with one six-CPU
    node.

    Each application has a driver that creates its two executors through the API after it has started, as Spark does.
    The driver and the executors count the words of Python's standard library, and communicate over sockets. All of them
    are real processes. If pods start one by one, six drivers take the six CPUs and wait for executors that can never
    start. As gangs, each application starts whole or not at all, and all finish.

    The exit code is 0 only if exactly this happened: 0 of 6 applications finished pod by pod, and 6 of 6 as gangs, with
    correct counts.

    For example:

        phalanx demo
        phalanx demo --timeline timeline.png
        phalanx demo --json | jq .gangs

    Parameters
    ----------
    timeline
        The file for the picture of both runs: .svg, .png or .pdf.
    keep
        Keep the data directory and print its path, instead of deleting it.
    json
        Print one JSON document at the end, and nothing else.
    """
    require_drawable(timeline)
    with stop_wish() as wish, _directory(keep) as directory:
        playing = asyncio.create_task(_play(directory, timeline, json))
        stopping = asyncio.create_task(wish.wait())
        await asyncio.wait({playing, stopping}, return_when=asyncio.FIRST_COMPLETED)
        stopping.cancel()
        if not playing.done():
            note("\nphalanx demo: stopping")
            playing.cancel()
            await asyncio.wait({playing})
            return INTERRUPTED
        return 0 if playing.result().holds else 1


@contextlib.contextmanager
def _directory(keep: bool) -> Iterator[DataDirectory]:
    path = Path(tempfile.mkdtemp(prefix="phalanx-demo-"))
    try:
        yield DataDirectory(path)
    finally:
        if keep:
            note(f"kept: {path} (phalanx up --data {path} starts it again)")
        else:
            shutil.rmtree(path, ignore_errors=True)


async def _play(directory: DataDirectory, timeline: Path, json: bool) -> DemoResult:
    console = Console(highlight=False)
    stage = SilentStage() if json else LiveStage(console) if console.is_terminal else PlainStage(console)
    stage.say(f"starting a Kubernetes with one node of {CPUS} CPUs")
    async with (
        running(directory, 0, LocalMachines(local_cpu=str(CPUS)), note),
        await Connection.open(directory.kubeconfig) as connection,
    ):
        try:
            verdict = await play(connection, _access(directory.kubeconfig), CPUS, stage)
        finally:
            await asyncio.shield(drain(connection, note))
    trials = _titled(verdict)
    await asyncio.to_thread(draw, trials, timeline)
    if json:
        print_json({**verdict.record(), "timeline": str(timeline)})
    else:
        console.print(bars(trials, min(console.width, 110)))
        console.print(_conclusion(verdict, timeline), soft_wrap=True)
    return verdict


def _titled(verdict: DemoResult) -> list[tuple[str, Trial]]:
    def title(name: str, trial: Trial) -> str:
        return f"{name}: {trial.finished} of {APPLICATIONS} finished"

    return [(title("pod by pod", verdict.without), verdict.without), (title("as gangs", verdict.gangs), verdict.gangs)]


def _conclusion(verdict: DemoResult, timeline: Path) -> Text:
    common = ", ".join(f"{word} {number:,}" for word, number in verdict.reference.most_common)
    words = verdict.reference.words
    found = Text(
        f"{verdict.right} of {APPLICATIONS} counts agree with the count of a single process: {words:,} words "
        f"({common}).\n"
        f"The timeline is drawn in {timeline}.\n"
    )
    finished = f"{verdict.without.finished} of {APPLICATIONS} finished pod by pod, {verdict.gangs.finished} as gangs"
    if verdict.holds:
        return found.append(f"{finished}: all pods of a gang start together, or none of them.", style="bold green")
    return found.append(f"{finished}: this is not the expected result.", style="bold red")


def _access(kubeconfig: Path) -> Access:
    """Return the server, the token and the certificate of the kubeconfig, as texts for a pod's environment."""
    found = yaml.safe_load(kubeconfig.read_text())
    cluster, user = found["clusters"][0]["cluster"], found["users"][0]["user"]
    ca = base64.b64decode(cluster["certificate-authority-data"]).decode()
    return Access(server=cluster["server"], token=user["token"], ca=ca)
