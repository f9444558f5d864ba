"""Draw job numbers for Slurm jobs: the server responds to `POST /slurm/v1/numbers?count=N` with `{"first": M}`.

Each such request is a *draw* of N consecutive numbers. The ConfigMap `kube-system/phalanx-slurm-number` stores a bound
above all numbers drawn so far. Users may read the ConfigMap but not write it. If a draw would reach the bound, the
server first raises the bound, by `AHEAD` more than the draw needs. So no number is drawn twice, even after a crash, and
few draws need a write. After its start, a server draws from the bound on, and so skips at most `AHEAD` numbers.

- A Job has its number in the label `slurm.phalanx.dev/number`. The server accepts only a number that the Job's user has
  drawn, and the number cannot change. So no user can create a job with the number of another user's job.
- A draw has at most as many numbers as an array may have tasks (MaxArraySize of the site). A user may have
  `MOST_UNUSED` drawn numbers that no Job has yet. The server forgets a draw after `_KEPT_S`, and all draws when it
  starts. Numbers of a forgotten draw that no Job has yet cannot be used any more.
- After `LAST` (Slurm's MaxJobId) the numbers start again at FirstJobId. Numbers that Jobs have are skipped.
- Admins (`system:masters`) draw without these limits, and their Jobs may have any number. Controllers set no number.

The module also creates the Secret and the Job of a Slurm job in one request and one commit:

    POST /slurm/v1/submissions?namespace=NAMESPACE        {"secret": {...}, "job": {...}}

The Job owns the Secret. Both objects pass the same checks as objects that are created one by one, with the rights of
the user. After a refusal neither object exists. `sbatch` then creates the two objects one by one, and reports the error
of the refused one. `sbatch` also creates them one by one if the API server is not Phalanx's."""

from __future__ import annotations

import asyncio
import time
from bisect import bisect_left, bisect_right, insort
from collections import Counter, deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec

from phalanx.embedded.apimachinery.meta.resource import Object, Resource, User
from phalanx.embedded.apimachinery.meta.status import StatusError, bad_request, forbidden
from phalanx.embedded.apiserver.auth.rbac import MASTERS, AccessRequest, Authorizer
from phalanx.embedded.apiserver.endpoints.decoding import Intent
from phalanx.embedded.apiserver.endpoints.paths.slurm_view import JOBS, NUMBER
from phalanx.embedded.apiserver.endpoints.write import ObjectWriter
from phalanx.embedded.apiserver.registry.routing import RouteTarget, method_not_allowed
from phalanx.embedded.apiserver.storage.store import Event, Store
from phalanx.embedded.apiserver.transport.negotiation import decode_body
from phalanx.embedded.apiserver.transport.request import HttpRequest, Response, json_response

LAST, MOST_UNUSED, AHEAD = 67_043_328, 100_000, 16
_SYSTEM, _NUMBER, _SITE, _NEXT = "kube-system", "phalanx-slurm-number", "phalanx-slurm", "next"
_CONFIG_MAPS = ("", "configmaps")
_KEPT_S = 86_400.0
_BY = Intent(user=User(name="system:apiserver", groups=(MASTERS,)), manager="slurm-numbers")


class _Site(msgspec.Struct):
    """The settings of the site (`phalanx.slurm.cluster.site`) that limit job numbers."""

    first_job: int = 1
    max_array: int = 1001


@dataclass(slots=True, kw_only=True)
class _Draw:
    """The numbers of one draw, beginning with `first`. `used`: one byte for each number, which is 1 if a Job has the
    number. `unused`: the count of numbers that no Job has."""

    first: int
    user: str
    at_s: float
    used: bytearray
    unused: int

    def has(self, number: int) -> bool:
        return self.first <= number < self.first + len(self.used)


