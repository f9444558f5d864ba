"""What the start on a large cluster costs: from listed caches to the first decision, and how long the event loop is
kept.

A lease is lost when nothing renews it for 6 s: so what counts, beside the whole time and the memory, is the longest
time that nobody else got a turn.

    python benchmarks/kube_start.py [--nodes 5000] [--pods 100000] [--namespaces 1000]
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import json
import resource
import time
from typing import Any

import msgspec
from phalanx.model.cluster import Cluster

from phalanx.client.informer import Informer
from phalanx.client.kind import JOBS, NODES, PODS, RESOURCE_QUOTAS, Kind
from phalanx.core.decide import decide
from phalanx.core.fold import fold
from phalanx.kube.install.definitions import QUEUES
from phalanx.kube.read.wire import WIRE_TYPES
from phalanx.kube.routing.settings import KubeSettings
from phalanx.kube.world import KubeWorld
from phalanx.model.event import PolicySeen, Ticked
from phalanx.model.policy import Policy

Object = dict[str, Any]
GANG = 10


class Nobody:
    """A connection that serves every kind, and knows no past."""

    async def request(self, *_: Any, **__: Any) -> Object:
        return {"items": []}

    async def get(self, *_: Any, **__: Any) -> Object:
        return {"data": {}}


def meta(name: str, version: int, namespace: str = "", **more: Any) -> Object:
    spaced = {"namespace": namespace} if namespace else {}
    times = {"resourceVersion": str(version), "creationTimestamp": "2026-01-01T00:00:00Z"}
    return {"name": name, "uid": f"uid-{name}-{namespace}", "labels": {}, **spaced, **times, **more}


def objects(nodes: int, pods: int, namespaces: int) -> dict[Kind, list[Object]]:
    """Half of the pods are gangs of ours that run, half are others'."""
    ready = {"conditions": [{"type": "Ready", "status": "True"}]}
    allocatable = {"cpu": "96", "memory": "768Gi", "pods": "110"}
    found: dict[Kind, list[Object]] = {kind: [] for kind in (NODES, QUEUES, RESOURCE_QUOTAS, JOBS, PODS)}
    for number in range(nodes):
        found[NODES].append({"metadata": meta(f"n{number}", 1), "status": {"allocatable": allocatable, **ready}})
    found[QUEUES].append({"metadata": meta("default", 1), "spec": {}})
    for number in range(namespaces):
        hard = {"pods": "100000", "requests.cpu": "100000"}
        found[RESOURCE_QUOTAS].append({"metadata": meta("quota", 1, f"team-{number}"), "spec": {"hard": hard}})
    record = json.dumps({"attempt": 1, "queue": "default", "count": GANG, "at_s": 1.0})
    for number in range(pods):
        team, job = f"team-{number % namespaces}", number // GANG
        team = f"team-{job % namespaces}"
        ours = job % 2 == 0
        container = {"name": "c", "resources": {"requests": {"cpu": "1", "memory": "1Gi"}}}
        spec = {"containers": [container], "schedulerName": "phalanx" if ours else "default-scheduler"}
        owner = [{"kind": "Job", "name": f"j{job}", "uid": f"uid-j{job}-{team}", "controller": True}] if ours else []
        status = {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}
        name = meta(f"p{number}", 1, team, ownerReferences=owner)
        found[PODS].append({"metadata": name, "spec": {**spec, "nodeName": f"n{number % nodes}"}, "status": status})
        if ours and number % GANG == 0:
            labels = {"phalanx.dev/queue": "default"}
            head = {**meta(f"j{job}", 1, team), "labels": labels, "annotations": {"phalanx.dev/admitted": record}}
            template = {"spec": spec}
            size = {"parallelism": GANG, "completions": GANG, "suspend": False}
            found[JOBS].append({"metadata": head, "spec": {**size, "template": template}, "status": {"active": GANG}})
    return found


async def start(found: dict[Kind, list[Object]]) -> dict[str, object]:
    caches: dict[Kind, Informer] = {}

    def informers(kind: Kind) -> Informer:
        if kind not in caches:
            cache = caches[kind] = Informer(None, kind)  # type: ignore[arg-type]  # it never calls
            for obj in found.pop(kind, []):
                cache.observe(msgspec.convert(obj, WIRE_TYPES.get(kind, dict)))
            cache.synced.set()
        return caches[kind]

    for kind in list(found):
        informers(kind)
    longest_s = 0.0

    async def others() -> None:
        nonlocal longest_s
        while True:
            since_s = time.perf_counter()
            await asyncio.sleep(0)
            longest_s = max(longest_s, time.perf_counter() - since_s)

    other = asyncio.ensure_future(others())
    began_s = time.perf_counter()
    world = KubeWorld(Nobody(), informers, KubeSettings(), time.time)  # type: ignore[arg-type]
    await world.sync()
    gc.freeze()  # as `open_world` does
    routed_s, blocked_s = time.perf_counter() - began_s, longest_s
    other.cancel()
    events = world.events()
    events_s = time.perf_counter() - began_s - routed_s
    cluster = Cluster()
    fold(cluster, (PolicySeen(Policy()), Ticked(time.time()), *events))
    decide(cluster, Policy(), time.time())
    whole_s = time.perf_counter() - began_s
    return {
        "routed_s": round(routed_s, 2),
        "longest_turn_while_routing_s": round(blocked_s, 3),
        "first_events_s": round(events_s, 2),
        "fold_and_decide_s": round(whole_s - routed_s - events_s, 2),
        "whole_s": round(whole_s, 2),
        "peak_mib": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--nodes", type=int, default=5000)
    parser.add_argument("--pods", type=int, default=100_000)
    parser.add_argument("--namespaces", type=int, default=1000)
    args = parser.parse_args()
    found = objects(args.nodes, args.pods, args.namespaces)
    said = {"benchmark": "kube_start", "nodes": args.nodes, "pods": args.pods, "namespaces": args.namespaces}
    print(json.dumps({**said, **asyncio.run(start(found))}), flush=True)


if __name__ == "__main__":
    main()
