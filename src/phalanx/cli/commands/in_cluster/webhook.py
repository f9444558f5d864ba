"""`phalanx webhook`: the admission webhook for Jobs, for API servers without MutatingAdmissionPolicy."""

from __future__ import annotations

import asyncio
import datetime as dt
import logging
import ssl
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

from phalanx.cli.cluster.monitoring import shown
from phalanx.cli.cluster.target import Target, connected
from phalanx.cli.terminal.output import log_to_stderr, note
from phalanx.cli.terminal.stopping import until_stopped
from phalanx.embedded.apiserver.auth.authority import Pair
from phalanx.errors import PhalanxError
from phalanx.extensions.webhook.serving import Files, ReviewAnswerer, serving, show, tls_context
from phalanx.extensions.webhook.trust import Keeper
from phalanx.kube.install.admission_policy import PATH, SERVICE, SERVICE_NAMESPACE
from phalanx.metrics import address as addresses
from phalanx.metrics.admissions import Admissions

Verdict = Callable[[], str]
Keeping = Callable[[], Coroutine[Any, Any, None]]


def webhook(
    *,
    address: str,
    target: Target | None = None,
    namespace: str = SERVICE_NAMESPACE,
    tls_cert: Path | None = None,
    tls_key: Path | None = None,
    metrics_address: str | None = None,
    verbose: bool = False,
) -> None:
    """Prepare Jobs for Phalanx when they are created, on Kubernetes 1.29 to 1.35, until Ctrl-C.

    From 1.36 on, API servers do this themselves (MutatingAdmissionPolicy), and this webhook is not needed. Older API
    servers call this webhook for each new Job with the label `phalanx.dev/queue`. The webhook suspends the Job, sets
    its scheduler to phalanx, and adds an annotation with the name of its creator, exactly as the policies do.
    deploy/overlays/webhook installs two replicas and the configuration with which API servers call them; both replicas
    serve requests. While no replica runs, Jobs with the label cannot be created; other objects are not affected.

    The webhook creates its certificate, and renews it before it expires. The replicas share a certificate authority in
    the Secret phalanx-webhook. The webhook writes this authority into its configuration object, so that API servers
    trust the certificate. Instead you can name certificate files that another program renews.

    For example:

        phalanx webhook --address 0.0.0.0:8443
        phalanx webhook --address 0.0.0.0:8443 --tls-cert /tls/tls.crt --tls-key /tls/tls.key

    Parameters
    ----------
    address
        The address on which API servers reach the webhook, HOST:PORT. Requests need no token, because API servers send
        none to webhooks. A response contains only changes to the Job in the request.
    namespace
        The namespace of the webhook's Secret and of its Service phalanx-webhook. The certificate is issued for the DNS
        name of the Service.
    tls_cert
        A file with the certificate and its chain, in PEM; the webhook reads it again when it changes. Needs --tls-key.
        With this option the webhook reads and writes nothing in the cluster, so you must set caBundle for the API
        servers yourself.
    tls_key
        A file with the private key of the certificate, in PEM.
    metrics_address
        Serve /metrics (for Prometheus), /healthz and /readyz at this address, over plain HTTP and without a token.
    verbose
        Log more details to standard error.
    """
    log_to_stderr(logging.INFO if verbose else logging.WARNING)
    where = addresses.address(address)
    watched = None if metrics_address is None else addresses.address(metrics_address)
    if (tls_cert is None) != (tls_key is None):
        raise PhalanxError("a certificate and its key belong together: name both --tls-cert and --tls-key, or neither")
    names = [f"{SERVICE}.{namespace}.svc", where[0]]
    context, admissions = tls_context(), Admissions()
    if tls_cert is not None and tls_key is not None:
        files = Files(context, tls_cert, tls_key)
        asyncio.run(_serve(where, watched, context, admissions, lambda: "", files.keep))
    else:
        asyncio.run(_with_its_own(target, namespace, names, where, watched, context, admissions))


async def _with_its_own(
    target: Target | None,
    namespace: str,
    names: list[str],
    where: tuple[str, int],
    watched: tuple[str, int] | None,
    context: ssl.SSLContext,
    admissions: Admissions,
) -> None:
    async with connected(target) as connection:
        take: Callable[[Pair], None] = lambda pair: show(context, pair)  # noqa: E731 (it is passed on, not called)
        keeper = Keeper(connection, namespace, names, take, lambda: dt.datetime.now(dt.UTC))
        admissions.ends_s = lambda: keeper.ends_s
        await _serve(where, watched, context, admissions, keeper.wrong, keeper.keep)


async def _serve(
    where: tuple[str, int],
    watched: tuple[str, int] | None,
    context: ssl.SSLContext,
    admissions: Admissions,
    ready: Verdict,
    keep: Keeping,
) -> None:
    async with shown(watched, admissions, ready), serving(where, context, ReviewAnswerer(admissions)) as port:
        note(f"answering at https://{addresses.place((where[0], port))}{PATH}; Ctrl-C stops it")
        await until_stopped(keep())