class SlurmNumbers:
    """Draws numbers, and checks that Jobs have only numbers that their users have drawn."""

    def __init__(
        self, store: Store, writer: ObjectWriter, config_maps: Resource, clock_s: Callable[[], float] = time.monotonic
    ) -> None:
        self._store, self._writer, self._clock_s = store, writer, clock_s
        self._target = RouteTarget(resource=config_maps, namespace=_SYSTEM, name=_NUMBER)
        self._drawing = asyncio.Lock()
        # The next number to draw, and the bound that this server has written to the ConfigMap.
        self._next = self._written = 0
        self._draws: dict[int, _Draw] = {}  # first number -> the draw
        self._firsts: list[int] = []  # the first numbers of all draws, in ascending order
        self._by_age: deque[_Draw] = deque()
        self._unused = Counter[str]()  # user -> the count of drawn numbers that no Job has
        self._job_counts: Counter[int] | None = None  # number -> the count of its Jobs; None before the first draw
        self._taken: list[int] = []  # the numbers in `_job_counts`, in ascending order
        store.subscribe(self._heard)

    async def answer(self, request: HttpRequest) -> Response:
        """Return the response to a draw. Raises `StatusError` 400, 403, 405, 429."""
        if request.method != "POST":
            raise StatusError(
                405, "MethodNotAllowed", "the server does not allow this method on the requested resource"
            )
        text = request.text("count", "1")
        count = int(text) if text.isascii() and text.isdecimal() and len(text) <= len(str(LAST)) else 0
        site = self._site()
        is_limited = MASTERS not in request.user.groups
        most = site.max_array if is_limited else LAST - site.first_job
        if not 1 <= count <= most:
            raise bad_request(f"count is {text!r}: a draw has 1 to {most} numbers (MaxArraySize)")
        async with self._drawing:
            self._forget_old()
            unused = self._unused[request.user.name]
            if is_limited and unused + count > MOST_UNUSED:
                message = (
                    f"{request.user.name} has drawn {unused} job numbers that no Job has; "
                    f"at most {MOST_UNUSED} are allowed"
                )
                raise StatusError(429, "TooManyRequests", message, retry_after_s=60)
            first = self._free(count, site.first_job)
            await self._raise(first + count)
            if is_limited:
                user, now_s = request.user.name, self._clock_s()
                self._remember(_Draw(first=first, user=user, at_s=now_s, used=bytearray(count), unused=count))
        return json_response({"first": first})

    def guard(self, resource: Resource, obj: Object, old: Object | None, user: User) -> None:
        """Refuse a Job with a number that its user has not drawn. Raises `StatusError` 403."""
        if resource.key != JOBS:
            return
        number, before = _number(obj), _number(old) if old is not None else ""
        if number == before or (MASTERS in user.groups and not user.name.startswith("system:")):
            return
        if old is not None:
            why = f"the label {NUMBER} of a Job cannot be changed"
        elif not self._has_drawn(user.name, number):
            why = f"{user.name} has not drawn the job number {number[:20]!r}; sbatch draws one by itself"
        else:
            return
        raise forbidden(*JOBS, str(obj["metadata"].get("name", "")), why)

    def _has_drawn(self, user: str, number: str) -> bool:
        found = self._find(int(number)) if number.isdecimal() and len(number) <= len(str(LAST)) else None
        return found is not None and found.user == user

    def _find(self, number: int) -> _Draw | None:
        found = self._before(number)
        return found if found is not None and found.has(number) else None

    def _before(self, number: int) -> _Draw | None:
        """Return the last draw that begins at or below `number`; None if all draws begin above it."""
        at = bisect_right(self._firsts, number) - 1
        return self._draws[self._firsts[at]] if at >= 0 else None

    def _remember(self, draw: _Draw) -> None:
        end = draw.first + len(draw.used)
        while (known := self._before(end - 1)) is not None and known.first + len(known.used) > draw.first:
            # this earlier draw has the same numbers, because the numbers have started again at FirstJobId
            self._forget(known)
        insort(self._firsts, draw.first)
        self._draws[draw.first] = draw
        self._by_age.append(draw)
        self._unused[draw.user] += draw.unused

    def _forget(self, draw: _Draw) -> None:
        if self._draws.get(draw.first) is not draw:
            return
        del self._draws[draw.first]
        del self._firsts[bisect_right(self._firsts, draw.first) - 1]
        self._unused[draw.user] -= draw.unused
        if not self._unused[draw.user]:
            del self._unused[draw.user]

    def _forget_old(self) -> None:
        now_s = self._clock_s()
        while self._by_age and (
            now_s - self._by_age[0].at_s > _KEPT_S or self._draws.get(self._by_age[0].first) is not self._by_age[0]
        ):
            self._forget(self._by_age.popleft())

    def _heard(self, events: Sequence[Event]) -> None:
        """Update the counts of Jobs per number after Jobs were stored or deleted."""
        for event in events:
            if event.key != JOBS:
                continue
            before = _number(event.old.obj) if event.type == "MODIFIED" and event.old is not None else ""
            now = _number(event.new.obj)
            if before != now:
                self._count(before, -1)
                self._count(now, -1 if event.type == "DELETED" else 1)
            if event.type == "ADDED" and now.isdecimal():
                self._use(int(now))

    def _count(self, number: str, change: int) -> None:
        """Add `change` to the count of the number's Jobs. A number without Jobs takes no memory."""
        if self._job_counts is None or not number.isdecimal():
            return
        key, before = int(number), self._job_counts[int(number)]
        if before + change:
            self._job_counts[key] = before + change
            if not before:
                insort(self._taken, key)
        elif before:
            del self._job_counts[key]
            del self._taken[bisect_left(self._taken, key)]

    def _use(self, number: int) -> None:
        """Mark the number as used. Forget its draw if all numbers of the draw are used."""
        draw = self._find(number)
        if draw is None or draw.used[number - draw.first]:
            return
        draw.used[number - draw.first] = 1
        draw.unused -= 1
        self._unused[draw.user] -= 1
        if not draw.unused:
            self._forget(draw)

    def _site(self) -> _Site:
        found = self._store.get(_CONFIG_MAPS, _SYSTEM, _SITE)
        text = (found.obj.get("data") or {}).get("site", "{}") if found is not None else "{}"
        try:
            return msgspec.json.decode(text, type=_Site)
        except msgspec.MsgspecError:  # the ConfigMap is invalid, because an administrator has edited it by hand
            return _Site()

    def _free(self, count: int, begin: int) -> int:
        """Return the first of `count` consecutive numbers that no Job has. `begin`: the lowest number of the site."""
        noted = self._store.get(_CONFIG_MAPS, _SYSTEM, _NUMBER)
        text = str((noted.obj.get("data") or {}).get(_NEXT, "")) if noted is not None else ""
        stored = int(text) if text.isdecimal() else begin
        # if the ConfigMap is not as this server wrote it, an administrator has edited it: continue from the edited
        # number
        first = max(self._next if stored == self._written else stored, begin)
        if stored != self._written:
            self._written = 0
        found = self._past_jobs(first, count)
        return found if found + count <= LAST else self._past_jobs(begin, count)

    def _past_jobs(self, first: int, count: int) -> int:
        """Return the first of `count` consecutive numbers that no Job has, beginning the search at `first`. The cost
        depends on the number of Jobs that have numbers in the searched range, and not on `count`."""
        if self._job_counts is None:
            texts = (_number(stored.obj) for stored in self._store.scan(JOBS))
            self._job_counts = Counter(int(text) for text in texts if text.isdecimal())
            self._taken = sorted(self._job_counts)
        for at in range(bisect_left(self._taken, first), len(self._taken)):
            if self._taken[at] >= first + count:
                break
            first = self._taken[at] + 1
        return first

    async def _raise(self, end: int) -> None:
        """Record that all numbers below `end` are drawn."""
        if not self._next <= end <= self._written:
            written = max(end, min(end + AHEAD, LAST))
            await self._write(written)
            self._written = written
        self._next = end

    async def _write(self, number: int) -> None:
        stored = self._store.get(_CONFIG_MAPS, _SYSTEM, _NUMBER)
        body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": _NUMBER, "namespace": _SYSTEM}}
        if stored is None:
            await self._writer.create(self._target, {**body, "data": {_NEXT: str(number)}}, _BY)
        else:
            await self._writer.update(self._target, {**body, "data": {_NEXT: str(number)}}, _BY)


