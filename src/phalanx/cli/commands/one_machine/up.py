"""`phalanx up`: run a Kubernetes cluster on this machine, until Ctrl-C.

This process starts the other processes of the cluster, and starts them again if they end. Code for rare options (a
policy, a recording, metrics, `--stop-pods`) is imported only if the option is given. The import of this code, which
includes most of the scheduler, would double the time until the first line is printed."""

from __future__ import annotations

import asyncio
import contextlib
import os
import sys
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter
from cyclopts.validators import Number

from phalanx.cli.local.data_directory import DataDirectory, chosen_directory
from phalanx.cli.local.draining import running_pods, uncordon
from phalanx.cli.local.local_cluster import LocalCluster, LocalMachines, free_port, running
from phalanx.cli.local.supervisor import Child, SupervisedProgram
from phalanx.cli.terminal.output import counted
from phalanx.cli.terminal.stopping import StopWish, stop_wish
from phalanx.client.connection import ApiError, Connection
from phalanx.client.kind import NODES

_PATIENCE_S = 300.0  # how long `--detach` waits until the cluster is ready
_ENFORCED = (
    "ResourceLimitsEnforced",
    "ImagesSupported",
    "CpusStatic",
    "NetworkIsolated",
)  # conditions of this machine's Node object; the status False means that a limit is not enforced


@Parameter(name="*")
@dataclass(frozen=True, slots=True, kw_only=True)
class PageOptions:
    """The options of the page that `phalanx dashboard` shows in a browser."""

    dashboard: bool = False
    """Also serve the page of `phalanx dashboard`, and print its link."""

    dashboard_port: Annotated[int, Parameter(validator=Number(gte=0, lte=65535))] = 0
    """The port of this page; 0 chooses a free port."""

    def required_port(self) -> int | None:
        """Return the port of the page; None without --dashboard. Before anything starts, install the libraries of the
        page that are missing. Raises PhalanxError if the libraries cannot be installed."""
        if not self.dashboard:
            return None
        from phalanx.dashboard.libraries import require

        require(_say)
        return self.dashboard_port


async def up(
    *,
    data: Path | None = None,
    port: Annotated[int, Parameter(validator=Number(gte=0, lte=65535))] = 6443,
    machines: LocalMachines | None = None,
    policy: Path | None = None,
    record: Path | None = None,
    metrics_address: str | None = None,
    stop_pods: bool = False,
    detach: Annotated[bool, Parameter(alias="-d", negative=())] = False,
    accept_loss: Annotated[bool, Parameter(negative=())] = False,
    page: PageOptions | None = None,
) -> None:
    """Start a Kubernetes on this machine, with Phalanx as its scheduler. Ctrl-C stops it.

    The command serves a real Kubernetes API on the loopback address of this machine, and kubectl and all client
    libraries work with this API. Pods with `image: host` are real processes on this machine. When the command stops,
    running pods go on running, and the next `phalanx up` on the same directory finds them.

    For example:

        phalanx up
        phalanx up --data ./cluster --port 7443
        phalanx up --simulate-nodes 100 --node-cpu 100 --node-gpu 8
        phalanx up --node-group a100-spot=0x8gpu,max=20,delay=3m,price=2.5
        phalanx up --detach && phalanx status && phalanx down
        phalanx up --dashboard --kinds ray,spark
        phalanx up --shared --data /var/lib/phalanx

    Parameters
    ----------
    data
        The directory for all data of the cluster. [default: $XDG_DATA_HOME/phalanx, else ~/.phalanx]
    port
        The port of the API; 0 chooses a free port.
    policy
        The scheduling policy: YAML with backfill, scores, topologies, factors (docs/guide/kubernetes.md describes each
        field), or a Python file that computes priorities (docs/guide/simulate.md).
    record
        Append all events and decisions to this file, for `phalanx replay` and `phalanx whatif`.
    metrics_address
        Serve the scheduler's /metrics, /healthz and /readyz at this address, without a token: 127.0.0.1:9090, for
        example. Port 0 chooses a free port, and the command prints it. docs/guide/metrics.md lists the metrics.
    stop_pods
        When the command stops, also end the pods on this machine. The next `phalanx up` queues their Jobs again.
    detach
        Start the cluster in the background and return when it is ready. `phalanx down` stops it.
    accept_loss
        Start although acknowledged writes are missing or damaged in the database, and accept that they are lost.
    """
    directory = chosen_directory(data, os.environ)
    _check(policy, record)
    _say_missing_controllers(machines := machines or LocalMachines())
    if detach:
        _detach(directory)
        return
    metrics = None if metrics_address is None else _chosen(metrics_address)
    options = _options(policy, record, metrics)
    cluster = running(directory, port, machines, _say, options, accept_loss=accept_loss)
    await _attend(directory, cluster, metrics, stop_pods, (page or PageOptions()).required_port())


def _say_missing_controllers(machines: LocalMachines) -> None:
    """Print which controllers the user must still install for the kinds of `--kinds`."""
    if machines.kinds is not None:
        from phalanx.cli.local.offered_kinds import notes, offered

        for note in notes(offered(machines.kinds)):
            _say(note)


async def _attend(
    directory: DataDirectory,
    cluster: AbstractAsyncContextManager[LocalCluster],
    metrics: tuple[str, int] | None,
    stop_pods: bool,
    page_port: int | None,
) -> None:
    """Run the cluster until a stop signal arrives, and then stop it."""
    with stop_wish() as wish:
        ready = asyncio.Event()
        serving = asyncio.create_task(_serve(directory, cluster, metrics, ready, wish, stop_pods, page_port))
        stopping = asyncio.create_task(wish.wait())
        await asyncio.wait({serving, stopping}, return_when=asyncio.FIRST_COMPLETED)
        stopping.cancel()
        if not ready.is_set():
            serving.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await serving


