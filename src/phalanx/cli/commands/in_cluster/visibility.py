"""`phalanx visibility`: Kueue's visibility API in a cluster, as an aggregated API server."""

from __future__ import annotations

import asyncio
import datetime as dt
import logging
import time
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Final

from phalanx.aggregation.access import Access
from phalanx.aggregation.belief import Belief
from phalanx.aggregation.serving import Answerer, Handshakes, Object, serving
from phalanx.cli.cluster.monitoring import shown
from phalanx.cli.cluster.target import Target, connected
from phalanx.cli.terminal.output import log_to_stderr, note
from phalanx.cli.terminal.stopping import until_stopped
from phalanx.client.connection import Connection
from phalanx.client.informer import Informer
from phalanx.client.kind import Kind
from phalanx.dialects.kueue import kinds
from phalanx.dialects.kueue.answers.pending import Lean, of_workloads
from phalanx.embedded.apiserver.endpoints.subresources.aggregated import AGGREGATED
from phalanx.metrics import serving as monitoring
from phalanx.metrics.passed_on import PassedOn
from phalanx.webhook.trust import Called, Keeper

READ: Final = (kinds.CLUSTER_QUEUES, kinds.LOCAL_QUEUES, kinds.WORKLOADS)
API_SERVICES: Final = Kind(group="apiregistration.k8s.io", plural="apiservices", name="APIService", namespaced=False)
SERVICE: Final = "phalanx-visibility"
CALLED: Final = Called(
    kept_in=SERVICE,
    kind=API_SERVICES,
    names=tuple(f"{one.version}.{kinds.VISIBILITY}" for one in AGGREGATED if one.kind == "ClusterQueue"),
    told=lambda service: [service["spec"]],
    made_by="deploy/components/kueue-visibility",
)


def visibility(
    *,
    address: str,
    target: Target | None = None,
    namespace: str = "phalanx-system",
    metrics_address: str | None = None,
    verbose: bool = False,
) -> None:
    """Serve Kueue's visibility API in a cluster, until Ctrl-C: the pending Workloads, and their positions.

    This is an aggregated API server: the API servers of the cluster forward requests for visibility.kueue.x-k8s.io to
    it. So `kubectl get --raw` and kueuectl find it under the same address as Kueue's own. It reads the Workloads,
    LocalQueues and ClusterQueues of the cluster, needs no scheduler, and changes nothing.
    deploy/components/kueue-visibility runs two replicas; both serve requests.

    Only an API server may name the user of a request. It proves itself by a certificate of the front proxy's authority,
    which the ConfigMap extension-apiserver-authentication in kube-system contains. The API server then decides whether
    the user may read. The server creates and renews its own certificate, as the webhook does.

    For example:

        phalanx visibility --address 0.0.0.0:8443

    Parameters
    ----------
    address
        The address on which API servers reach this server, HOST:PORT.
    namespace
        The namespace of its Secret and of the Service phalanx-visibility, whose name the certificate has.
    metrics_address
        Serve /metrics (for Prometheus), /healthz and /readyz there, over plain HTTP and without a token.
    verbose
        Log more details to standard error.
    """
    log_to_stderr(logging.INFO if verbose else logging.WARNING)
    where = monitoring.address(address)
    watched = None if metrics_address is None else monitoring.address(metrics_address)
    asyncio.run(_serve(target, namespace, where, watched))


async def _serve(
    target: Target | None, namespace: str, where: tuple[str, int], watched: tuple[str, int] | None
) -> None:
    async with (
        connected(target) as api,
        visible(api, namespace, where) as seen,
        shown(watched, seen.counts, seen.wrong),
    ):
        note(f"answering at https://{monitoring.place((where[0], seen.port))}/apis/{kinds.VISIBILITY}; Ctrl-C stops it")
        await until_stopped(seen.keep())


class Visible:
    """The aggregated API server of one process. `port`: where it listens."""

    def __init__(self, api: Connection, namespace: str, host: str) -> None:
        self.port = 0
        self.counts = PassedOn()
        self.handshakes = Handshakes()
        self.belief = Belief(api, self.handshakes.believe)
        names = [f"{SERVICE}.{namespace}.svc", host]
        self.keeper = Keeper(
            api, namespace, names, self.handshakes.show, lambda: dt.datetime.now(dt.UTC), called=CALLED
        )
        self.counts.ends_s = lambda: self.keeper.ends_s
        self._caches = {kind: Informer(api, kind, lean=Lean) for kind in READ}
        access = Access(api, time.monotonic)
        self.answerer = Answerer(AGGREGATED, self._view, access, lambda: self.belief.proxy, self.counts.count)

    def wrong(self) -> str:
        """Return why nobody is answered; empty: nothing."""
        unread = next((kind.plural for kind, cache in self._caches.items() if not cache.synced.is_set()), "")
        return self.belief.wrong() or self.keeper.wrong() or (f"{unread} are not read yet" if unread else "")

    async def keep(self) -> None:
        """Keep the caches, the certificate and the front proxy's authority up to date until cancelled."""
        async with asyncio.TaskGroup() as group:
            for cache in self._caches.values():
                group.create_task(cache.run())
            group.create_task(self.keeper.keep())
            group.create_task(self.belief.keep())

    def _view(self, path: tuple[str, ...], query: Mapping[str, str]) -> Object | None:
        if not all(cache.synced.is_set() for cache in self._caches.values()):
            return None
        return of_workloads({kind: cache.objects for kind, cache in self._caches.items()}, path, query)


@asynccontextmanager
async def visible(api: Connection, namespace: str, where: tuple[str, int]) -> AsyncIterator[Visible]:
    """Serve on the port for the length of the context. The caller must also run `Visible.keep`. Raises PhalanxError."""
    found = Visible(api, namespace, where[0])
    async with serving(where, found.handshakes, found.answerer) as found.port:
        yield found
