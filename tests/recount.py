"""Compute the cluster state's derived data again from its records: usage other than amounts (kinds, host ports,
devices, NUMA zones), waits between jobs (dependencies, singletons, arrays), and the columns of running pods.
`tests.invariants` compares them with the incrementally updated data."""

from __future__ import annotations

from collections.abc import Iterator

from phalanx.core.fold.job_dependencies import contends
from phalanx.model.job import Phase
from phalanx.model.pod import HostPort
from phalanx.state import cluster as residency
from phalanx.state.classes import AffinityClass
from phalanx.state.cluster import Cluster, JobRecord
from phalanx.state.dependencies import JobDependencies
from phalanx.state.nodes.devices import WHOLE_DEVICE, DeviceTable, device_use
from phalanx.state.nodes.pod_index import PodIndex
from phalanx.state.pending.request_class import Request
from phalanx.state.running import RunningPods


def index_errors(cluster: Cluster) -> Iterator[str]:
    """Yield the differences between the indexes and the pods."""
    columns = cluster.columns
    for record in cluster.jobs.values():
        if record.devices and (strays := record.devices.keys() - record.placements.keys() - record.nominated.keys()):
            yield f"{record.job.id} has devices for {sorted(strays)}, which hold nothing"
    if columns.devices:
        devices = devices_anew(cluster)
        for name, row in columns.row_of.items():
            if (noted := of_devices(columns.devices, row)) != (true := of_devices(devices, row)):
                yield f"devices of {name} are noted as {noted}, its pods say {true}"
    peers = peers_anew(cluster)
    if columns.pod_index.ports != peers.ports:
        yield f"host ports by row are noted as {columns.pod_index.ports}, the pods say {peers.ports}"
    if columns.pod_index.rows != peers.rows:
        yield f"pods by kind and row are noted as {columns.pod_index.rows}, the pods say {peers.rows}"
    if columns.pod_index.with_affinity.keys() != peers.with_affinity.keys():
        yield "kinds that want something of others are not those that run"


def devices_anew(cluster: Cluster) -> DeviceTable:
    """Return a device table with the same nodes, on which every pod is charged to its devices again."""
    columns = cluster.columns
    devices = DeviceTable(columns.capacity)
    for row, node in enumerate(columns.nodes):
        devices.write(row, node)
    for record in cluster.jobs.values():
        for slot, names in record.devices.items():
            node_name = record.placements.get(slot) or record.nominated.get(slot)
            if node_name is not None:
                demand = record.gang.demands[slot.role]
                devices.hold(columns.row_of[node_name], names, device_use(demand.shape.share), demand.asks)
    for pod, names in cluster.foreign_devices.items():
        node_name, asks = cluster.foreign[pod]
        devices.hold(columns.row_of[node_name], names, WHOLE_DEVICE, asks)
    return devices


def peers_anew(cluster: Cluster) -> PodIndex:
    """Return a pod index to which all pods of jobs and all foreign pods are added again."""
    peers, row_of = PodIndex(), cluster.columns.row_of
    for pod, (kind, ports) in cluster.foreign_identity.items():
        add_pod(peers, row_of[cluster.foreign[pod][0]], kind, ports)
    for record in cluster.jobs.values():
        demands = record.gang.demands
        for where in (record.placements, record.nominated):
            for slot, name in where.items():
                if (demand := demands[slot.role]).tracked:
                    add_pod(peers, row_of[name], demand.kind, demand.shape.ports)
    return peers


def add_pod(peers: PodIndex, row: int, kind: AffinityClass | None, ports: tuple[HostPort, ...]) -> None:
    """Add a pod to the index."""
    if kind is not None:
        peers.add(kind, row)
    if ports:
        peers.open_ports(row, ports)


def of_devices(devices: DeviceTable, row: int) -> object:
    """Return three values for the row: the free part of each device, by name; the usage of each NUMA zone; the number
    of shared devices, by resource."""
    listed = devices.listed.get(row, ())
    milli, memory = (table[row].tolist() if listed else [] for table in (devices.milli, devices.memory))
    left = {device.name: (milli[at], memory[at]) for at, device in enumerate(listed)}
    zones = {
        (zone, resource): int(table[row, at])
        for at, zone in enumerate(devices.zones.get(row, ()))
        for resource, table in sorted(devices.known.items())
        if table[row, at]
    }
    return left, zones, devices.shared(row)


def related_truly(cluster: Cluster) -> Iterator[str]:
    """Yield the differences between the stored waits of jobs and those that follow from the jobs: dependencies,
    singletons, and the active jobs of arrays. A request that must be received again keeps its array slot until then, if
    it has one."""
    noted, anew = cluster.dependencies, JobDependencies()
    for record in cluster.jobs.values():
        anew.enter(record.job)
        if has_turn(cluster, record) or (
            noted.contends(record.job) and Request(record.job.id) in cluster.pending.fresh
        ):
            anew.work(record.job)
    for what, kept, true in (
        ("jobs that others wait for", noted.dependents, anew.dependents),
        ("singletons", noted.singletons, anew.singletons),
        ("arrays", noted.arrays, anew.arrays),
        ("active jobs of arrays", noted.active, anew.active),
    ):
        if kept != true:
            yield f"{what} are noted as {kept}, the jobs say {true}"


def residents_truly(cluster: Cluster) -> Iterator[str]:
    """Yield a difference if the updated columns of running pods are not equal to new columns."""
    if (known := cluster.running_pods) is None:
        return
    kept = of_residents(residency.residents(cluster))
    cluster.running_pods = None
    anew = of_residents(residency.residents(cluster))
    cluster.running_pods = known
    if kept != anew:
        yield f"who runs where is kept as {kept}, the records say {anew}"


def of_residents(residents: RunningPods) -> object:
    """Return, by job, the values that decide whether it may be a victim, and its entries in sorted order."""
    about = ("priority", "preemptible", "started_s", "submitted_s", "checkpoint_s")
    entry = {name: residents.entry(name).tolist() for name in ("role", "row", "leaving", "pods", "spare")}
    return {
        job: (
            residents.queues[residents.of_jobs("queue")[number]],
            [residents.of_jobs(name)[number].item() for name in about],
            sorted(tuple(entry[name][at] for name in entry) for at in residents.entries_of(number)),
        )
        for job, number in residents.number_of.items()
    }


def has_turn(cluster: Cluster, record: JobRecord) -> bool:
    """Return whether the job occupies a slot of its array: it has started, is nominated, or is in a request class and
    may start some day."""
    if record.phase is not Phase.QUEUED or record.nominated:
        return True
    return Request(record.job.id) in cluster.pending.request_class_of and contends(record)
