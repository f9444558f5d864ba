"""`phalanx complete -- WORDS`: print completions of the last word. The scripts of `phalanx completion` call this
command."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from itertools import pairwise
from typing import TYPE_CHECKING

from phalanx.cli.cluster.jobs.finding import Finder
from phalanx.cli.cluster.target import Target, current_namespace, find_kubeconfig
from phalanx.cli.commands.overview import COMMANDS, import_path
from phalanx.client.connection import Connection
from phalanx.client.kind import NAMESPACES, NODES
from phalanx.errors import PhalanxError
from phalanx.kube.install.definitions import QUEUES

if TYPE_CHECKING:
    from cyclopts import App

_OF_JOBS = frozenset(
    {
        *("logs", "wait", "cancel", "hold", "release", "rerun", "attach", "shell", "cp", "port-forward"),
        *("explain", "history", "jobs"),
    }
)
_OF_QUEUES = frozenset({"edit", "drain", "delete"})  # subcommands of `phalanx queue` that take the name of a queue
_PATIENCE_S = 2.0  # wait at most this long for the cluster, because the user has pressed Tab
_NAMESPACE = ("-n", "--namespace")


async def complete(*words: str) -> None:
    """Print the completions of the last word, one on each line.

    For example:

        phalanx complete -- logs tr
    """
    last = words[-1] if words else ""
    for word in sorted(await candidates(words)):
        if word.startswith(last):
            print(word)


async def candidates(words: Sequence[str]) -> set[str]:
    """Return all possible values of the last word; empty if the word is a file name, or if no value is known."""
    if len(words) <= 1:
        return set(COMMANDS)
    command, before, last = words[0], words[-2], words[-1]
    if command not in COMMANDS or "--" in words[:-1]:
        return set()
    if before in _VALUES:
        return await _ask(lambda connection: _VALUES[before](connection, _namespace(words)))
    if before.startswith("-") and (choices := _choices(words)):
        return choices
    if last.startswith("-"):
        return _options(words)
    if command == "queue" and words[1] in _OF_QUEUES and len(words) > 2:
        return await _ask(lambda connection: _queues(connection, ""))
    if command in _OF_JOBS:
        return await _ask(lambda connection: _jobs(connection, _namespace(words)))
    return _subcommands(command) if len(words) == 2 else set()


# --- values that the command line defines ---------------------------------------------------------------------------


def _app(words: Sequence[str]) -> App:
    """Return the command that the words name, or its subcommand."""
    from cyclopts import App, Parameter

    app = App(default_parameter=Parameter(negative=()))
    app.command(import_path(words[0]), name=words[0])
    found = app[words[0]]
    return found[words[1]] if len(words) > 2 and words[1] in set(found) else found


def _options(words: Sequence[str]) -> set[str]:
    found = _app(words).assemble_argument_collection()
    return {name for one in found for name in one.names if name.startswith("--")}


def _choices(words: Sequence[str]) -> set[str]:
    """Return the possible values of the option before the last word, if the option has a fixed list of values."""
    found = (one for one in _app(words).assemble_argument_collection() if words[-2] in one.names)
    return {choice for one in found for choice in one.get_choices() or ()}


def _subcommands(command: str) -> set[str]:
    from cyclopts import App

    app = App(help_flags=(), version_flags=())
    app.command(import_path(command), name=command)
    return {name for name in app[command] if not name.startswith("-")}


def _namespace(words: Sequence[str]) -> str:
    """Return the namespace that an option in `words` names, or else the current namespace of the kubeconfig."""
    said = [value for option, value in pairwise(words[:-1]) if option in _NAMESPACE]
    return said[-1] if said else current_namespace(os.environ)


# --- values that exist in the cluster -------------------------------------------------------------------------------


async def _ask(asked: Callable[[Connection], Awaitable[set[str]]]) -> set[str]:
    """Call `asked` with a connection and return the names from the cluster; empty if no cluster responds within
    `_PATIENCE_S`."""
    with suppress(PhalanxError, TimeoutError, OSError):
        async with (
            asyncio.timeout(_PATIENCE_S),
            await Connection.open(find_kubeconfig(Target(), os.environ)) as connection,
        ):
            return await asked(connection)
    return set()


async def _jobs(connection: Connection, namespace: str) -> set[str]:
    return set(await Finder(connection, namespace).names(namespace))


async def _queues(connection: Connection, namespace: str) -> set[str]:
    return {one["metadata"]["name"] for one in (await connection.list(QUEUES))["items"]}


async def _namespaces(connection: Connection, namespace: str) -> set[str]:
    return {one["metadata"]["name"] for one in (await connection.list(NAMESPACES))["items"]}


async def _nodes(connection: Connection, namespace: str) -> set[str]:
    return {one["metadata"]["name"] for one in (await connection.list(NODES))["items"]}


# option -> a function that takes a connection and a namespace, and returns the possible values of the option
_VALUES: Mapping[str, Callable[[Connection, str], Awaitable[set[str]]]] = {
    **dict.fromkeys(("-q", "--queue", "--parent"), _queues),
    **dict.fromkeys(_NAMESPACE, _namespaces),
    **dict.fromkeys(("--after", "--depends-on"), _jobs),
    "--like": _nodes,
}
