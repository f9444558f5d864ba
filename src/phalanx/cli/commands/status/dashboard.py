"""`phalanx dashboard`: serve a page that shows the cluster in a browser."""

from __future__ import annotations

import asyncio
import contextlib
import getpass
import logging
import os
import shlex
import sys
import time
import webbrowser
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter
from cyclopts.validators import Number

from phalanx.cli.cluster.live_state.access import seen_namespace
from phalanx.cli.cluster.target import Namespace, Target, connected, find_ledger_of
from phalanx.cli.terminal.output import log_to_stderr, note
from phalanx.cli.terminal.stopping import until_stopped
from phalanx.cli.views.page.agents import ClusterAgent, admitted, user_of
from phalanx.cli.views.page.entrance import Entrance
from phalanx.cli.views.page.following import Following
from phalanx.cli.views.page.study import read_state
from phalanx.client.connection import Connection
from phalanx.dashboard.access import Doorkeeper, Viewer
from phalanx.dashboard.libraries import require
from phalanx.dashboard.rows import Board, Facts
from phalanx.dashboard.serving import Page, served_files, serving
from phalanx.dashboard.sign_in import SignIn
from phalanx.metrics import address as addresses


async def dashboard(
    *,
    port: Annotated[int, Parameter(validator=Number(gte=0, lte=65535))] = 0,
    open: bool = False,
    read_only: bool = False,
    state: Path | None = None,
    target: Target | None = None,
    space: Namespace | None = None,
    ledger: str | None = None,
    entrance: Entrance | None = None,
) -> None:
    """Serve a page that shows the cluster, until Ctrl-C: why each job waits, when it is expected to start, what would
    start it sooner, and which job preempted it.

    The page is served at 127.0.0.1, so only this machine can reach it. The printed link opens one session in one
    browser. The page shows the objects that your kubeconfig may read. On the page you can cancel, hold and release
    jobs, with your own rights. With --sign-in all users of a cluster can use the page; deploy/components/dashboard runs
    it in this way.

    For example:

        phalanx dashboard --open
        phalanx dashboard --kubeconfig ~/.kube/prod --port 8099 --read-only

    Parameters
    ----------
    port
        The port; 0 chooses a free port.
    open
        Open the page in this machine's browser.
    read_only
        Serve the page without actions, so that it cannot cancel, hold or release jobs.
    state
        Show a state file of `phalanx simulate --state` or `phalanx replay --state` instead of a cluster.
    ledger
        The database of past jobs, for the views Time and Shares. [default: $PHALANX_LEDGER, else the ledger beside the
        kubeconfig]
    """
    entrance = entrance or Entrance()
    entrance.public()
    require(note)
    if state is not None:
        await _serve_study(state, port, open)
        return
    async with connected(target) as connection:
        url = ledger or find_ledger_of(target, os.environ)
        facts = Facts(cluster=_cluster(connection), past=url is not None, terminal=_terminal(target))
        if entrance.sign_in:
            await _serve_all(connection, Following(connection, facts, "", url), url, port, entrance, acts=not read_only)
            return
        namespace = await seen_namespace(connection, (space or Namespace()).namespace)
        seen, agent = frozenset({namespace}) if namespace else None, ClusterAgent(connection, url)
        door = Doorkeeper(Viewer(name=await user_of(connection), namespaces=seen, agent=agent), time.monotonic)
        following = Following(connection, facts, namespace, url)
        page = Page(following, door, served_files(), Board(), acts=not read_only)
        async with serving(page, port):
            await _print_link(door.link, open)
            with contextlib.suppress(asyncio.CancelledError):
                await until_stopped(following.run(page.publish))


async def _print_link(link: str, opens: bool) -> None:
    how = "\n\nOpen this link in a browser. Ctrl-C stops the page." if sys.stdout.isatty() else ""
    print(f"{link}{how}", flush=True)
    if opens and not await asyncio.to_thread(webbrowser.open, link):
        note("no browser could be started; open the link yourself")


async def _nothing_more() -> None:
    await asyncio.Event().wait()


async def _serve_study(file: Path, port: int, opens: bool) -> None:
    """Serve the page for a state file. The content of the page does not change."""
    shown, study = read_state(file)
    door = Doorkeeper(Viewer(name=getpass.getuser()), time.monotonic)
    page = Page(study, door, served_files(), Board(), acts=False)
    page.publish(shown)
    async with serving(page, port):
        await _print_link(door.link, opens)
        with contextlib.suppress(asyncio.CancelledError):
            await until_stopped(_nothing_more())


async def _serve_all(
    connection: Connection, following: Following, ledger: str | None, port: int, entrance: Entrance, *, acts: bool
) -> None:
    """Serve the page to all users of the cluster. A user can read and change only those objects that the user's own
    rights allow."""
    log_to_stderr(logging.INFO)
    door = SignIn(
        lambda credential: admitted(connection, credential, ledger),
        time.monotonic,
        hosts=entrance.host,
        proxies=entrance.proxy_name,
    )
    page = Page(following, door, served_files(), Board(), acts=acts)
    door.namespaces = lambda: page.namespaces
    public = entrance.public()
    context, files = entrance.tls() if public is not None else (None, None)
    async with serving(page, port, public, context) as local, asyncio.TaskGroup() as group:
        where = f" and https://{addresses.place(public)}" if public is not None else ""
        note(f"the page is at http://127.0.0.1:{local}{where}; Ctrl-C stops it")
        renewing = group.create_task(files.keep()) if files is not None else None
        with contextlib.suppress(asyncio.CancelledError):
            await until_stopped(following.run(page.publish))
        if renewing is not None:
            renewing.cancel()


def _cluster(connection: Connection) -> str:
    """Return a short name of the cluster: the host of its API server."""
    return connection.server.partition("://")[2]


def _terminal(target: Target | None) -> str:
    """Return the options that the page adds to the commands it shows, so that these commands reach the same cluster
    from any directory."""
    words = []
    if target is not None and target.kubeconfig is not None:
        words += ["--kubeconfig", str(target.kubeconfig.expanduser().absolute())]
    if target is not None and target.context is not None:
        words += ["--context", target.context]
    return "".join(f" {shlex.quote(word)}" for word in words)
