"""Choose the cluster of a command, and connect to it.

The kubeconfig is the first of these: `--kubeconfig`; `$KUBECONFIG`; the kubeconfig of a running `phalanx up` in the
default data directory; the configuration that kubectl would use, which is `~/.kube/config` or, inside a pod, the pod's
service account.
"""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from phalanx.cli.local.data_directory import default_directory, is_running
from phalanx.client.access.kubeconfig import context_namespace
from phalanx.client.connection import ApiRefusal, ApiUnknown, Connection
from phalanx.client.kind import NAMESPACES
from phalanx.errors import PhalanxError
from phalanx.ledger.entry import FILE, url_of

_SERVICE_ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount/token")
_NAMESPACE = Parameter(alias="-n", show_default=False)


@Parameter(name="*")
@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """The options of all commands that connect to a cluster."""

    kubeconfig: Path | None = None
    """The kubeconfig of the cluster. [default: $KUBECONFIG, else that of a running `phalanx up`, else
    ~/.kube/config]"""

    context: str | None = None
    """The context in the kubeconfig. [default: its current context]"""


@Parameter(name="*")
@dataclass(frozen=True, slots=True, kw_only=True)
class Namespace:
    """The option of commands for a single object."""

    namespace: Annotated[str, _NAMESPACE] = field(default_factory=lambda: current_namespace(os.environ))
    """The namespace. [default: the namespace of the kubeconfig's current context, else `default`]"""


@Parameter(name="*")
@dataclass(frozen=True, slots=True, kw_only=True)
class Scope:
    """The options of commands that list namespaced objects."""

    namespace: Annotated[str, _NAMESPACE] = field(default_factory=lambda: current_namespace(os.environ))
    """The namespace. [default: the namespace of the kubeconfig's current context, else `default`]"""

    all_namespaces: Annotated[bool, Parameter(alias="-A")] = False
    """All namespaces."""

    @property
    def one(self) -> str:
        """Return the namespace; "" for all namespaces."""
        return "" if self.all_namespaces else self.namespace


def find_kubeconfig(target: Target, environment: Mapping[str, str]) -> Path | None:
    """Return the kubeconfig that the user named, or else the kubeconfig of the running local cluster. Return None if
    kubectl's rules apply ($KUBECONFIG, ~/.kube/config, service account).

    Raises PhalanxError if no kubeconfig can be found."""
    if target.kubeconfig is not None:
        return target.kubeconfig.expanduser()
    if environment.get("KUBECONFIG"):
        return None
    directory = default_directory(environment)
    if is_running(directory) and directory.kubeconfig.exists():
        return directory.kubeconfig
    if Path(environment.get("HOME", "/"), ".kube", "config").exists() or _SERVICE_ACCOUNT.exists():
        return None
    raise PhalanxError(
        f"no cluster is configured: there is no --kubeconfig, no KUBECONFIG, no `phalanx up` in {directory.path} and "
        "no "
        "~/.kube/config. Start a cluster with `phalanx up`; if one runs in another directory, add --kubeconfig "
        "DIR/kubeconfig."
    )


def find_ledger_of(target: Target | None, environment: Mapping[str, str]) -> str | None:
    """Return the URL of the cluster's ledger: the URL in $PHALANX_LEDGER, or else that of a readable ledger file in the
    directory of the kubeconfig; None if neither exists."""
    if url := environment.get("PHALANX_LEDGER", ""):
        return url
    chosen = find_kubeconfig(target or Target(), environment) or environment.get("KUBECONFIG", "").partition(":")[0]
    beside = Path(chosen).parent / FILE if chosen else None
    return url_of(beside) if beside is not None and os.access(beside, os.R_OK) else None


def current_namespace(environment: Mapping[str, str]) -> str:
    """Return the namespace of the current context in the default kubeconfig."""
    try:
        chosen = find_kubeconfig(Target(), environment)
        files = environment.get("KUBECONFIG", "").split(":") if chosen is None else [str(chosen)]
        home = str(Path(environment.get("HOME", "/"), ".kube", "config"))
        return context_namespace([Path(one) for one in filter(None, files)] or [Path(home)])
    except (PhalanxError, OSError):  # `connected` reports the error later
        return "default"


@asynccontextmanager
async def connected(target: Target | None) -> AsyncIterator[Connection]:
    """Yield a connection to the cluster, after a first request has succeeded. Raises PhalanxError if no server answers,
    or if the server refuses the credentials."""
    target = target or Target()
    kubeconfig = find_kubeconfig(target, os.environ)
    async with await Connection.open(kubeconfig, target.context) as connection:
        where = f"{connection.server} ({kubeconfig or os.environ.get('KUBECONFIG') or '~/.kube/config'})"
        try:
            await connection.request("GET", "/version")
        except ApiUnknown as error:
            raise PhalanxError(
                f"the API server at {where} does not answer: {error}. Nothing was done. Is it running? "
                "`phalanx up` starts a local cluster."
            ) from error
        except ApiRefusal as error:
            raise PhalanxError(
                f"the API server at {where} refuses the credentials: {error.message}. Nothing was done. "
                "Name another kubeconfig with --kubeconfig, or renew its credentials."
            ) from error
        yield connection


async def require_namespace(connection: Connection, namespace: str) -> None:
    """Raise PhalanxError if the server reports that the namespace does not exist. Callers use this function when they
    found no object in the namespace."""
    try:
        await connection.get(NAMESPACES, namespace)
    except ApiRefusal as error:
        if error.code != 404:  # the user may not read namespaces, so the namespace may exist
            return
        raise PhalanxError(
            f"there is no namespace {namespace} at {connection.server}. `kubectl get namespaces` lists the "
            f"namespaces; `kubectl create namespace {namespace}` creates it."
        ) from error
