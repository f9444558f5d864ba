"""A Kubernetes on this machine: the API server and the control plane, two child processes on one data directory.

Two processes use two cores, and a crash ends one of them only. The API server starts first, and stops after the control
plane. A third process serves Slurm's commands (`phalanx.slurm.commands.resident`); the cluster works without it.
"""

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
_SOCKET_BYTES = 107  # the longest path of a socket, unix(7)
_FILES = ("local_images", "device_plugins", "local_devices", "node_groups")
_FLAGS = ("local_node", "shared", "static_cpus", "local_open_network")

_Count = Annotated[int, Parameter(validator=Number(gte=0))]


@Parameter(name="*")
@dataclass(frozen=True, slots=True, kw_only=True)
class LocalMachines:
    """Which nodes there are: this machine, and simulated ones."""

    local_node: Annotated[bool, Parameter(negative="--no-local-node")] = True
    """This machine is a node: its pods are real processes."""

    local_cpu: str | None = None
    """Say that this machine has so much cpu, whatever it has. A quantity: 6, 500m."""

    local_memory: str | None = None
    """Say that this machine has so much memory. A quantity: 16Gi."""

    local_gpu: _Count | None = None
    """Say that this machine has so many GPUs (nvidia.com/gpu)."""

    local_images: Path | None = None
    """What of this machine stands in for which container images (docs/guide/one-machine.md)."""

    local_default_memory: str | None = None
    """Limit of containers that state none: a quantity, or 0 for no limit. With --shared it is the machine's memory
    divided by its cpus, otherwise none."""

    keep_logs: str = "256Mi"
    """Keep the logs of pods that are gone, so much for each namespace; 0 keeps none. `phalanx logs` reads them. When
    the disk runs low they are deleted before any pod is evicted."""

    keep_logs_for: str = "30d"
    """Keep these logs for so long: 12h, 30d."""

    static_cpus: Annotated[bool, Parameter(negative=())] = False
    """Containers of Guaranteed pods that ask whole cpus have them for themselves, as by the kubelet's static policy
    (docs/guide/devices.md)."""

    device_plugins: Path | None = None
    """Let device plugins of vendors register in this folder, as with a kubelet: most look for
    /var/lib/kubelet/device-plugins (docs/guide/devices.md)."""

    local_devices: Path | None = None
    """A file that lists devices of this machine as resources of pods (docs/guide/devices.md)."""

    local_rdma: str | None = None
    """Divide the RDMA cards of this machine among pods: hca_handle=64,hca_object=8192 is what each card has in all
    (docs/guide/devices.md)."""

    shared: bool = False
    """Share this machine with its other Unix users: they log in by `phalanx login`, and their pods run as they.
    Needs root (docs/guide/one-machine.md)."""

    local_open_network: Annotated[bool, Parameter(negative=())] = False
    """With --shared: let users reach what others' pods listen on (docs/guide/one-machine.md)."""

    login_socket: Path = LOGIN_SOCKET
    """Where users of a shared machine log in."""

    user_quota: str | None = None
    """What the namespace of a user of a shared machine may hold: amounts besides the default ones, or in their place,
    as `kubectl create quota --hard` has them: phalanx.dev/objects=50k,pods=100 (docs/guide/one-machine.md)."""

    user_max_priority: int = 1_000_000_000
    """The highest priority that users of a shared machine may give their jobs (docs/guide/one-machine.md)."""

    simulate_nodes: _Count = 0
    """Add so many simulated nodes: their pods become Ready and finish, but nothing runs."""

    node_cpu: str = "100"
    """CPU of each simulated node."""

    node_memory: str = "100Gi"
    """Memory of each simulated node."""

    node_gpu: _Count = 0
    """GPUs (nvidia.com/gpu) of each simulated node."""

    node_pods: Annotated[int, Parameter(validator=Number(gte=1))] = 110
    """Pods that each simulated node takes."""

    node_group: Annotated[tuple[str, ...], Parameter(consume_multiple=True, negative=())] = ()
    """Add a group of simulated nodes that are requested when jobs need them: a100-spot=0x8gpu,max=20,delay=3m,price=2.5
    (docs/guide/autoscaling.md). May be repeated."""

    node_groups: Path | None = None
    """Request nodes for gangs that do not fit from the node groups of this file, as `phalanx scheduler --node-groups`
    does (docs/guide/autoscaling.md)."""

    kinds: str | None = None
    """Serve the job kinds of these projects: ray, spark, tfjob, lws, argo, or all. Their controllers do not run here:
    objects are stored and queued (docs/dialects/frameworks.md)."""

    def __post_init__(self) -> None:
        """Raises PhalanxError for impossible options: an amount that no machine can have, or images that cannot be
        read."""
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
            require_rdma(rdma_cards(), enforced=True)  # only the node agent can check cgroups
        if self.user_quota is not None:
            parse_quota(self.user_quota)
        if self.kinds is not None:
            from phalanx.cli.local.offered_kinds import offered  # most starts name no kinds

            offered(self.kinds)
        if self.node_group or self.node_groups is not None:
            from phalanx.cli.local.node_groups.option import (
                read_local_groups,  # most starts have no group, and it is much to import
            )

            read_local_groups(self.node_group, self.node_groups)
        if self.shared and os.geteuid() != 0:
            raise PhalanxError(
                "--shared needs root, who alone can run pods as their users. Nothing was started. Start it as root "
                "(`phalanx install` writes a service that does), or leave --shared out and have a cluster for yourself."
            )

    def options(self) -> tuple[str, ...]:
        """Return these options as words of a command line."""
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
    """A running cluster. `stop_control_plane`: stops scheduling and the start of pods, while the API still answers."""

    directory: DataDirectory
    url: str
    stop_control_plane: Callable[[], Awaitable[None]]


def keep_logs_s(machines: LocalMachines) -> float:
    """Return for how many seconds logs are kept. Raises PhalanxError."""
    try:
        return duration_s(machines.keep_logs_for)
    except Misread as error:
        raise PhalanxError(f"--keep-logs-for {machines.keep_logs_for!r}: write for instance 12h or 30d.") from error


def _require_amount(option: str, text: str | None) -> None:
    try:
        enough = text is None or parse(text) > 0
    except QuantityError as error:
        raise PhalanxError(f"{option} {error}. Nothing was started.") from error
    if not enough:
        raise PhalanxError(f"{option} {text!r}: a node has more than nothing. Nothing was started.")


def require_free(port: int) -> None:
    """Raise PhalanxError if no process can listen on the port. 0 means any free port."""
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
                "another number, or 0 for any free one."
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
    """Start both processes and wait until they are ready. They are restarted if they fail while the context lasts, and
    stopped in order after it. `options`: further options of the control plane. `accept_loss`: start although
    acknowledged writes were lost.

    Raises PhalanxError if they cannot be started."""
    port = port or free_port()  # chosen once: after a crash the API server must come back where it was
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
            await commands.stop()  # last: a command that runs has seen by then that the API is gone


async def _serve_commands(commands: Child, tell: Tell) -> None:
    """Keep the service of Slurm's commands alive. The cluster does not need it, and does not wait for it."""
    if len(os.fsencode(commands.program.argv[-1])) > _SOCKET_BYTES:
        return
    try:
        await commands.start()
    except PhalanxError:
        tell(f"Slurm's commands run without their service and take longer (log: {commands.program.log})")
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
    """Return a port on which no process listens at the moment."""
    with socket.socket() as probe:
        probe.bind((HOST, 0))
        return int(probe.getsockname()[1])
