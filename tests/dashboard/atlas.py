"""A cluster to look at: 24 nodes of 8 GPUs in three racks, a tree of queues, a day past and a day to come. Always
the same one, so that pictures of it can be compared."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TypeAlias

from phalanx.dashboard.rows import (
    Facts,
    JobRow,
    NodeRow,
    PageState,
    PastRow,
    PlayedRow,
    QueueRow,
    ReasonRow,
    ReservationRow,
)

NOW_S = 1_781_618_520.0  # 2026-06-16 14:02 UTC
DAY_S = 86_400.0
GPUS = 8
# leaf -> (its parent, guaranteed, limit, users, what its jobs are called)
LEAVES = {
    "pretrain": ("language", 64, None, ("oskar", "yusuf"), ("llm-13b", "moe-8x7b", "data-mix")),
    "finetune": ("language", 24, 48, ("lin", "priya", "jonas"), ("sft-7b", "dpo-7b", "rlhf-critic", "lora-13b")),
    "vision": ("research", 40, None, ("ivo", "hana", "felix"), ("seg-ft", "depth-ft", "diffusion-xl")),
    "search": ("product", 32, None, ("dan", "marco"), ("rerank-l", "embed-v4", "query-gen")),
    "ranking": ("product", 24, 32, ("greta", "leila"), ("ctr-deep", "two-tower", "feed-rank")),
    "ci": ("commons", 8, 12, ("ci-bot",), ("gpu-test",)),
}
PARENTS = {"research": "", "language": "research", "product": "", "commons": ""}
SIZES = (1, 1, 2, 2, 4, 8)
Named: TypeAlias = Callable[[str], str]  # leaf queue -> a name of a job or a user of it


@dataclass(slots=True)
class Atlas:
    """The cluster, as rows."""

    state: PageState
    past: list[PastRow] = field(default_factory=list)


def atlas() -> Atlas:
    """Return the cluster."""
    rng = random.Random(7)
    nodes = {f"gpu-{rack}{letter}": f"rack {rack}" for rack in (1, 2, 3) for letter in "abcdefgh"}
    past: list[PastRow] = []
    jobs: dict[str, JobRow] = {}
    numbers: dict[str, int] = {}

    def name(leaf: str) -> str:
        stem = rng.choice(LEAVES[leaf][4])
        numbers[stem] = numbers.get(stem, 0) + 1
        space = LEAVES[leaf][0] if LEAVES[leaf][0] in ("language", "product") else leaf
        return f"{space}/{stem}-{numbers[stem]}"

    def user(leaf: str) -> str:
        return rng.choice(LEAVES[leaf][3])

    for node in nodes:
        if node == "gpu-2f":
            continue
        for lane in _lanes(rng):
            _fill(rng, node, lane, past, jobs, name, user)
    _big(past, jobs)
    _waiting(rng, jobs, name, user)
    return Atlas(_state(nodes, jobs, past), past)


def _leaf(rng: random.Random, gpus: int) -> str:
    """The queue of a job of that size."""
    weights = {"pretrain": 8, "vision": 5, "search": 4} if gpus == GPUS else dict.fromkeys(LEAVES, 4) | {"ci": 1}
    return rng.choices(list(weights), list(weights.values()))[0]


def _lanes(rng: random.Random) -> list[int]:
    """The node's GPUs, cut into lanes that jobs use one after the other."""
    left, found = GPUS, list[int]()
    while left:
        size = rng.choice([one for one in SIZES if one <= left])
        found.append(size)
        left -= size
    return found


def _fill(
    rng: random.Random, node: str, gpus: int, past: list[PastRow], jobs: dict[str, JobRow], name: Named, user: Named
) -> None:
    at_s = NOW_S - DAY_S - rng.random() * 3600
    while at_s < NOW_S:
        leaf = _leaf(rng, gpus)
        lasts_s = rng.choice((900, 3600, 5400, 9000, 18000)) * (0.6 + rng.random())
        job, end_s = name(leaf), at_s + lasts_s
        if end_s < NOW_S:
            outcome = rng.choices(("COMPLETED", "FAILED", "TIMEOUT"), (30, 2, 1))[0]
            why = "pod main-0: container main: exit code 1" if outcome == "FAILED" else ""
            past.append(
                PastRow(
                    job=job,
                    user=user(leaf),
                    queue=leaf,
                    units=gpus,
                    submitted_s=at_s - 900,
                    start_s=at_s,
                    end_s=end_s,
                    outcome=outcome,
                    why=why,
                    places=((node, gpus),),
                    backfilled=gpus == 4,
                )
            )
        else:
            jobs[job] = JobRow(
                id=job,
                user=user(leaf),
                queue=leaf,
                state="running",
                units=gpus,
                each=gpus,
                pods=1,
                placed=1,
                cpu=gpus * 12,
                memory=gpus * 96,
                submitted_s=at_s - 900,
                since_s=at_s,
                limit_s=6 * 3600,
                end_s=end_s,
                places=((node, gpus),),
            )
        at_s = end_s + 60 * rng.random()


