"""Choose a cluster for each waiting gang, and keep the choice up to date. A *worker* is a cluster to which jobs may be
sent; the *manager* is the cluster that sends them.

`kube.gang.spec.gang_spec` calls `choose` whenever it reads a gang that is meant for another cluster. If a worker's
scheduler can predict when it would start a gang, this module asks it, with one question for all equal gangs. The
question is repeated every `AGAIN_S` while such a gang waits. The gang waits until each worker has answered once, has
failed, or has not answered for `ASK_S`. When an answer changes the choice for a gang, this module reports the gang to
the manager, which then reads it again.

A worker gets one question at a time. At most `MOST` different questions are kept at a time. A worker may refuse
questions, because it runs Kueue or an older Phalanx, or because the manager's user has no right to ask. The worker is
then not asked again over the same connection. A worker that does not answer in time is not asked for `REST_S`. If a
worker gives no answer, this module assumes that the worker would start the gang as soon as the worker's nodes have
enough free capacity.

The order of the clusters for one gang depends on three values, the most important first: the time at which the
cluster's scheduler expects to start the job, how many of the data sets that the job prefers are in the cluster, and the
price of the cluster. Clusters that are equal in all three values have the same rank. Among these, the core takes the
cluster in which the job fits most tightly. Quota and free capacity do not affect this order: the core compares these
when it places the job on the nodes of all clusters.

A cluster is excluded if it lacks data that the job requires. A cluster is also excluded if its scheduler reports that
the job would not start soon for a reason that cannot be seen from the cluster's nodes, for example a quota in that
cluster or a missing queue. If the reason is that nodes are full, the cluster is not excluded, because the core knows
these nodes, and may preempt jobs on them.

Some commands run a cycle on a snapshot and have no connection to workers. For these commands, `FiguredClusters` makes
one node for each worker. The capacity of this node comes from the figures that the scheduler has written to the
MultiKueueCluster."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, TypeAlias

from phalanx.client.connection import ApiError, ApiRefusal, Connection
from phalanx.client.informer import Change
from phalanx.clusters.question import (
    ClusterOffer,
    StartOutlook,
    data_names,
    offer_of,
    path_of,
    question,
    read_answer,
)
from phalanx.clusters.workers.mirror import whole_cluster
from phalanx.clusters.workers.state import read_figures
from phalanx.dialects.kueue.tree.checks import is_active
from phalanx.kube.gang.lifecycle.gang import GangLifecycle
from phalanx.kube.gang.spec.elsewhere import Choose, ClusterChoice, Sought
from phalanx.kube.read.labels import DATA, PREFERRED_DATA
from phalanx.kube.world.capacity_sources import ManagerWorld
from phalanx.model.event import Event, NodeSeen
from phalanx.model.reason import Reason, ReasonCode

LATE_S = 300.0  # a job is not sent to a cluster while it would have to wait there for longer than this
SOON_S = 60.0  # start times are rounded down to a multiple of this before they are compared
SEEN_BY_THE_CORE: Final = frozenset({ReasonCode.NO_ROOM, ReasonCode.PREEMPTING})


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterCandidate:
    """A cluster that may get the gang. `trouble`: why the cluster gets no jobs now; empty if it gets jobs. `outlook`:
    when its scheduler expects to start the gang; None if the scheduler gives no answer."""

    name: str
    offer: ClusterOffer
    trouble: str = ""
    outlook: StartOutlook | None = None


Gist: TypeAlias = tuple[str, bool, float]


def gist(outlook: StartOutlook | None, now_s: float) -> Gist:
    """Return the part of a worker's answer that affects the order of the clusters. While this part stays the same, the
    order stays the same."""
    if outlook is None:
        return "", False, 0.0
    off_s = max(0.0, outlook.start_s - now_s)
    return outlook.code, outlook.never, min(off_s, LATE_S + SOON_S) // SOON_S


def rank(sought: Sought, candidates: Iterable[ClusterCandidate], now_s: float) -> ClusterChoice:
    """Return the clusters that may get the gang, with their ranks, or the reason why the gang is not sent to any of
    them yet. `now_s`: seconds since the epoch."""
    try:
        required = data_names(sought.options.get(DATA, ""))
        preferred = data_names(sought.options.get(PREFERRED_DATA, ""))
    except ValueError as error:
        why = Reason(code=ReasonCode.INVALID, text=f"{sought.gang} has an invalid {DATA} or {PREFERRED_DATA}: {error}")
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
        yield "expected start not reported"
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


log = logging.getLogger(__name__)

ASK_S = 5.0  # the longest time to wait for an answer
AGAIN_S = 15.0  # the age of an answer at which the question is sent again
REST_S = 30.0  # a worker that did not answer gets no question for this time
MOST = 256  # the maximum number of different questions; beyond it, workers are not asked about further gangs
_ASKING = Reason(code=ReasonCode.BACKOFF, text="the clusters are being asked when each would start it", brief=True)


@dataclass(slots=True)
class _Equals:
    """A class of equal gangs. `answers`: cluster -> its outlook, that is, when it expects to start the gang; None if
    the cluster gave no outlook. `asked_s`: cluster -> when it was last asked. `gists`: cluster -> the part of its
    answer that the present choice depends on."""

    namespace: str
    text: str
    gangs: dict[str, None] = field(default_factory=dict)
    answers: dict[str, StartOutlook | None] = field(default_factory=dict)
    asked_s: dict[str, float] = field(default_factory=dict)
    gists: dict[str, Gist] = field(default_factory=dict)


class Choices:
    """The choices of clusters for the gangs of one manager. `workers`: name -> worker. `clusters`: a function that
    returns the MultiKueueClusters by name. `changed`: a function that is called with each gang whose choice may have
    changed."""

    def __init__(
        self,
        workers: Mapping[str, Any],
        clusters: Callable[[], Mapping[str, dict[str, Any]]],
        now_s: Callable[[], float],
        changed: Callable[[str], None],
    ) -> None:
        self._workers, self._clusters, self._now_s, self._changed = workers, clusters, now_s, changed
        self._asks = False
        self._equals: dict[tuple[str, str], _Equals] = {}
        self._waiting: dict[str, None] = {}  # the gangs for which a cluster must be chosen
        self._of_gang: dict[str, _Equals] = {}
        self._mute: dict[str, Connection] = {}  # worker -> the connection over which the worker refused a question
        self._rests_s: dict[str, float] = {}  # worker -> when the worker may be asked again (seconds since the epoch)
        self._offers: dict[str, tuple[str, ClusterOffer]] = {}
        self._news = asyncio.Event()

    # --- the choice -------------------------------------------------------------------------------------------------

    def choose(self, sought: Sought) -> ClusterChoice:
        """Return the clusters to which a waiting gang may be sent, or the reason why it is not sent yet."""
        self._waiting[sought.gang] = None
        equals = self._registered(sought) if self._asks else None
        known = self._clusters()
        names = [name for name in (sought.clusters if sought.clusters is not None else sorted(known)) if name in known]
        if equals is not None and any(self._is_awaited(equals, name) for name in names):
            self._news.set()
            return ClusterChoice(clusters=sought.clusters, blocked=_ASKING)
        answers = equals.answers if equals is not None else {}
        candidates = [
            ClusterCandidate(
                name=name,
                offer=self._offer(known[name]),
                trouble=self._trouble(name, known[name]),
                outlook=answers.get(name),
            )
            for name in names
        ]
        return rank(sought, candidates, self._now_s())

    def forget(self, gang: str) -> None:
        """Forget a gang that no longer waits."""
        self._waiting.pop(gang, None)
        self._unregister(gang)

    def _unregister(self, gang: str) -> None:
        equals = self._of_gang.pop(gang, None)
        if equals is None:
            return
        equals.gangs.pop(gang, None)
        if not equals.gangs:
            self._equals.pop((equals.namespace, equals.text), None)

    def renew(self) -> None:
        """Let the manager read every waiting gang again, because the prices or the data of a cluster may have
        changed."""
        for gang in list(self._waiting):
            self._changed(gang)

    def on_cluster(self, change: Change) -> None:
        """Choose the clusters of waiting gangs again, if the prices or the data of this cluster have changed."""
        before, after = (None if one is None else offer_of(one) for one in (change.old, change.new))
        if before != after:
            self.renew()

    def _registered(self, sought: Sought) -> _Equals | None:
        namespace, text = sought.gang.partition("/")[0], question(sought)
        known = self._of_gang.get(sought.gang)
        if known is not None and (known.namespace, known.text) == (namespace, text):
            return known
        self._unregister(sought.gang)
        found = self._equals.get((namespace, text))
        if found is None:
            if not text or len(self._equals) >= MOST:
                return None
            found = self._equals[namespace, text] = _Equals(namespace, text)
        found.gangs[sought.gang] = None
        self._of_gang[sought.gang] = found
        return found

    def _is_awaited(self, equals: _Equals, name: str) -> bool:
        return name not in equals.answers and self._may_be_asked(name)

    def _may_be_asked(self, name: str) -> bool:
        worker = self._workers.get(name)
        return (
            worker is not None
            and worker.active
            and worker.link is not None
            and self._mute.get(name) is not worker.link
            and self._now_s() >= self._rests_s.get(name, 0.0)
        )

    def _trouble(self, name: str, cluster: dict[str, Any]) -> str:
        worker = self._workers.get(name)
        if worker is None or worker.state is None:  # this process is not connected to the worker
            return "" if is_active(cluster) else "not ready"
        return "" if worker.active else str(worker.state.text)[:200]

    def _offer(self, cluster: Mapping[str, Any]) -> ClusterOffer:
        meta = cluster["metadata"]
        version = str(meta.get("resourceVersion"))
        known = self._offers.get(meta["name"])
        if known is None or known[0] != version:
            known = self._offers[meta["name"]] = version, offer_of(cluster)
        return known[1]

    # --- questions to workers ---------------------------------------------------------------------------------------

    async def run(self) -> None:
        """Ask the workers when they would start the waiting gangs, until cancelled."""
        self._asks = True
        asking: dict[str, asyncio.Task[None]] = {}
        self.renew()
        try:
            while True:
                self._news.clear()
                for name in self._workers:
                    if name not in asking or asking[name].done():
                        asking[name] = asyncio.ensure_future(self._ask_all(name))
                try:
                    async with asyncio.timeout(1.0):
                        await self._news.wait()
                except TimeoutError:
                    pass
                asking = {name: task for name, task in asking.items() if not task.done()}
        finally:
            self._asks = False
            for task in asking.values():
                task.cancel()
            await asyncio.gather(*asking.values(), return_exceptions=True)

    async def _ask_all(self, name: str) -> None:
        """Ask one worker about each class of equal gangs (`_Equals`) for which its answer is missing or old. If the
        worker does not answer, a cluster is chosen for these gangs without its answer."""
        for equals in list(self._equals.values()):
            if not self._may_be_asked(name):
                break
            if equals.gangs and self._now_s() - equals.asked_s.get(name, -AGAIN_S) >= AGAIN_S:
                equals.asked_s[name] = self._now_s()
                self._take(equals, name, await self._ask(name, equals))
        if not self._may_be_asked(name):
            for equals in list(self._equals.values()):
                self._take(equals, name, None)

    async def _ask(self, name: str, equals: _Equals) -> StartOutlook | None:
        """Return the worker's answer; None if it refuses the question or does not answer in time."""
        link = self._workers[name].link
        try:
            async with asyncio.timeout(ASK_S):
                answer = await link.request("GET", path_of(equals.namespace), params={"job": equals.text})
            return read_answer(answer, self._now_s())
        except ApiRefusal as error:
            if error.code in (403, 404, 405, 501):
                log.info("cluster %s does not report when jobs would start: %s", name, error)
                self._mute[name] = link
            elif error.code == 429:
                self._rests_s[name] = self._now_s() + REST_S
        except (ApiError, TimeoutError) as error:
            log.info("cluster %s did not report when a job would start: %s", name, str(error) or "no answer in time")
            self._rests_s[name] = self._now_s() + REST_S
        return None

    def _take(self, equals: _Equals, name: str, outlook: StartOutlook | None) -> None:
        now_s, is_first = self._now_s(), name not in equals.answers
        equals.answers[name] = outlook
        if is_first or gist(outlook, now_s) != equals.gists.get(name):
            equals.gists[name] = gist(outlook, now_s)
            for gang in list(equals.gangs):
                self._changed(gang)


