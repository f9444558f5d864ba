"""What closeness costs: one gang placed on a draft of 5,000 nodes in 4 levels (zone, block, rack, host).

One JSON object a line: microseconds per `gang.place` of a gang of 64 pods, plain and with each kind of closeness, the
median and the slowest of many; the draft is rewound after each. A fifth to four fifths of each node is taken. With
`--changing`, a node changes before each, so that the domains are read anew.

    python benchmarks/topology.py [--nodes 5000] [--pods 64] [--rounds 200] [--changing]
"""

from __future__ import annotations

import argparse
import json
import random
import statistics
import time

from phalanx.core.fold.fold import fold
from phalanx.core.placement import gang
from phalanx.core.placement.draft import Draft
from phalanx.model.event import NodeSeen, Occupied
from phalanx.model.job import Group, Role
from phalanx.model.node import Node, SliceLayer, Topology, TopologyRequest
from phalanx.model.pod import Shape, amounts
from phalanx.state.classes import Gang
from phalanx.state.cluster import Cluster

GIB = 2**30
LEVELS = (Topology(levels=("zone", "block", "rack", "host")),)
RACK, BLOCK = 32, 8  # nodes in a rack, racks in a block; four blocks are a zone
CASES: dict[str, TopologyRequest | None] = {
    "plain": None,
    "zone": TopologyRequest(level="zone"),
    "block": TopologyRequest(level="block"),
    "rack": TopologyRequest(level="rack"),
    "rack_preferred": TopologyRequest(level="rack", required=False),
    "host_preferred_falls_back": TopologyRequest(level="host", required=False),
    "block_balanced": TopologyRequest(level="block", balanced=True),
    "block_slices_of_4_per_host": TopologyRequest(level="block", slices=(SliceLayer(4, "host"),)),
    "slices_of_16_per_rack_of_4_per_host": TopologyRequest(slices=(SliceLayer(16, "rack"), SliceLayer(4, "host"))),
}


def book(nodes: int, seed: random.Random) -> Cluster:
    cluster = Cluster()
    for index in range(nodes):
        rack = index // RACK
        labels = (("block", f"b{rack // BLOCK}"), ("host", f"n{index}"), ("rack", f"r{rack}"))
        labels += (("zone", f"z{rack // BLOCK // 4}"),)
        room = amounts({"cpu": 96_000, "memory": 384 * GIB, "pods": 250})
        part = seed.uniform(0.2, 0.8)
        taken = amounts({"cpu": int(96_000 * part), "memory": int(384 * GIB * part)})
        fold(cluster, [NodeSeen(Node(name=f"n{index}", allocatable=room, labels=labels))])
        fold(cluster, [Occupied(f"p{index}", f"n{index}", taken)])
    return cluster


def measure(cluster: Cluster, case: str, near: TopologyRequest | None, args: argparse.Namespace) -> dict[str, object]:
    shape = Shape(requests=amounts({"cpu": 4_000, "memory": 16 * GIB}))
    asked = cluster.interned.gang((Role(name="worker", count=args.pods, minimum=args.pods, shape=shape),), (), near)
    return timed(cluster, case, asked, args)


def groups(cluster: Cluster, args: argparse.Namespace) -> dict[str, object]:
    """Four groups of two roles, each in a rack of its own choice, all in one block."""
    shape = Shape(requests=amounts({"cpu": 4_000, "memory": 16 * GIB}))
    names = [f"group-{index}" for index in range(4)]
    roles = [
        Role(name=f"{kind}-{name}", count=count, minimum=count, shape=shape, group=name)
        for name in names
        for kind, count in (("head", 1), ("worker", args.pods // 4 - 1))
    ]
    parts = tuple(Group(name=name, closeness=TopologyRequest(level="rack")) for name in names)
    asked = cluster.interned.gang(tuple(roles), parts, TopologyRequest(level="block"))
    return timed(cluster, "4_groups_in_racks_of_a_block", asked, args)


def timed(cluster: Cluster, case: str, asked: Gang, args: argparse.Namespace) -> dict[str, object]:
    draft = Draft(cluster.columns, LEVELS)
    took, placed = [], 0
    for _ in range(args.rounds):
        if args.changing:
            cluster.columns.attributes.derived.clear()
        mark = draft.mark()
        begin = time.perf_counter()
        outcome = gang.place(draft, asked)
        took.append((time.perf_counter() - begin) * 1e6)
        placed += isinstance(outcome, list)
        draft.rewind(mark)
    return {
        "benchmark": "topology",
        "case": case,
        "nodes": args.nodes,
        "pods": args.pods,
        "changing": args.changing,
        "placed": placed == args.rounds,
        "median_us": round(statistics.median(took)),
        "slowest_us": round(max(took)),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--nodes", type=int, default=5000)
    parser.add_argument("--pods", type=int, default=64)
    parser.add_argument("--rounds", type=int, default=200)
    parser.add_argument("--changing", action="store_true")
    args = parser.parse_args()
    cluster = book(args.nodes, random.Random(1))
    for case, near in CASES.items():
        print(json.dumps(measure(cluster, case, near, args)), flush=True)
    print(json.dumps(groups(cluster, args)), flush=True)


if __name__ == "__main__":
    main()
