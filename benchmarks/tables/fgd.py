"""FGD (Weng et al., ATC'23, figure 9): the part of 6,212 GPUs that is allocated when pods have come that ask 100 and
130 % of them. Published are means over ten seeds; ours are over as many as were asked for (`SEEDS`, 1 unless said)."""

from __future__ import annotations

import csv
import os
from collections.abc import Callable, Iterator
from dataclasses import replace
from statistics import mean

from study import HERE, Cell, Figures, Row, Study, trace

from phalanx import loop
from phalanx.simulator.readers import openb
from phalanx.simulator.run.play import allocated, inflated
from phalanx.simulator.run.play import play as simulate
from phalanx.simulator.run.setup import built_in

NODES = "openb_node_list_gpu_node.csv.gz"
OURS = "fewest-lost"
FIRST_SEED = 42
SEEDS = range(FIRST_SEED, FIRST_SEED + int(os.environ.get("SEEDS", "1")))

with (HERE / "published" / "fgd.csv").open(newline="") as file:
    PUBLISHED = {(row["list"], row["policy"]): row for row in csv.DictReader(file)}
LISTS = sorted({pods for pods, _ in PUBLISHED}, key=lambda pods: (pods != "default", pods))
POLICIES = (*dict.fromkeys(policy for _, policy in PUBLISHED), OURS)


def file_of(pods: str) -> str:
    return f"openb_pod_list_{pods}.csv.gz"


def play(pods: str, policy: str, seed: int) -> Figures:
    workload = replace(openb.read(trace(file_of(pods))), nodes=openb.read_nodes(trace(NODES)))
    schedule = simulate(inflated(workload, 1.3, seed), built_in(policy), loop.step, seed=seed)
    return {
        "at_100": 100 * allocated(schedule, 1.0),
        "at_130": 100 * allocated(schedule, 1.3),
        "wall_s": schedule.wall_s,
    }


def rows(of: Callable[..., Figures | None]) -> Iterator[Row]:
    for pods in LISTS:
        for policy in POLICIES:
            found = [figures for seed in SEEDS if (figures := of(pods=pods, policy=policy, seed=seed)) is not None]
            for at in ("at_100", "at_130"):
                published = float(PUBLISHED[pods, "fgd" if policy == OURS else policy][at])
                ours = mean(figures[at] for figures in found) if found else None
                against = " (ours; beside FGD's)" if policy == OURS else ""
                within = None if policy == OURS else 0.5
                what = f"{pods}, {policy}{against}, {at.removeprefix('at_')} %"
                yield Row(what, ours, published, within=within, relative=False)


CELLS = [
    Cell("fgd", {"pods": pods, "policy": policy, "seed": seed}, (NODES, file_of(pods)), slow=pods != "default")
    for pods in LISTS
    for policy in POLICIES
    for seed in SEEDS
]
STUDY = Study("fgd", "FGD, ATC'23: GPUs allocated, % of 6,212", CELLS, play, rows)
