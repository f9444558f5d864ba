"""A queue: a node of the one quota tree. For now the tree is flat and a queue says only how its jobs start."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Queue:
    """`gang=False` schedules pod by pod, as kube-scheduler does: jobs may then deadlock each other half-started."""

    name: str
    parent: str = ""
    gang: bool = True
