"""The choice of a cluster for each waiting gang, kept up to date.

`kube.gang.spec.gang_spec` asks for the choice whenever it reads a gang that another cluster is to run. Workers whose
scheduler answers questions about starts are asked, once for all equal gangs, and again every `AGAIN_S` as long as such
a gang waits. Until each has answered once, failed, or let `ASK_S` pass, the gang waits. When an answer changes the
choice, the gangs are marked, so that they are read again.

A worker is asked one question at a time, and at most `MOST` different ones are kept. A worker that has no such answer
(Kueue, an older Phalanx, no right to ask) is not asked again over the same connection, and one that does not answer is
left alone for `REST_S`. Both count as workers that would start the gang at once if their nodes have room.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from phalanx.client.connection import ApiError, ApiRefusal, Connection
from phalanx.clusters.choice.offer import ClusterOffer, offer_of
from phalanx.clusters.choice.question import StartOutlook, path_of, question, read_answer
from phalanx.clusters.choice.ranking import ClusterCandidate, Gist, gist, rank
from phalanx.dialects.kueue.tree.multi import is_active
from phalanx.kube.gang.spec.elsewhere import ClusterChoice, Sought
from phalanx.model.reason import Reason, ReasonCode

log = logging.getLogger(__name__)

ASK_S = 5.0  # the longest time of a question
AGAIN_S = 15.0  # the age of an answer after which it is asked for again
REST_S = 30.0  # so long a worker that did not answer is not asked
MOST = 256  # different questions that are kept; gangs beyond that go without answers
_ASKING = Reason(code=ReasonCode.BACKOFF, text="the clusters are being asked when each would start it", brief=True)


@dataclass(slots=True)
class _Equals:
    """Equal gangs. `answers`: cluster -> its outlook, None if it gave none; `asked_s`: cluster -> when it was asked.
    `gists`: cluster -> the part of its answer that the present choice was made of."""

    namespace: str
    text: str
    gangs: dict[str, None] = field(default_factory=dict)
    answers: dict[str, StartOutlook | None] = field(default_factory=dict)
    asked_s: dict[str, float] = field(default_factory=dict)
    gists: dict[str, Gist] = field(default_factory=dict)


class Choices:
    """The choices of one manager. `workers`: by name; `clusters`: returns the MultiKueueClusters by name. `changed`:
    called with a gang whose choice may have changed."""

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
        self._waiting: dict[str, None] = {}  # gangs for which a cluster is to be chosen
        self._of_gang: dict[str, _Equals] = {}
        self._mute: dict[str, Connection] = {}  # worker -> the connection over which it does not answer
        self._rests_s: dict[str, float] = {}  # worker -> until then it is not asked (seconds since the epoch)
        self._offers: dict[str, tuple[str, ClusterOffer]] = {}
        self._news = asyncio.Event()

    # --- the choice -------------------------------------------------------------------------------------------------

    def choose(self, sought: Sought) -> ClusterChoice:
        """Return the choice for a waiting gang."""
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
        """Note that the gang does not wait any more."""
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
        """Note that an offer may have changed."""
        for gang in list(self._waiting):
            self._changed(gang)

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
        if worker is None or worker.state is None:  # this process is not connected to workers, or not yet
            return "" if is_active(cluster) else "not ready"
        return "" if worker.active else str(worker.state.text)[:200]

    def _offer(self, cluster: Mapping[str, Any]) -> ClusterOffer:
        meta = cluster["metadata"]
        version = str(meta.get("resourceVersion"))
        known = self._offers.get(meta["name"])
        if known is None or known[0] != version:
            known = self._offers[meta["name"]] = version, offer_of(cluster)
        return known[1]

    # --- asking -----------------------------------------------------------------------------------------------------

    async def run(self) -> None:
        """Ask the workers, until cancelled."""
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
        """Ask one worker what it has not been asked for long. Without answers, waiting gangs go on without them."""
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
        """Return the worker's answer; None if it gives none."""
        link = self._workers[name].link
        try:
            async with asyncio.timeout(ASK_S):
                answer = await link.request("GET", path_of(equals.namespace), params={"job": equals.text})
            return read_answer(answer, self._now_s())
        except ApiRefusal as error:
            if error.code in (403, 404, 405, 501):
                log.info("cluster %s does not say when jobs would start: %s", name, error)
                self._mute[name] = link
            elif error.code == 429:
                self._rests_s[name] = self._now_s() + REST_S
        except (ApiError, TimeoutError) as error:
            log.info("cluster %s did not say when a job would start: %s", name, str(error) or "no answer in time")
            self._rests_s[name] = self._now_s() + REST_S
        return None

    def _take(self, equals: _Equals, name: str, outlook: StartOutlook | None) -> None:
        now_s, is_first = self._now_s(), name not in equals.answers
        equals.answers[name] = outlook
        if is_first or gist(outlook, now_s) != equals.gists.get(name):
            equals.gists[name] = gist(outlook, now_s)
            for gang in list(equals.gangs):
                self._changed(gang)
