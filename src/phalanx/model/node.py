"""A node as the world describes it. In the `Cluster` nodes become columns; this is what crosses the boundary."""

from __future__ import annotations

from dataclasses import dataclass

from phalanx.model.shape import Amounts


@dataclass(frozen=True, slots=True)
class Taint:
    """`effect`: NoSchedule and NoExecute keep pods away that do not tolerate it; PreferNoSchedule does not."""

    key: str
    value: str = ""
    effect: str = "NoSchedule"


@dataclass(frozen=True, slots=True, kw_only=True)
class Node:
    """`allocatable` (never capacity), with `pods` as one of its resources."""

    name: str
    allocatable: Amounts
    labels: tuple[tuple[str, str], ...] = ()
    taints: tuple[Taint, ...] = ()
    unschedulable: bool = False
    ready: bool = True
