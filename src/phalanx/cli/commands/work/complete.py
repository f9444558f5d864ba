"""`phalanx complete -- WORDS`: what may stand in place of the last word, for the scripts of `phalanx completion`."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Sequence
from contextlib import suppress

from phalanx.cli.cluster.jobs.finding import Finder
from phalanx.cli.cluster.target import Target, current_namespace, find_kubeconfig
from phalanx.cli.commands.overview import COMMANDS, import_path
from phalanx.client.connection import Connection
from phalanx.errors import PhalanxError
from phalanx.kube.install.definitions import QUEUES

_OF_JOBS = frozenset(
    {
        "logs",
        "wait",
        "cancel",
        "hold",
        "release",
        "rerun",
        "attach",
        "shell",
        "cp",
        "port-forward",
        "explain",
        "history",
    }
)
_OF_QUEUES = frozenset({"-q", "--queue"})  # options
_PATIENCE_S = 2.0  # a user has pressed a key and waits


async def complete(*words: str) -> None:
    """Print what may stand in place of the last word, a line each.

    For example:

        phalanx complete -- logs tr
    """
    last = words[-1] if words else ""
    for word in sorted(await candidates(words)):
        if word.startswith(last):
            print(word)


async def candidates(words: Sequence[str]) -> set[str]:
    """Return all words that may stand in place of the last one; none where it is a file, or nothing is known."""
    if len(words) <= 1:
        return set(COMMANDS)
    command, before, last = words[0], words[-2], words[-1]
    if command not in COMMANDS:
        return set()
    if before in _OF_QUEUES:
        return await _live_names(queues=True)
    if last.startswith("-"):
        return _options(command)
    return await _live_names() if command in _OF_JOBS else set()


def _options(command: str) -> set[str]:
    from cyclopts import App

    app = App()
    app.command(import_path(command), name=command)
    found = app[command].assemble_argument_collection()
    return {name for one in found for name in one.names if name.startswith("--") and not name.startswith("--no-")}


async def _live_names(*, queues: bool = False) -> set[str]:
    """Return the names of jobs of the current namespace, or of queues; none if no cluster answers at once."""
    names: list[str] = []
    with suppress(PhalanxError, TimeoutError, OSError):
        async with (
            asyncio.timeout(_PATIENCE_S),
            await Connection.open(find_kubeconfig(Target(), os.environ)) as connection,
        ):
            if queues:
                names = [queue["metadata"]["name"] for queue in (await connection.list(QUEUES))["items"]]
            else:
                namespace = current_namespace(os.environ)
                names = await Finder(connection, namespace).names(namespace)
    return set(names)
