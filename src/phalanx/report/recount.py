"""What pods hold besides amounts, counted anew: kinds, host ports, devices and NUMA zones. `report.invariants` compares
it with what the book has kept up to date pod by pod."""

from __future__ import annotations

from collections.abc import Iterator

from phalanx.model.pod import HostPort
from phalanx.state.classes import AffinityClass
from phalanx.state.cluster import Cluster
from phalanx.state.nodes.devices import DeviceTable, device_use
from phalanx.state.nodes.pod_index import PodIndex


def index_errors(cluster: Cluster) -> Iterator[str]:
    """What the book notes by name and by kind is what its pods say."""
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
    """With the same nodes, and every pod of ours put on its devices again."""
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
    return devices


def peers_anew(cluster: Cluster) -> PodIndex:
    """With every pod of ours and of others met again."""
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
    if kind is not None:
        peers.add(kind, row)
    if ports:
        peers.open_ports(row, ports)


def of_devices(devices: DeviceTable, row: int) -> object:
    """What is left of the row's devices, by name; what is held in its zones; which counts lack shared devices."""
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