def _number(obj: Object) -> str:
    return str((obj["metadata"].get("labels") or {}).get(NUMBER, ""))


class SlurmSubmissions:
    """Handles requests that create a Secret and a Job together. `secrets` and `jobs`: the kinds of the two objects."""

    def __init__(self, writer: ObjectWriter, authorizer: Authorizer, secrets: Resource, jobs: Resource) -> None:
        self._writer, self._authorizer = writer, authorizer
        self._secrets, self._jobs = secrets, jobs

    async def answer(self, request: HttpRequest) -> Response:
        """Create the Secret and the Job, and return the response. Raises `StatusError` 400, 403, 404, 405, 409, 422."""
        if request.method != "POST":
            raise method_not_allowed()
        namespace = request.text("namespace")
        if request.text("dryRun"):
            raise bad_request(
                "a submission does not support dryRun; to try a Job and its Secret, create them one by one"
            )
        body: Any = decode_body(request.body, request.content_type, "Submission")
        if not namespace or not isinstance(body, dict) or body.keys() != {"secret", "job"}:
            raise bad_request('the body of a submission is {"secret": …, "job": …}, and the query names a namespace')
        for resource in (self._secrets, self._jobs):
            asked = AccessRequest("create", resource.group, resource.plural, "")
            self._authorizer.resource(request.user, asked, namespace)
        secrets, jobs = (RouteTarget(resource=one, namespace=namespace) for one in (self._secrets, self._jobs))
        intent = Intent(user=request.user, manager=request.manager)
        await self._writer.create_owned(secrets, jobs, (body["secret"], body["job"]), intent)
        return json_response({}, 201)
