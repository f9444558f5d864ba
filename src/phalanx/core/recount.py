"""What pods hold besides amounts, counted anew: kinds, host ports, devices and NUMA zones. `core.check` compares it
with what the book has kept up to date pod by pod."""

from __future__ import annotations

from collections.abc import Iterator

from phalanx.model.cluster import Cluster
from phalanx.model.columns import Columns


def recounted(cluster: Cluster) -> Columns:
    """Columns with the same nodes, and every pod of ours and of others put on them again."""
    fresh = Columns()
    for node in cluster.columns:
        fresh.see(node)
    for pod, (node_name, asks) in cluster.foreign.items():
        fresh.meet(fresh.charge(node_name, asks), *cluster.strangers.get(pod, (None, ())))
    for record in cluster.jobs.values():
        for slot, name in (*record.placements.items(), *record.promise.items()):
            fresh.hold(name, record.gang.demands[slot.role], record.devices.get(slot, ()))
    return fresh


def noted_truly(cluster: Cluster) -> Iterator[str]:
    """What the book notes by name and by kind is what its pods say."""
    columns = cluster.columns
    for record in cluster.jobs.values():
        if strays := record.devices.keys() - record.placements.keys() - record.promise.keys():
            yield f"{record.job.id} has devices for {sorted(strays)}, which hold nothing"
    if not columns.devices and not columns.peers.rows and not columns.peers.ports:
        return
    fresh = recounted(cluster)
    for name, row in columns.row_of.items():
        again = fresh.row_of.get(name, -1)
        for what, is_, was in (
            ("devices", of_devices(columns, row), of_devices(fresh, again)),
            ("pods by kind", of_kinds(columns, row), of_kinds(fresh, again)),
            ("host ports", columns.peers.ports.get(row, {}), fresh.peers.ports.get(again, {})),
        ):
            if is_ != was:
                yield f"{what} of {name} are noted as {is_}, its pods say {was}"
    if columns.peers.wishing.keys() != fresh.peers.wishing.keys():
        yield "kinds that want something of others are not those that run"


def of_devices(columns: Columns, row: int) -> object:
    """What is left of the row's devices, by name; what is held in its zones; which counts lack shared devices."""
    devices = columns.devices
    left = {
        device.name: (int(devices.milli[row, at]), int(devices.memory[row, at]))
        for at, device in enumerate(devices.listed.get(row, ()))
    }
    zones = {
        (zone, resource): int(table[row, at])
        for at, zone in enumerate(devices.zones.get(row, ()))
        for resource, table in sorted(devices.known.items())
        if table[row, at]
    }
    return left, zones, devices.shared(row)


def of_kinds(columns: Columns, row: int) -> dict[object, int]:
    return {kind: rows[row] for kind, rows in columns.peers.rows.items() if row in rows}
