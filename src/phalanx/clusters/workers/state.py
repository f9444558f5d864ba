"""Represent the state of the connection to a worker as a condition of its MultiKueueCluster, and the worker's figures
(capacity and use) as an annotation.

The condition has Kueue's type, reasons and messages (`Active`, `BadKubeConfig`, `ClientConnectionFailed`). If a
connection does not work, the message also states how to repair the connection. The figures are JSON in an annotation of
the MultiKueueCluster, because its status has no field for them."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Any, NamedTuple

import msgspec

from phalanx.client.moment import write_moment

FIGURES = "phalanx.dev/cluster-figures"  # the annotation to which the scheduler writes a worker's capacity and usage


class Why(StrEnum):
    """The reasons of the condition Active."""

    ACTIVE = "Active"
    BAD_CONFIG = "BadKubeConfig"
    FAILED = "ClientConnectionFailed"


class ConnectionState(NamedTuple):
    """The state of a connection. `text`: what is wrong. `mend`: how to correct it. `since_s`: when the state began, in
    seconds since the epoch."""

    why: Why
    text: str = ""
    mend: str = ""
    since_s: float = 0.0

    @property
    def active(self) -> bool:
        return self.why is Why.ACTIVE

    @property
    def message(self) -> str:
        if self.active:
            return f"Connected; {self.text}" if self.text else "Connected"
        return f"{self.text}. {self.mend}" if self.mend else self.text

    def same(self, other: ConnectionState | None) -> bool:
        """Return True if the states are equal, except for the times at which they began."""
        return other is not None and self[:3] == other[:3]


class WorkerCapacity(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The figures of a worker: its capacity and how much of it is used. `nodes`: the number of nodes. `ready`: the
    number of nodes that take pods. `has`: resource -> the sum of the allocatable amounts of these nodes. `used`:
    resource -> the sum of the requests of the pods on these nodes. `jobs`: the number of received jobs that have not
    ended. `version`: the worker's version of Kubernetes.
    `scheduler`: the names of the schedulers (such as Kueue) whose queues the worker has. `note`: a reason why these
    numbers are incomplete.
    `lacks`: the kinds of jobs that the manager has, but that the worker does not define or does not allow the manager
    to list."""

    nodes: int = 0
    ready: int = 0
    has: dict[str, int] = {}
    used: dict[str, int] = {}
    jobs: int = 0
    version: str = ""
    scheduler: str = ""
    note: str = ""
    lacks: tuple[str, ...] = ()

    def text(self) -> str:
        return msgspec.json.encode(self).decode()


def read_figures(cluster: Mapping[str, Any]) -> WorkerCapacity:
    """Return the capacity and the usage in the annotation of a MultiKueueCluster; empty values if there is no
    annotation, or it cannot be read."""
    said = (cluster["metadata"].get("annotations") or {}).get(FIGURES)
    try:
        return WorkerCapacity() if said is None else msgspec.json.decode(said, type=WorkerCapacity)
    except msgspec.MsgspecError:
        return WorkerCapacity()


def condition(state: ConnectionState, old: Mapping[str, object], generation: int, now_s: float) -> dict[str, Any]:
    """Return the condition Active. `old`: the present condition; its transition time is kept if the status has not
    changed."""
    truth = "True" if state.active else "False"
    stays = old.get("status") == truth and old.get("lastTransitionTime")
    return {
        "type": "Active",
        "status": truth,
        "reason": state.why.value,
        "message": state.message,
        "lastTransitionTime": old["lastTransitionTime"] if stays else write_moment(now_s),
        "observedGeneration": generation,
    }