def _big(past: list[PastRow], jobs: dict[str, JobRow]) -> None:
    """A job of the ledger that was preempted and waits again; its preemptor runs."""
    preemptor = next(job for job in jobs.values() if job.queue == "search" and job.units >= 4)
    past.append(
        PastRow(
            job="language/llm-3b-abl-1",
            user="priya",
            queue="finetune",
            units=preemptor.units,
            submitted_s=NOW_S - 9 * 3600,
            start_s=preemptor.since_s - 4000,
            end_s=preemptor.since_s - 60,
            outcome="PREEMPTED",
            why="search stays within its guarantee, finetune has more than its own",
            by=preemptor.id,
            places=preemptor.places,
        )
    )
    jobs["language/llm-3b-abl-1"] = JobRow(
        id="language/llm-3b-abl-1",
        user="priya",
        queue="finetune",
        units=preemptor.units,
        each=preemptor.units,
        pods=1,
        cpu=48,
        memory=384,
        submitted_s=NOW_S - 9 * 3600,
        since_s=preemptor.since_s,
        limit_s=8 * 3600,
        reason="room",
        start_s=_start(40),
        position=2,
        preempted=1,
        preempted_by=preemptor.id,
    )


def _start(minutes: float) -> tuple[float | None, ...]:
    parts = (0.5, 0.8, 1.0, 1.3, 1.9, 3.5)
    return tuple(NOW_S + minutes * 60 * part for part in parts)


def _array(jobs: dict[str, JobRow]) -> None:
    """Sixty jobs of one array, of which four run at a time."""
    for number in range(60):
        jobs[f"vision/sweep-aug-{number:03}"] = JobRow(
            id=f"vision/sweep-aug-{number:03}",
            user="hana",
            queue="vision",
            units=1,
            each=1,
            pods=1,
            cpu=12,
            memory=96,
            array="sweep-aug",
            array_cap=4,
            submitted_s=NOW_S - 3000,
            since_s=NOW_S - 3000,
            limit_s=3600,
            reason="array",
            start_s=_start(6 + number * 9),
            position=10 + number,
        )


def _waiting(rng: random.Random, jobs: dict[str, JobRow], name: Named, user: Named) -> None:
    jobs["language/data-mix-9"] = JobRow(
        id="language/data-mix-9",
        user="yusuf",
        queue="pretrain",
        units=32,
        each=8,
        pods=4,
        cpu=384,
        memory=3072,
        submitted_s=NOW_S - 7200,
        since_s=NOW_S - 7200,
        limit_s=12 * 3600,
        reason="gang",
        start_s=_start(190),
        position=1,
    )
    jobs["vision/too-large-1"] = JobRow(
        id="vision/too-large-1",
        user="ivo",
        queue="vision",
        units=16,
        each=16,
        pods=1,
        submitted_s=NOW_S - 600,
        since_s=NOW_S - 600,
        reason="never",
        position=9,
    )
    _array(jobs)
    for number in range(24):
        leaf = rng.choice([one for one in LEAVES if one != "ci"])
        job, gpus = name(leaf), rng.choice((1, 2, 4, 8))
        jobs[job] = JobRow(
            id=job,
            user=user(leaf),
            queue=leaf,
            units=gpus,
            each=gpus,
            pods=1,
            cpu=gpus * 12,
            memory=gpus * 96,
            submitted_s=NOW_S - 600 - 97 * number,
            since_s=NOW_S - 600 - 97 * number,
            limit_s=4 * 3600,
            reason=rng.choice(("room", "room", "reserved")),
            start_s=_start(3 + number * 11),
            position=3 + number,
        )


