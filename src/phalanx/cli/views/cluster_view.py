"""Build a row of `phalanx clusters`: the resources and the usage of another cluster, and the reason why it gets no
jobs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from phalanx.cli.terminal.output import duration
from phalanx.client.connection import Object
from phalanx.client.moment import MomentError, read_moment
from phalanx.clusters.question import ClusterOffer, offer_of
from phalanx.clusters.workers.state import WorkerCapacity, read_figures
from phalanx.model.pod import CPU, MEMORY, PODS, format_amount

COLUMNS = ("CLUSTER", "STATE", "SINCE", "NODES", "CPU", "MEMORY", "OTHERS", "JOBS", "VERSION", "OFFERS", "WHY")
GIVES_WAY = ("VERSION", "OFFERS", "OTHERS", "MEMORY", "SINCE", "NODES")
_SHOWN = {CPU, MEMORY, PODS, "ephemeral-storage"}
UNSEEN = "no scheduler has checked it yet; `phalanx up` and `phalanx scheduler --dialect kueue` check clusters"


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterView:
    """The row of a cluster. `active`: True if jobs are sent to the cluster. `why`: the reason why no jobs are sent.
    `mend`: the solution for the user. `since_s`: the time when the cluster became active or inactive (seconds since the
    epoch); None if unknown. `figures`: its numbers of nodes and its amounts of resources, as the scheduler last read
    them.
    `offer`: its data sets and prices."""

    name: str
    active: bool
    why: str = ""
    mend: str = ""
    since_s: float | None = None
    figures: WorkerCapacity = field(default_factory=WorkerCapacity)
    offer: ClusterOffer = field(default_factory=ClusterOffer)

    def record(self) -> dict[str, Any]:
        """Return the row for `--json`, with cpu in millicores and all other amounts in whole units."""
        said = asdict(self)
        del said["figures"], said["offer"]
        said |= {"prices": dict(self.offer.prices), "data": sorted(self.offer.data), "wrong": self.offer.wrong}
        figures = {name: getattr(self.figures, name) for name in self.figures.__struct_fields__}
        return {"cluster": said.pop("name"), **said, **figures}


def view_of(cluster: Object) -> ClusterView:
    """Return the row of a MultiKueueCluster."""
    conditions = (cluster.get("status") or {}).get("conditions") or ()
    one = next((each for each in conditions if each.get("type") == "Active"), None)
    name = cluster["metadata"]["name"]
    if one is None:
        return ClusterView(name=name, active=False, why=UNSEEN, offer=offer_of(cluster))
    active, message = one.get("status") == "True", str(one.get("message") or "")
    why, _, mend = ("", "", "") if active else message.partition(". ")
    try:
        since_s: float | None = read_moment(one.get("lastTransitionTime"))
    except MomentError:
        since_s = None
    figures, offer = read_figures(cluster), offer_of(cluster)
    return ClusterView(name=name, active=active, why=why, mend=mend, since_s=since_s, figures=figures, offer=offer)


def row(view: ClusterView, now_s: float) -> tuple[str, ...]:
    """Return the cells of the cluster's row in the table."""
    has = view.figures.has
    others = (f"{name} {_of(view, name)}" for name in has if name not in _SHOWN)
    return (
        view.name,
        "ready" if view.active else "not ready",
        "" if view.since_s is None else duration(max(0.0, now_s - view.since_s)),
        f"{view.figures.ready}/{view.figures.nodes}" if view.figures.nodes else "-",
        _of(view, CPU),
        _of(view, MEMORY),
        ", ".join(others),
        str(view.figures.jobs),
        view.figures.version,
        _offered(view.offer),
        _why(view),
    )


def table_of(views: Sequence[ClusterView], now_s: float) -> tuple[Sequence[str], list[tuple[str, ...]], Sequence[str]]:
    """Return the columns, the cells, and the columns that may be left out on a narrow terminal. The table has a column
    OFFERS only if one of the clusters states data sets or prices."""
    lines, at = [row(view, now_s) for view in views], COLUMNS.index("OFFERS")
    if any(line[at] for line in lines):
        return COLUMNS, lines, GIVES_WAY
    return without(COLUMNS, at), [without(line, at) for line in lines], GIVES_WAY


def without(cells: tuple[str, ...], at: int) -> tuple[str, ...]:
    """Return the row `cells` without the cell at index `at`."""
    return (*cells[:at], *cells[at + 1 :])


def _offered(offer: ClusterOffer) -> str:
    prices = ", ".join(f"{resource}={price:g}/h" for resource, price in sorted(offer.prices.items()))
    return "; ".join(filter(None, (f"data {', '.join(sorted(offer.data))}" if offer.data else "", prices)))


def _why(view: ClusterView) -> str:
    """Return the reason why the cluster gets no jobs. If it gets jobs, return the notes and errors about its amounts or
    its offer."""
    said = " ".join(filter(None, (view.why and f"{view.why}.", view.mend)))
    return said or "; ".join(filter(None, (view.figures.note, view.offer.wrong)))


def _of(view: ClusterView, resource: str) -> str:
    """Return `USED/TOTAL` for a resource of the cluster; `-` if the cluster has none of it."""
    if not (has := view.figures.has.get(resource, 0)):
        return "-"
    return f"{format_amount(resource, view.figures.used.get(resource, 0))}/{format_amount(resource, has)}"
