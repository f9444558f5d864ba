"""Gangs for which a cluster is chosen, and the clusters."""

from __future__ import annotations

from typing import Any

from phalanx.clusters.choices import ClusterCandidate
from phalanx.clusters.question import DATA_PREFIX, PRICE, ClusterOffer, StartOutlook
from phalanx.kube.gang.spec.elsewhere import Sought
from tests.clusters.several import ACTIVE
from tests.core.builders import role
from tests.kube.double import Object

NOW_S = 1_000_000.0


def sought(**options: str) -> Sought:
    words = {"kueue.x-k8s.io/queue-name": "l", **{key.replace("__", "/"): text for key, text in options.items()}}
    return Sought(
        gang="default/one",
        options=words,
        roles=(role("main", 2, cpu=1000, memory=2**30),),
        priority=0,
        limit_s=None,
        clusters=None,
    )


def asking(name: str, text: str) -> Sought:
    return Sought(**{**fields_of(sought()), "options": {"kueue.x-k8s.io/queue-name": "l", name: text}})


def fields_of(one: Sought) -> dict[str, Any]:
    return {name: getattr(one, name) for name in one.__slots__}


def cluster(name: str, price: str = "", *data: str) -> Object:
    labels = {f"{DATA_PREFIX}{each}": "" for each in data}
    meta = {"name": name, "labels": labels, "annotations": {PRICE: price} if price else {}}
    return {"metadata": meta, "status": ACTIVE}


def candidates(**said: StartOutlook | None) -> list[ClusterCandidate]:
    return [ClusterCandidate(name=name, offer=ClusterOffer(), outlook=outlook) for name, outlook in said.items()]