def _reasons(jobs: dict[str, JobRow]) -> dict[str, ReasonRow]:
    holders = sorted((job for job in jobs.values() if job.state == "running"), key=lambda job: (-job.units, job.id))[:4]
    held = {job.id: int(job.units) for job in holders}
    room = {"placed": 0, "pods": 1, "resource": "nvidia.com/gpu", "holders": held}
    rows = (
        ReasonRow(
            key="room", code="NoRoom", text="the largest free node has 0 of the 4 nvidia.com/gpu asked", numbers=room
        ),
        ReasonRow(
            key="gang",
            code="NoRoom",
            text="placed 1 of 4 pods; then the largest free node has 2 of the 8 nvidia.com/gpu asked",
            numbers={**room, "placed": 1, "pods": 4},
        ),
        ReasonRow(
            key="never",
            code="NeverFits",
            text="one of its pods asks 16 nvidia.com/gpu, but the largest node has 8",
            never=True,
        ),
        ReasonRow(
            key="array",
            code="ArrayLimit",
            text="at most 4 of the array sweep-aug run at a time",
            numbers={"array": "sweep-aug", "cap": 4},
        ),
        ReasonRow(
            key="reserved",
            code="Reserved",
            text="it would delay language/data-mix-9, which is to start at 17:12:00 UTC",
            numbers={"for": "language/data-mix-9", "until_s": NOW_S + 190 * 60, "limit_s": 4 * 3600},
        ),
    )
    return {row.key: row for row in rows}


def _queues(jobs: dict[str, JobRow]) -> dict[str, QueueRow]:
    below = {name: [leaf for leaf in LEAVES if name in _path(leaf)] for name in (*PARENTS, *LEAVES)}
    found = {}
    for name, leaves in below.items():
        mine = [job for job in jobs.values() if job.queue in leaves]
        used = sum(job.units for job in mine if job.state == "running")
        guaranteed = sum(LEAVES[leaf][1] for leaf in leaves)
        found[name] = QueueRow(
            name=name,
            parent=_path(name)[1] if len(_path(name)) > 1 else "",
            depth=len(_path(name)) - 1,
            used=used,
            guaranteed=guaranteed,
            limit=LEAVES[name][2] if name in LEAVES else None,
            running=sum(job.state == "running" for job in mine),
            waiting=sum(job.state != "running" for job in mine),
            share=round(max(0, used - guaranteed) / 192, 3),
            weight=2 if name == "research" else 1,
            order="fair" if name in PARENTS else "priority",
        )
    return found


def _path(name: str) -> list[str]:
    above = LEAVES[name][0] if name in LEAVES else PARENTS[name]
    return [name, *(_path(above) if above else [])]


def _state(nodes: dict[str, str], jobs: dict[str, JobRow], past: list[PastRow]) -> PageState:
    waiting = sorted((job for job in jobs.values() if job.start_s), key=lambda job: job.start_s[2] or 0)
    names = list(nodes)
    played = {
        job.id: PlayedRow(
            job=job.id,
            start_s=job.start_s[2] or 0,
            end_s=(job.start_s[2] or 0) + 5400,
            places=tuple((names[(at * 5 + pod) % len(names)], job.each) for pod in range(job.pods)),
        )
        for at, job in enumerate(waiting)
    }
    rows = {
        name: NodeRow(
            name=name,
            group=rack,
            flavor="a100" if rack == "rack 3" else "h100",
            state={"gpu-2f": "not ready", "gpu-3g": "cordoned"}.get(name, "ready"),
            units=GPUS,
            cpu=(96, 128),
            memory=(768, 1024),
        )
        for name, rack in nodes.items()
    }
    maintenance = ReservationRow(
        name="rack-3-firmware", nodes=("gpu-3a", "gpu-3b"), start_s=NOW_S + 6 * 3600, end_s=NOW_S + 9 * 3600
    )
    facts = Facts(
        at_s=NOW_S,
        cluster="atlas",
        version="0.1.0",
        unit="nvidia.com/gpu",
        user="ana",
        alive_s=NOW_S - 2,
        forecast_s=NOW_S,
        head="language/data-mix-9",
        head_s=NOW_S + 7 * 3600,
        past=True,
    )
    return PageState(
        facts=facts,
        jobs=jobs,
        queues=_queues(jobs),
        nodes=rows,
        reasons=_reasons(jobs),
        reservations={maintenance.name: maintenance},
        played=played,
    )
