"""Read the workload of a simulation from a log or a workload file, and change it as the options request: its nodes, its
jobs and its load."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from phalanx.cli.files.policy_file import SUFFIXES
from phalanx.cli.study.simulation.workload_file import assembled, read_cluster, read_workload
from phalanx.cli.study.simulation.workload_nodes import WorkloadSite
from phalanx.errors import PhalanxError
from phalanx.simulator.generate import generated, scaled, shaken
from phalanx.simulator.readers import swf
from phalanx.simulator.readers.lines import OnError
from phalanx.simulator.readers.openb import read_nodes
from phalanx.simulator.readers.recognise import is_node_list, reader_of
from phalanx.simulator.run.play import inflated
from phalanx.simulator.workload import SimulatedGroup, Task, Workload, gpu_nodes, machine, on_nodes

MOST_NODES = 1_000_000
MOST_NAMES = 10_000  # for larger node groups, the names of the nodes are not compared with the names of other nodes


@dataclass(frozen=True, slots=True, kw_only=True)
class TraceSource:
    """A trace, and the options that change its workload before the simulation (see `Given`)."""

    trace: Path
    cluster: str = ""
    groups: tuple[SimulatedGroup, ...] = ()
    processors: int | None = None
    on_error: OnError = OnError.STOP
    follow: bool = False
    first: int | None = None
    skip: int = 0  # the number of jobs that are left out at the beginning
    load: float = 1.0
    shake_s: float = 0.0
    inflate: float | None = None
    overruns: bool = False


def workload_of(source: TraceSource, seed: int) -> Workload:
    """Return the workload of the trace with all changes of the options. Raises PhalanxError."""
    found = _as_written(source, seed)
    tasks: Sequence[Task] = found.tasks
    if source.first is not None:
        tasks = tasks[: source.first]
    tasks = tasks[source.skip :]
    if source.overruns:
        tasks = [replace(task, overruns=True) for task in tasks]
    tasks = tasks if source.load == 1.0 else scaled(tasks, source.load)
    tasks = shaken(tasks, source.shake_s, seed) if source.shake_s else tasks
    found = replace(found, tasks=tasks)
    if source.cluster:
        found = placed_on(found, cluster_of(source.cluster, source.on_error))
        found = found if source.trace.suffix in SUFFIXES else on_nodes(found)
    if source.processors:
        found = replace(found, nodes=(machine(source.processors),))
    if source.groups:
        found = with_groups(found, source)
    if not found.kinds:
        raise PhalanxError(
            f"{source.trace}: the trace does not describe a cluster.\n"
            "Describe it with --cluster: a file, or for example 8x8 (nodes times GPUs)."
        )
    _check_reservations(found)
    return found if source.inflate is None else inflated(found, source.inflate, seed)


def with_groups(workload: Workload, source: TraceSource) -> Workload:
    """Return the workload on a cluster with node groups. For a log without --cluster and --processors, the nodes of the
    groups are the only nodes. Raises PhalanxError."""
    if source.inflate is not None:
        raise PhalanxError("--inflate needs a cluster of fixed size: leave out --node-group or --inflate")
    own = source.trace.suffix in SUFFIXES
    fixed = workload.nodes if own or source.cluster or source.processors else ()
    found = replace(workload, nodes=fixed, groups=source.groups)
    names = {node.name for node in fixed} & {node.name for each in source.groups for node in each.nodes(MOST_NAMES)}
    if names:
        raise PhalanxError(
            f"the cluster already has a node {min(names)}, a name that a node group would use: rename the group"
        )
    return found if own else on_nodes(found)


def placed_on(workload: Workload, site: WorkloadSite) -> Workload:
    """Return the workload on the nodes of the site. If the workload has topologies, they replace those of the site. The
    reservations of the workload and of the site are both used."""
    return replace(
        workload,
        nodes=site.nodes,
        topologies=workload.topologies or site.topologies,
        reservations=(*site.reservations, *workload.reservations),
    )


def _check_reservations(workload: Workload) -> None:
    """Raise PhalanxError if a job names a reservation that does not exist, or if a reservation names a node that does
    not exist."""
    known, nodes = {each.name for each in workload.reservations}, {node.name for node in workload.nodes}
    for reservation in workload.reservations:
        if missing := [name for name in reservation.nodes if name not in nodes]:
            raise PhalanxError(
                f"{workload.name}: the reservation {reservation.name} names the node {missing[0]}, which the cluster "
                "does not have. Name nodes of the cluster, or describe both in one file."
            )
    for task in workload.tasks:
        if (named := task.job.reservation) and named not in known:
            others = f"only {', '.join(sorted(known))}" if known else "no reservation"
            raise PhalanxError(
                f"{workload.name}: job {task.job.id} names the reservation {named}, but there is {others}.\n"
                "Describe it under `reservations`, in this file or in the cluster's file."
            )


def _as_written(source: TraceSource, seed: int) -> Workload:
    if source.trace.suffix in SUFFIXES:
        return _own(source, seed)
    read = reader_of(source.trace)
    extra = {}
    if read is swf.read:  # only logs are sorted by submission, so other traces must be read completely
        extra = {"follow": source.follow, "size": source.processors or _size(source), "first": source.first}
    return read(source.trace, on_error=source.on_error, **extra)


def _size(source: TraceSource) -> int | None:
    """Return the machine size for logs whose header has none. Return 1 if the options describe a cluster or node
    groups, because the size then has no effect; otherwise return None."""
    return 1 if source.cluster or source.groups else None


def _own(source: TraceSource, seed: int) -> Workload:
    written = read_workload(source.trace)
    tasks = list(written.tasks)
    if written.recipe is not None:
        recipe = written.recipe
        if written.like:
            like = replace(source, trace=source.trace.parent / written.like, cluster="1x1", processors=None, first=None)
            recipe = replace(recipe, like=_as_written(like, seed).tasks)
        tasks += generated(recipe, seed)
    return assembled(source.trace.name, tasks, written.site)


def cluster_of(named: str, on_error: OnError) -> WorkloadSite:
    """Return the cluster that --cluster describes: a text such as `8x8`, openb's list of nodes, or a cluster file of
    Phalanx."""
    count, times, gpus = named.partition("x")
    if times and count.isdecimal() and gpus.isdecimal():
        if not (0 < int(count) <= MOST_NODES and 0 < int(gpus) <= 1024):
            raise PhalanxError(f"--cluster {named}: write 1x1 to {MOST_NODES}x1024 (nodes times GPUs)")
        return WorkloadSite(nodes=gpu_nodes(int(count), int(gpus)))
    file = Path(named)
    site = WorkloadSite(nodes=read_nodes(file, on_error=on_error)) if is_node_list(file) else read_cluster(file)
    if not site.nodes:
        raise PhalanxError(f"{file}: the file has no nodes")
    return site
