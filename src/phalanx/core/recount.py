"""What pods hold besides amounts, counted anew: kinds, host ports, devices and NUMA zones. `core.check` compares it
with what the book has kept up to date pod by pod."""

from __future__ import annotations

from collections.abc import Iterator

from phalanx.model.cluster import Cluster
from phalanx.model.devices import Devices, use_of
from phalanx.model.peers import Kind, Peers
from phalanx.model.shape import Port


def noted_truly(cluster: Cluster) -> Iterator[str]:
    """What the book notes by name and by kind is what its pods say."""
    columns = cluster.columns
    for record in cluster.jobs.values():
        if record.devices and (strays := record.devices.keys() - record.placements.keys() - record.promise.keys()):
            yield f"{record.job.id} has devices for {sorted(strays)}, which hold nothing"
    if columns.devices:
        devices = devices_anew(cluster)
        for name, row in columns.row_of.items():
            if (noted := of_devices(columns.devices, row)) != (true := of_devices(devices, row)):
                yield f"devices of {name} are noted as {noted}, its pods say {true}"
    peers = peers_anew(cluster)
    if columns.peers.ports != peers.ports:
        yield f"host ports by row are noted as {columns.peers.ports}, the pods say {peers.ports}"
    if columns.peers.rows != peers.rows:
        yield f"pods by kind and row are noted as {columns.peers.rows}, the pods say {peers.rows}"
    if columns.peers.wishing.keys() != peers.wishing.keys():
        yield "kinds that want something of others are not those that run"


def devices_anew(cluster: Cluster) -> Devices:
    """With the same nodes, and every pod of ours put on its devices again."""
    columns = cluster.columns
    devices = Devices(columns.capacity)
    for row, node in enumerate(columns.nodes):
        devices.write(row, node)
    for record in cluster.jobs.values():
        for slot, names in record.devices.items():
            node_name = record.placements.get(slot) or record.promise.get(slot)
            if node_name is not None:
                demand = record.gang.demands[slot.role]
                devices.hold(columns.row_of[node_name], names, use_of(demand.shape.share), demand.asks)
    return devices


def peers_anew(cluster: Cluster) -> Peers:
    """With every pod of ours and of others met again."""
    peers, row_of = Peers(), cluster.columns.row_of
    for pod, (kind, ports) in cluster.strangers.items():
        meet(peers, row_of[cluster.foreign[pod][0]], kind, ports)
    for record in cluster.jobs.values():
        demands = record.gang.demands
        for where in (record.placements, record.promise):
            for slot, name in where.items():
                if (demand := demands[slot.role]).noted:
                    meet(peers, row_of[name], demand.kind, demand.shape.ports)
    return peers


def meet(peers: Peers, row: int, kind: Kind | None, ports: tuple[Port, ...]) -> None:
    if kind is not None:
        peers.add(kind, row)
    if ports:
        peers.open_ports(row, ports)


def of_devices(devices: Devices, row: int) -> object:
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
