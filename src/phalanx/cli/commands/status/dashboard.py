"""`phalanx dashboard`: the page that shows the cluster in a browser."""

from __future__ import annotations

import asyncio
import contextlib
import getpass
import os
import shlex
import sys
import time
import webbrowser
from typing import Annotated

from cyclopts import Parameter
from cyclopts.validators import Number

from phalanx.cli.cluster.live_state import seen_namespace
from phalanx.cli.cluster.target import Namespace, Target, connected, find_ledger_of
from phalanx.cli.terminal.output import note
from phalanx.cli.terminal.stopping import until_stopped
from phalanx.cli.views.page.following import Following
from phalanx.client.connection import ApiError, Connection
from phalanx.client.kind import Kind
from phalanx.dashboard.access import Doorkeeper, Viewer
from phalanx.dashboard.changes import Board
from phalanx.dashboard.libraries import require
from phalanx.dashboard.rows import Facts
from phalanx.dashboard.serving import Page, served_files, serving

_SELF = Kind(group="authentication.k8s.io", plural="selfsubjectreviews", name="SelfSubjectReview", namespaced=False)


async def dashboard(
    *,
    port: Annotated[int, Parameter(validator=Number(gte=0, lte=65535))] = 0,
    open: bool = False,
    target: Target | None = None,
    space: Namespace | None = None,
    ledger: str | None = None,
) -> None:
    """Serve a page that shows the cluster, until Ctrl-C: why each job waits, when it is expected to start, what would
    start it sooner, and which job preempted it.

    The page is for this machine only: it is served at 127.0.0.1. The printed link opens one session, in one browser.
    The page shows what your kubeconfig may read, and changes nothing.

    For example:

        phalanx dashboard --open
        phalanx dashboard --kubeconfig ~/.kube/prod --port 8099

    Parameters
    ----------
    port
        The port; 0 takes any free one.
    open
        Open the page in this machine's browser.
    ledger
        The database of past jobs, for the views Time and Shares. [default: $PHALANX_LEDGER, else that beside the
        kubeconfig]
    """
    require(note)
    async with connected(target) as connection:
        namespace = await seen_namespace(connection, (space or Namespace()).namespace)
        url = ledger or find_ledger_of(target, os.environ)
        user = await _user(connection)
        facts = Facts(cluster=_cluster(connection), user=user, past=url is not None, terminal=_terminal(target))
        following = Following(connection, facts, namespace, url)
        viewer = Viewer(name=user, namespaces=frozenset({namespace}) if namespace else None)
        page = Page(following, Doorkeeper(viewer, time.monotonic), served_files(), Board())
        async with serving(page, port):
            link = page.doorkeeper.link
            print(link if not sys.stdout.isatty() else f"{link}\n\nOpen this link in a browser. Ctrl-C stops the page.")
            sys.stdout.flush()
            if open and not await asyncio.to_thread(webbrowser.open, link):
                note("no browser could be started; open the link by hand")
            with contextlib.suppress(asyncio.CancelledError):
                await until_stopped(following.run(page.publish))


async def _user(connection: Connection) -> str:
    """Return the name under which the cluster knows this user; else that of this machine."""
    try:
        answer = await connection.create(_SELF, {"apiVersion": _SELF.api_version, "kind": _SELF.name})
        return str(answer["status"]["userInfo"]["username"])
    except (ApiError, KeyError, TypeError):
        return getpass.getuser()


def _cluster(connection: Connection) -> str:
    """Return a short name of the cluster: the host of its API server."""
    return connection.server.partition("://")[2]


def _terminal(target: Target | None) -> str:
    """Return the options with which commands reach the same cluster."""
    if target is None or target.kubeconfig is None:
        return ""
    context = f" --context {shlex.quote(target.context)}" if target.context else ""
    return f" --kubeconfig {shlex.quote(str(target.kubeconfig))}{context}"
