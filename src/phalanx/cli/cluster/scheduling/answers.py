"""Serve views of the scheduler's state on its socket: API groups of dialects, rows of jobs, numbers for every user."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AbstractAsyncContextManager, nullcontext
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Protocol, TypeAlias

from phalanx.cli.cluster.numbers import answering
from phalanx.cli.cluster.numbers.fetching import GROUP
from phalanx.cli.cluster.scheduling.glance import Glance
from phalanx.client.informer import Informer
from phalanx.client.kind import Kind
from phalanx.kube.world.kube_world import KubeWorld
from phalanx.state.cluster import Cluster

if TYPE_CHECKING:  # servers and a database are imported only if they are used
    from phalanx.cli.cluster.visibility import Ask, LedgerRows


# A function that takes path and query, and returns a function that computes the response; None if another module serves
# the path.
AnswerOf: TypeAlias = "Callable[[tuple[str, ...], Mapping[str, str]], Ask | None]"


class JobRows(Protocol):
    """The interface of the object that answers requests for rows and pages of jobs."""

    def answer(self, path: tuple[str, ...], query: Mapping[str, str]) -> Ask | None: ...


# A function that takes the state, the world, its caches, the clock and the expected starts, and returns the rows of
# jobs.
RowsOf = Callable[
    [Cluster, KubeWorld, Callable[[Kind], Informer], Callable[[], float], Callable[[], Mapping[str, float]]], JobRows
]


def visible_state(
    folder: Path | None,
    world: KubeWorld,
    glance: Glance,
    clock: Callable[[], float],
    rows: AnswerOf | None,
    ledger: str | None,
) -> AbstractAsyncContextManager[None]:
    """Serve on a socket in `folder`: the API groups of other schedulers' dialects (such as Kueue's visibility API) and,
    in Phalanx's own API group, rows of jobs and the numbers for every user. If `folder` is None, nothing is served."""
    if folder is None:
        return nullcontext()
    from phalanx.cli.cluster.numbers.starting import Present, StartAnswers
    from phalanx.cli.cluster.visibility import visible

    starts = StartAnswers(
        lambda: Present(
            cluster=glance.cluster,
            admission=world.caches.admission,
            defaults=world.watch.defaults,
            now_s=clock(),
        )
    )

    def view(group: str, path: tuple[str, ...], query: Mapping[str, str]) -> Ask | None:
        if group != GROUP:
            return world.answers.reports.view(group, path, query)
        if rows is not None and (ask := rows(path, query)) is not None:
            return ask
        if (start := starts.answer(path, query)) is not None:
            return start
        # computed in the event loop and not in a thread, because the state must not change during the computation
        found = answering.answer(glance.numbers(), path)
        return lambda: found

    return visible(folder, view, world.answers.reports.stream, None if ledger is None else _shown_rows(ledger))


def _shown_rows(ledger: str) -> LedgerRows:
    """Return a function that reads rows of the ledger. The modules for the ledger are imported in this function,
    because few clusters have a ledger."""
    from phalanx.embedded.apiserver.endpoints.paths.slurm_view import SHOWN
    from phalanx.slurm.cluster.ledger import rows

    return partial(rows, ledger, fields=SHOWN)