def _detach(directory: DataDirectory) -> None:
    """Start this command again without `--detach`, as a separate process."""
    from phalanx.cli.local.detached import start

    words = [word for word in sys.argv[1:] if word not in {"--detach", "-d"}]
    _say(f"ready\n\n{start(directory, words, _PATIENCE_S)}\n\n`phalanx down` stops it.")


def _check(policy: Path | None, record: Path | None) -> None:
    """Raise PhalanxError, before anything starts, if the control plane would refuse one of the files."""
    if policy is None and record is None:
        return
    from phalanx.cli.files.policy_file import settings_of

    settings = settings_of(policy)
    if record is not None:
        from phalanx.cli.files.recording import require_recordable

        require_recordable(record, settings.policy)


def _chosen(metrics_address: str) -> tuple[str, int]:
    """Return the host and the port of the metrics. For port 0, this function chooses a free port, so that the address
    of the metrics stays the same when the control plane is started again after a crash."""
    from phalanx.metrics.address import address

    host, port = address(metrics_address)
    return host, port or free_port()


def _options(policy: Path | None, record: Path | None, metrics: tuple[str, int] | None) -> list[str]:
    """Return the command-line arguments of `phalanx control-plane` for these options."""
    said = {
        "--policy": policy and str(policy.resolve()),
        "--record": record and str(record.resolve()),
        "--metrics-address": metrics and f"{metrics[0]}:{metrics[1]}",
    }
    return [f"{name}={value}" for name, value in said.items() if value is not None]


async def _serve(
    directory: DataDirectory,
    starting: AbstractAsyncContextManager[LocalCluster],
    metrics: tuple[str, int] | None,
    ready: asyncio.Event,
    wish: StopWish,
    stop_pods: bool,
    page_port: int | None,
) -> None:
    _say(f"phalanx up: starting in {directory.path}")
    async with starting as cluster, _page(directory, page_port) as link:
        _greet(cluster, metrics, link, await _check_nodes(cluster))
        ready.set()
        await wish.wait()
        _say("stopping")
        farewell = await _farewell(cluster, stop_pods)
    _say(farewell)


async def _check_nodes(cluster: LocalCluster) -> str:
    """Uncordon nodes that a killed `phalanx up` left cordoned. Return text lines about the limits that this machine
    does not enforce, from the conditions of its node; "" if it enforces all."""
    try:
        async with await Connection.open(cluster.directory.kubeconfig) as connection:
            await uncordon(connection)
            nodes = (await connection.list(NODES))["items"]
    except ApiError:  # the log of the control plane reports the error too
        return ""
    said = [one for node in nodes for one in (node.get("status") or {}).get("conditions") or ()]
    told = [one["message"] for one in said if (one["type"] in _ENFORCED, one["status"]) == (True, "False")]
    return "".join(f"\n  not enforced: {text}" for text in told)


@asynccontextmanager
async def _page(directory: DataDirectory, port: int | None) -> AsyncIterator[str]:
    """Serve the page while the context is open, and yield the link to it. Yield "" and serve nothing if `port` is
    None."""
    if port is None:
        yield ""
        return
    program = SupervisedProgram(
        name="dashboard",
        argv=(
            *(sys.executable, "-m", "phalanx.cli.app", "dashboard"),
            *("--kubeconfig", str(directory.kubeconfig), "--port", str(port)),
        ),
        log=directory.log("dashboard"),
    )
    child = Child(program, lambda text: _say(f"{text}: {child.said}" if text.endswith("is back") else text))
    await child.start()
    keeping = asyncio.create_task(child.keep())
    try:
        yield child.said
    finally:
        keeping.cancel()
        await child.stop()


def _greet(cluster: LocalCluster, metrics: tuple[str, int] | None, link: str, unenforced: str) -> None:
    kubeconfig = cluster.directory.kubeconfig
    also = _metrics_line(metrics) if metrics is not None else ""
    also += f"\n  page        {link}" if link else ""
    _say(
        f"""ready

  API         {cluster.url}
  kubeconfig  {kubeconfig}{also}{unenforced}

Try, in another terminal:

  export KUBECONFIG={kubeconfig}
  kubectl get nodes
  phalanx run -- echo hello
  phalanx jobs
  phalanx dashboard --open

Ctrl-C stops it; running pods go on, and the next `phalanx up` finds them."""
    )


def _metrics_line(metrics: tuple[str, int]) -> str:
    from phalanx.metrics.address import url

    return f"\n  metrics     {url(metrics)}"


async def _farewell(cluster: LocalCluster, stop_pods: bool) -> str:
    """End the pods, or count the pods that continue to run. Return a sentence about them."""
    try:
        async with await Connection.open(cluster.directory.kubeconfig) as connection:
            pods = await running_pods(connection)
            if stop_pods and pods:
                from phalanx.cli.local.draining import drain

                ended = await drain(connection, _say)
                # so that the control plane starts no pods in place of the ended ones
                await cluster.stop_control_plane()
                await uncordon(connection)
                return f"stopped; ended {counted(ended, 'pod')}"
    except ApiError as error:
        return f"stopped; the API did not report which pods are running ({error})"
    if not pods:
        return "stopped; no pod was running"
    return (
        f"stopped; {counted(len(pods), 'running pod')} left running, and the next `phalanx up` finds them again "
        "(--stop-pods would end them)"
    )


def _say(text: str) -> None:
    with contextlib.suppress(OSError):  # the terminal was closed, and this process will end soon
        print(text, flush=True)
