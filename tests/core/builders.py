"""Short ways to say nodes, jobs and clusters in tests."""

from __future__ import annotations

from phalanx.core.fold.fold import fold
from phalanx.model.event import Event, NodeSeen, QueueSeen, Submitted
from phalanx.model.job import Job, Role
from phalanx.model.node import Node
from phalanx.model.pod import Shape, amounts
from phalanx.model.queue import Queue
from phalanx.state.cluster import Cluster


def node(name: str, *, labels: dict[str, str] | None = None, pods: int = 110, **room: int) -> Node:
    """Amounts as they are counted: `cpu` in millicores."""
    allocatable = amounts({"pods": pods, **room})
    return Node(name=name, allocatable=allocatable, labels=tuple(sorted((labels or {}).items())))


def role(name: str = "worker", count: int = 1, minimum: int | None = None, **asks: int) -> Role:
    least = count if minimum is None else minimum
    return Role(name=name, count=count, minimum=least, shape=Shape(requests=amounts(asks)))


def job(name: str, *roles: Role, queue: str = "default", at: float = 0.0, priority: int = 0) -> Job:
    return Job(id=name, queue=queue, roles=roles, submitted_s=at, priority=priority)


def cluster(*news: Node | Job | Event) -> Cluster:
    """A book with the queue `default` and these nodes, jobs and events."""
    book = Cluster()
    fold(book, [QueueSeen(Queue(name="default"))])
    for item in news:
        fold(book, [event(item)])
    return book


def event(item: Node | Job | Event) -> Event:
    if isinstance(item, Node):
        return NodeSeen(item)
    return Submitted(item) if isinstance(item, Job) else item


def free(book: Cluster, name: str, resource: str = "cpu") -> int:
    return book.columns.free_of(book.columns.row_of[name])[resource]
