"""Run a Kubernetes cluster on this machine: the API server and the control plane are two child processes on one data
directory.

With two processes, a crash ends only one of them, and both can use a core of their own. The API server starts before
the control plane, and stops after it. A third process serves Slurm's commands (`phalanx.slurm.commands.resident`); the
cluster works without it."""

from __future__ import annotations

import asyncio
import errno
import os
import socket
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter
from cyclopts.validators import Number

from phalanx.cli.local.data_directory import LOGIN_SOCKET, DataDirectory, owned
from phalanx.cli.local.supervisor import Child, SupervisedProgram, Tell
from phalanx.client.quantity import QuantityError, parse
from phalanx.dialects.schema.fields import Misread, duration_s
from phalanx.embedded.login.quota import parse_quota
from phalanx.embedded.node.container.image import read_images
from phalanx.embedded.node.machine.devices.pool import read_devices
from phalanx.embedded.node.machine.rdma import parse_rdma, rdma_cards, require_rdma
from phalanx.errors import PhalanxError
from phalanx.slurm.main import SOCKET_NAME, service_command

HOST = "127.0.0.1"
_SOCKET_BYTES = 107  # the maximum length of a socket's path, unix(7)
_FILES = ("local_images", "device_plugins", "local_devices", "node_groups")
_FLAGS = ("local_node", "shared", "static_cpus", "local_open_network")

_Count = Annotated[int, Parameter(validator=Number(gte=0))]