class FiguredClusters:
    """The workers, for a command that works on a snapshot of the manager's objects. The class implements
    `OtherClusters` of `kube.world`.
    `clusters`: a function that returns the MultiKueueClusters by name."""

    def __init__(self, clusters: Callable[[], Mapping[str, dict[str, Any]]]) -> None:
        self._clusters = clusters
        self.choose: Choose = Choices({}, clusters, lambda: 0.0, lambda gang: None).choose
        self._sent: dict[str, dict[str, int]] = {}  # cluster -> the sum of the requests of jobs that were sent there

    def join(self, world: ManagerWorld) -> None:
        """Do nothing, because the objects of a snapshot never change."""

    def saw(self, gang: GangLifecycle) -> None:
        """If the gang was sent to a worker, add its requests to the sum of this worker. The caller calls this method
        once for each gang of a snapshot."""
        if (record := gang.elsewhere) is None or gang.spec is None:
            return
        total = self._sent.setdefault(record.cluster, {})
        for role in gang.spec.job.roles:
            for resource, amount in role.shape.requests:
                total[resource] = total.get(resource, 0) + role.count * amount

    def events(self) -> Sequence[Event]:
        """Return one node for each worker. The used amounts in a worker's figures (capacity and usage) include the jobs
        that this manager has sent. The core charges these jobs to the node as well. To avoid counting these jobs twice,
        their requests are added to the capacity of the node."""
        found = list[Event]()
        for name, obj in self._clusters().items():
            figures, sent = read_figures(obj), self._sent.get(name, {})
            has = {
                resource: max(sent.get(resource, 0), amount - figures.used.get(resource, 0) + sent.get(resource, 0))
                for resource, amount in (figures.has or dict.fromkeys(sent, 0)).items()
            }
            found.append(NodeSeen(whole_cluster(name, has, reachable=is_active(obj))))
        return found

    async def run(self) -> None:
        """Do nothing, because a snapshot does not change."""
