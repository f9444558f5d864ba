"""`phalanx visibility`: serve an API group about waiting jobs, as an aggregated API server of a cluster."""

from __future__ import annotations

import asyncio
import datetime as dt
import logging
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Literal

from phalanx.cli.cluster.monitoring import shown
from phalanx.cli.cluster.target import Target, connected
from phalanx.cli.commands.in_cluster.served_apis import APIS, ServedApi
from phalanx.cli.terminal.output import log_to_stderr, note
from phalanx.cli.terminal.stopping import until_stopped
from phalanx.client.connection import Connection
from phalanx.extensions.aggregation import Answerer, Belief, DelegatedAuthorizer, Handshakes, serving
from phalanx.extensions.webhook.trust import Keeper
from phalanx.metrics import address as addresses
from phalanx.metrics.collector import PassedOn


def visibility(
    *,
    address: str,
    api: Literal["kueue", "phalanx"] = "kueue",
    target: Target | None = None,
    namespace: str = "phalanx-system",
    metrics_address: str | None = None,
    verbose: bool = False,
) -> None:
    """Answer questions about waiting jobs through the API servers of a cluster, until Ctrl-C.

    The command is an aggregated API server: the API servers of the cluster forward all requests for one API group to
    it. It works without a scheduler and changes no job.

    - `--api kueue`: visibility.kueue.x-k8s.io, the pending Workloads of each queue and their positions. kueuectl and
      dashboards find this API at the same path as Kueue's own. deploy/components/kueue-visibility installs it.
    - `--api phalanx`: visibility.phalanx.dev, numbers that every user may read: the status of each queue, and why each
      job of the user waits, without the names of other jobs. deploy/components/numbers installs it.

    Only API servers can connect, because the client needs the front proxy's certificate. (The ConfigMap
    kube-system/extension-apiserver-authentication has the authority of this certificate.) The API server decides
    whether the user may read the response. The process creates and renews its own certificate, as the webhook does.

    For example:

        phalanx visibility --address 0.0.0.0:8443
        phalanx visibility --address 0.0.0.0:8443 --api phalanx

    Parameters
    ----------
    address
        The address on which API servers reach this server, HOST:PORT.
    api
        The API group to serve: kueue or phalanx.
    namespace
        The namespace of the server's Secret and Service (phalanx-visibility, or phalanx-numbers for `--api phalanx`).
    metrics_address
        Serve /metrics (for Prometheus), /healthz and /readyz at this address, over plain HTTP and without a token.
    verbose
        Log more details to standard error.
    """
    log_to_stderr(logging.INFO if verbose else logging.WARNING)
    where = addresses.address(address)
    watched = None if metrics_address is None else addresses.address(metrics_address)
    asyncio.run(_serve(target, APIS[api], namespace, where, watched))


async def _serve(
    target: Target | None,
    served: ServedApi,
    namespace: str,
    where: tuple[str, int],
    watched: tuple[str, int] | None,
) -> None:
    async with (
        connected(target) as api,
        visible(api, served, namespace, where) as seen,
        shown(watched, seen.counts, seen.wrong),
    ):
        note(f"answering at https://{addresses.place((where[0], seen.port))}/apis/{served.group}; Ctrl-C stops it")
        await until_stopped(seen.keep())


class Visible:
    """The aggregated API server of one process. `port`: the port on which it listens."""

    def __init__(self, api: Connection, served: ServedApi, namespace: str, host: str) -> None:
        self.port = 0
        self.counts = PassedOn()
        self.handshakes = Handshakes()
        self.belief = Belief(api, self.handshakes.believe)
        names = [f"{served.service}.{namespace}.svc", host]
        self.keeper = Keeper(
            api, namespace, names, self.handshakes.show, lambda: dt.datetime.now(dt.UTC), called=served.called
        )
        self.counts.ends_s = lambda: self.keeper.ends_s
        self._source = served.source(api)
        access = DelegatedAuthorizer(api, time.monotonic)
        self.answerer = Answerer(
            served.resources, self._source.view, access, lambda: self.belief.proxy, self.counts.count
        )

    def wrong(self) -> str:
        """Return the reason why the server cannot answer requests; "" if it answers them."""
        unread = self._source.unread()
        return self.belief.wrong() or self.keeper.wrong() or (f"{unread} are not read yet" if unread else "")

    async def keep(self) -> None:
        """Keep the caches of objects, the server's certificate and the front proxy's authority up to date, until
        cancelled."""
        async with asyncio.TaskGroup() as group:
            for keep in (self._source.keep, self.keeper.keep, self.belief.keep):
                group.create_task(keep())


@asynccontextmanager
async def visible(api: Connection, served: ServedApi, namespace: str, where: tuple[str, int]) -> AsyncIterator[Visible]:
    """Listen on the port while the context is open, and yield the server. The caller must run `Visible.keep`. Raises
    PhalanxError if the port cannot be opened."""
    found = Visible(api, served, namespace, where[0])
    async with serving(where, found.handshakes, found.answerer) as found.port:
        yield found