@Parameter(name="*")
@dataclass(frozen=True, slots=True, kw_only=True)
class LocalMachines:
    """The options for the nodes of the cluster (this machine and simulated nodes) and for its users."""

    local_node: Annotated[bool, Parameter(negative="--no-local-node")] = True
    """Use this machine as a node, whose pods are real processes."""

    local_cpu: str | None = None
    """The CPU of this machine's node, as a quantity: 6, 500m. [default: the CPUs of the machine]"""

    local_memory: str | None = None
    """The memory of this machine's node, as a quantity: 16Gi. [default: the memory of the machine]"""

    local_gpu: _Count | None = None
    """The number of GPUs (nvidia.com/gpu) of this machine's node. [default: the GPUs of the machine]"""

    local_images: Path | None = None
    """A file that maps container images to directories and programs of this machine (docs/guide/one-machine.md)."""

    local_default_memory: str | None = None
    """The memory limit of containers without one, as a quantity; 0 for no limit. [default: no limit; with --shared, the
    memory of the machine divided by its number of CPUs]"""

    keep_logs: str = "256Mi"
    """Keep the logs of deleted pods, up to this size for each namespace; 0 keeps none. `phalanx logs` reads them. If
    the disk is nearly full, these logs are deleted before any pod is evicted."""

    keep_logs_for: str = "30d"
    """Keep the logs of deleted pods for this time: 12h, 30d."""

    static_cpus: Annotated[bool, Parameter(negative=())] = False
    """Give exclusive CPUs to containers of Guaranteed pods that request whole CPUs, like the kubelet's static CPU
    policy (docs/guide/devices.md)."""

    device_plugins: Path | None = None
    """Let device plugins of vendors register in this folder, as with a kubelet. Most plugins use
    /var/lib/kubelet/device-plugins (docs/guide/devices.md)."""

    local_devices: Path | None = None
    """A file that lists devices of this machine as resources of pods (docs/guide/devices.md)."""

    local_rdma: str | None = None
    """Divide the RDMA cards of this machine among pods. The value has the totals of each card:
    hca_handle=64,hca_object=8192 (docs/guide/devices.md)."""

    shared: bool = False
    """Share this machine with its other Unix users. They log in with `phalanx login`, and their pods run as their Unix
    user. Needs root (docs/guide/one-machine.md)."""

    local_open_network: Annotated[bool, Parameter(negative=())] = False
    """With --shared: let users connect to ports of other users' pods (docs/guide/one-machine.md)."""

    login_socket: Path = LOGIN_SOCKET
    """With --shared: the socket at which users log in."""

    user_quota: str | None = None
    """With --shared: limits for the namespace of each user, in the form of `kubectl create quota --hard`:
    phalanx.dev/objects=50k,pods=100. They are added to the default limits, or replace them
    (docs/guide/one-machine.md)."""

    user_max_priority: int = 1_000_000_000
    """With --shared: the highest priority that users may give their jobs (docs/guide/one-machine.md)."""

    simulate_nodes: _Count = 0
    """Add this number of simulated nodes. Their pods become Ready and finish, but no program runs."""

    node_cpu: str = "100"
    """The CPU of each simulated node."""

    node_memory: str = "100Gi"
    """The memory of each simulated node."""

    node_gpu: _Count = 0
    """The number of GPUs (nvidia.com/gpu) of each simulated node."""

    node_pods: Annotated[int, Parameter(validator=Number(gte=1))] = 110
    """The largest number of pods on each simulated node."""

    node_group: Annotated[tuple[str, ...], Parameter(consume_multiple=True, negative=())] = ()
    """Add a node group of simulated nodes, which are requested when jobs need them:
    a100-spot=0x8gpu,max=20,delay=3m,price=2.5 (docs/guide/autoscaling.md). The option may be repeated."""

    node_groups: Path | None = None
    """If gangs do not fit, request nodes from the node groups in this file, as `phalanx scheduler --node-groups` does
    (docs/guide/autoscaling.md)."""

    kinds: str | None = None
    """Serve the job kinds of these projects: ray, spark, tfjob, lws, argo, or all. Objects are stored and queued, but
    you must run the controllers of the projects yourself (docs/dialects/frameworks.md)."""

    def __post_init__(self) -> None:
        """Raise PhalanxError if an option is invalid: for example an amount that no machine can have, or a file that
        cannot be read."""
        for name in ("local_cpu", "local_memory", "node_cpu", "node_memory"):
            _require_amount(f"--{name.replace('_', '-')}", getattr(self, name))
        if self.local_default_memory not in (None, "0"):
            _require_amount("--local-default-memory", self.local_default_memory)
        if self.keep_logs != "0":
            _require_amount("--keep-logs", self.keep_logs)
        keep_logs_s(self)
        if self.local_devices is not None:
            read_devices(self.local_devices)
        if self.local_images is not None:
            read_images(self.local_images)
        if self.local_rdma is not None:
            parse_rdma(self.local_rdma)
            # assume that limits are enforced, because only the node agent can check the cgroups
            require_rdma(rdma_cards(), enforced=True)
        if self.user_quota is not None:
            parse_quota(self.user_quota)
        if self.kinds is not None:
            from phalanx.cli.local.offered_kinds import offered  # imported here, because --kinds is rarely used

            offered(self.kinds)
        if self.node_group or self.node_groups is not None:
            from phalanx.cli.local.node_groups.option import (
                read_local_groups,  # imported here, because node groups are rarely used
            )

            read_local_groups(self.node_group, self.node_groups)
        if self.shared and os.geteuid() != 0:
            raise PhalanxError(
                "--shared needs root, because only root can run pods as their users. Nothing was started. Start it "
                "as root "
                "(`phalanx install` writes a service that does), or leave --shared out for a cluster of your own."
            )

    def options(self) -> tuple[str, ...]:
        """Return the command-line arguments of `phalanx control-plane` for these options."""
        given = {name: value for name, value in asdict(self).items() if name not in _FLAGS and value is not None}
        paths = {name: getattr(self, name) for name in _FILES}
        given |= {name: path.resolve() for name, path in paths.items() if path is not None}
        groups = given.pop("node_group")
        said = [f"--{name.replace('_', '-')}={value}" for name, value in given.items()]
        said += [f"--node-group={each}" for each in groups]
        return (
            *said,
            "--local-node" if self.local_node else "--no-local-node",
            *(f"--{name.replace('_', '-')}" for name in _FLAGS[1:] if getattr(self, name)),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class LocalCluster:
    """A running cluster. `url`: the URL of the API server. `stop_control_plane`: a function that stops the control
    plane, so that no pod is scheduled or started; the API server continues to run."""

    directory: DataDirectory
    url: str
    stop_control_plane: Callable[[], Awaitable[None]]


def keep_logs_s(machines: LocalMachines) -> float:
    """Return the time for which logs of deleted pods are kept, in seconds. Raises PhalanxError if --keep-logs-for is
    invalid."""
    try:
        return duration_s(machines.keep_logs_for)
    except Misread as error:
        raise PhalanxError(f"--keep-logs-for {machines.keep_logs_for!r}: write for example 12h or 30d.") from error


def _require_amount(option: str, text: str | None) -> None:
    try:
        enough = text is None or parse(text) > 0
    except QuantityError as error:
        raise PhalanxError(f"{option} {error}. Nothing was started.") from error
    if not enough:
        raise PhalanxError(f"{option} {text!r}: the amount must be more than 0. Nothing was started.")


def require_free(port: int) -> None:
    """Raise PhalanxError if this process cannot listen on the port. 0 means any free port."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((HOST, port))
        except OSError as error:
            cause = "Only root may use a port below 1024"
            if error.errno == errno.EADDRINUSE:
                cause = f"Another program has the port (`ss -ltnp 'sport = :{port}'` shows which): stop it"
            raise PhalanxError(
                f"cannot listen on {HOST}:{port}: {error.strerror}. Nothing was started. {cause}, or use --port with "
                "another number, or with 0 for a free port."
            ) from error


@asynccontextmanager
async def running(
    directory: DataDirectory,
    port: int,
    machines: LocalMachines,
    tell: Tell,
    options: Sequence[str] = (),
    *,
    accept_loss: bool = False,
) -> AsyncIterator[LocalCluster]:
    """Start the API server and the control plane, wait until both are ready, and yield the cluster. While the context
    is open, processes that fail are started again; at its end they are stopped in order.

    `tell`: a function that prints a message for the user. `options`: further arguments for the process of the control
    plane. `accept_loss`: True to start although acknowledged writes were lost. Raises PhalanxError if the API server or
    the control plane cannot be started."""
    port = port or free_port()  # chosen only once, because the API server must use the same port again after a crash
    with owned(directory, port):
        require_free(port)
        server = Child(_api_server(directory, port, accept_loss=accept_loss), tell)
        plane = Child(_control_plane(directory, machines, options), tell)
        commands = Child(_slurm_commands(directory, machines), tell)
        serving = asyncio.create_task(_serve_commands(commands, tell))
        keepers: dict[Child, asyncio.Task[None]] = {}

        async def stop(child: Child) -> None:
            if child in keepers:
                keepers.pop(child).cancel()
            await child.stop()

        try:
            for child in (server, plane):
                await child.start()
                keepers[child] = asyncio.create_task(child.keep())
            url = server.said.removeprefix("ready ")
            yield LocalCluster(directory=directory, url=url, stop_control_plane=lambda: stop(plane))
        finally:
            await stop(plane)
            await stop(server)
            serving.cancel()
            # stopped last, so that running commands fail because of the ended API server and exit
            await commands.stop()


async def _serve_commands(commands: Child, tell: Tell) -> None:
    """Run the service of Slurm's commands, and start it again when it ends. The cluster works without this service, and
    does not wait for it."""
    if len(os.fsencode(commands.program.argv[-1])) > _SOCKET_BYTES:
        return
    try:
        await commands.start()
    except PhalanxError:
        tell(
            "the service of Slurm's commands cannot be started, so the commands take longer (log: "
            f"{commands.program.log})"
        )
        return
    await commands.keep()


def _api_server(directory: DataDirectory, port: int, *, accept_loss: bool) -> SupervisedProgram:
    return SupervisedProgram(
        name="API server",
        argv=(
            *(sys.executable, "-m", "phalanx.embedded.apiserver"),
            *("--data", str(directory.path), "--host", HOST, "--port", str(port)),
            *(("--accept-loss",) if accept_loss else ()),
        ),
        log=directory.log("api-server"),
    )


def _control_plane(directory: DataDirectory, machines: LocalMachines, options: Sequence[str]) -> SupervisedProgram:
    return SupervisedProgram(
        name="control plane",
        argv=(
            *(sys.executable, "-m", "phalanx.cli.app", "control-plane"),
            *("--data", str(directory.path), *machines.options(), *options),
        ),
        log=directory.log("control-plane"),
    )


def _slurm_commands(directory: DataDirectory, machines: LocalMachines) -> SupervisedProgram:
    socket_path = machines.login_socket.with_name(SOCKET_NAME) if machines.shared else directory.path / SOCKET_NAME
    return SupervisedProgram(
        name="service of Slurm's commands", argv=service_command(socket_path), log=directory.log("slurm-commands")
    )


def free_port() -> int:
    """Return the number of a port on which no process listens at the moment."""
    with socket.socket() as probe:
        probe.bind((HOST, 0))
        return int(probe.getsockname()[1])
