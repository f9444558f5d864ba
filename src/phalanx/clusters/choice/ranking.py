"""The order of the clusters for one gang, and why one is not possible.

The order, most important first: when the cluster's scheduler expects to start the job, how much of the preferred data
the cluster has, its price. Clusters that are equal in all of these have one rank, and the core takes the one in which
the job fits most tightly. Quota and free capacity are not looked at here: the core does that, over the nodes of all
clusters.

A cluster is not possible if it lacks data that the job requires, or if its scheduler would not start the job soon for a
reason that the manager cannot see from its nodes: a quota there, a queue that does not exist. Where the reason is that
nodes are full, the core sees that itself, and may preempt.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final, TypeAlias

from phalanx.clusters.choice.offer import ClusterOffer, data_names
from phalanx.clusters.choice.question import StartOutlook
from phalanx.kube.gang.spec.elsewhere import ClusterChoice, Sought
from phalanx.kube.read.labels import DATA, PREFERRED_DATA
from phalanx.model.reason import Reason, ReasonCode

LATE_S = 300.0  # a job that a cluster would start later than that is not sent to it yet
SOON_S = 60.0  # starts that are no further off are equal
SEEN_BY_THE_CORE: Final = frozenset({ReasonCode.NO_ROOM, ReasonCode.PREEMPTING})


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterCandidate:
    """A cluster that may get the gang. `trouble`: why it gets no jobs now; empty if it does. `outlook`: the answer of
    its scheduler; None: it gives none."""

    name: str
    offer: ClusterOffer
    trouble: str = ""
    outlook: StartOutlook | None = None


Gist: TypeAlias = tuple[str, bool, float]


def gist(outlook: StartOutlook | None, now_s: float) -> Gist:
    """Return what the order depends on in an outlook: as long as it is equal, the order is."""
    if outlook is None:
        return "", False, 0.0
    off_s = max(0.0, outlook.start_s - now_s)
    return outlook.code, outlook.never, min(off_s, LATE_S + SOON_S) // SOON_S


def rank(sought: Sought, candidates: Iterable[ClusterCandidate], now_s: float) -> ClusterChoice:
    """Return the choice for the gang. `now_s`: seconds since the epoch."""
    try:
        required = data_names(sought.options.get(DATA, ""))
        preferred = data_names(sought.options.get(PREFERRED_DATA, ""))
    except ValueError as error:
        why = Reason(code=ReasonCode.INVALID, text=f"{sought.gang} says {DATA} or {PREFERRED_DATA}: {error}")
        return ClusterChoice(clusters=sought.clusters, blocked=why)
    ranks, facts, excluded = dict[str, tuple[float, int, float]](), dict[str, str](), dict[str, bool]()
    for one in candidates:
        price = one.offer.price(sought.roles)
        lacking = [name for name in required if name not in one.offer.data]
        missing = sum(name not in one.offer.data for name in preferred)
        off_s = 0.0 if one.outlook is None else max(0.0, one.outlook.start_s - now_s)
        for_ever = bool(lacking) or _never(one.outlook)
        if lacking or _is_late(one.outlook, off_s):
            excluded[one.name] = for_ever
        ranks[one.name] = (0.0 if off_s <= SOON_S else off_s // SOON_S, missing, price)
        facts[one.name] = ", ".join(_facts(one, off_s, lacking, len(preferred) - missing, len(preferred), price))
    order = {key: at for at, key in enumerate(sorted(set(ranks.values())))}
    best_first = sorted(ranks, key=lambda name: (name in excluded, ranks[name], name))
    possible = tuple(name for name in ranks if name not in excluded)
    return ClusterChoice(
        clusters=sought.clusters if not excluded else possible,
        ranks=tuple((name, order[ranks[name]]) for name in possible) if len(order) > 1 else (),
        blocked=_blocked(facts, excluded, best_first) if ranks and not possible else None,
        facts={name: facts[name] for name in best_first},
    )


def _is_late(outlook: StartOutlook | None, off_s: float) -> bool:
    return outlook is not None and off_s > LATE_S and outlook.code not in SEEN_BY_THE_CORE


def _never(outlook: StartOutlook | None) -> bool:
    return outlook is not None and outlook.never


def _facts(
    one: ClusterCandidate, off_s: float, lacking: list[str], has: int, preferred: int, price: float
) -> Iterable[str]:
    if one.trouble:
        yield f"gets no jobs now ({one.trouble})"
    if lacking:
        yield f"lacks the data {', '.join(lacking)}"
    if one.trouble:
        pass
    elif one.outlook is None:
        yield "expected start not told"
    elif off_s <= SOON_S:
        yield "would start it at once"
    else:
        yield one.outlook.text
    if preferred:
        yield f"has {has} of {preferred} preferred data"
    if price:
        yield f"price {price:.4g}/h"


def _blocked(facts: Mapping[str, str], excluded: Mapping[str, bool], order: Iterable[str]) -> Reason:
    code = ReasonCode.NO_NODE_MATCHES if all(excluded.values()) else ReasonCode.BACKOFF
    each = [f"{name}: {facts[name]}" for name in order]
    return Reason(code=code, text=f"no cluster would start it soon. {'; '.join(each[:8])}")
