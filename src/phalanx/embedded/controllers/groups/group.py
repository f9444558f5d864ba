"""The loops and queues that run for a group of controllers."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Protocol

from phalanx.client.kind import Kind
from phalanx.embedded.controllers.runtime.reconciler import WorkQueue


class KeyController(Protocol):
    """A controller with one queue. `start` subscribes to the objects whose keys it adds to the queue."""

    queue: WorkQueue

    def start(self) -> None: ...


class LoopController(Protocol):
    """A controller without a queue. It runs as soon as its kind is served."""

    def start(self) -> None: ...

    async def run(self) -> None: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class ControllerGroup:
    """The controllers of one group. `endless`: name -> a function that is called again when it ends. `queues`: the kind
    of the objects whose keys are in a queue -> the queue. If the reconciliation of an object fails because of a defect,
    an Event about the object is written."""

    queued: tuple[KeyController, ...] = ()
    loops: tuple[LoopController, ...] = ()
    endless: Mapping[str, Callable[[], Awaitable[None]]] = field(default_factory=dict)
    queues: tuple[tuple[Kind, WorkQueue], ...] = ()
