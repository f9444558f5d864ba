"""Topology: how close to each other the pods of a gang must, or should, be.

Levels are node label keys, from coarse to fine (zone, block, rack, NVLink domain, host). A *domain* of a level is the
set of nodes with the same values of its key and all coarser ones. (Kueue's Topology-Aware Scheduling, KEP-2724.)
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Topology:
    """One hierarchy of levels, coarse to fine."""

    levels: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class TopologyRequest:
    """All pods go to one domain of `level`, a label key of some topology. If it is not `required` and no domain holds
    them, the next coarser level is tried, and at last any nodes. `balanced`: over the domains below `level` evenly,
    instead of as few as possible. `slice_pods`: besides, every so many pods of a role (in order of ordinals) share one
    domain of `slice_level`."""

    level: str = ""
    required: bool = True
    balanced: bool = False
    slice_level: str = ""
    slice_pods: int = 0
