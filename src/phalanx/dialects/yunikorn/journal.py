"""Serve YuniKorn's event endpoints and history endpoints, and choose the Events that YuniKorn would record on pods.

    /ws/v1/events/batch?start=&count=    up to `count` event records, beginning with the record that has the id `start`
    /ws/v1/events/stream?count=          the last `count` event records, then each new record
    /ws/v1/history/apps                  for each minute of the last day: the number of applications with pods on nodes
    /ws/v1/history/containers            for each minute of the last day: the number of pods on nodes

The journal compares the new status of a gang's pods with the status that was published before, and writes an event
record for each difference. The last 10,000 records stay in the memory of the leading scheduler process. After a change
of leader a client sees another `InstanceUUID`, and must read from the beginning. A stream has no buffer of its own. It
reads the stored records, and ends if its client is so slow that the next record was dropped.

The history has one sample per minute. Samples are taken when a client requests the history, and when a gang changes.
Between these times the numbers do not change. So each sample is exact for the end of its minute.

Source: si.proto (EventRecord) of apache/yunikorn-scheduler-interface; pkg/events, pkg/webservice (getEvents,
getApplicationHistory) and pkg/metrics/history of apache/yunikorn-core (1.9).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from typing import Any, Final, NamedTuple

from phalanx.dialects.frame.dialect import Eviction, GangView, Object, Occurrence
from phalanx.dialects.frame.pod_requests import pod_requests
from phalanx.dialects.yunikorn.gangs import GIVEN_UP, OF_APPLICATION, QUEUE_PREFIX, SOFT, application_id
from phalanx.model.reason import ReasonCode

MOST_RECORDS: Final = 10_000
_MOST_SAMPLES: Final = 24 * 60
_AT_ONCE: Final = 100  # a stream sends at most this many records in one batch
_MINUTE_S, _NS = 60, 10**9
_OVER = ("Succeeded", "Failed")
_APP, _NODE, _QUEUE = 2, 3, 4  # EventRecord.Type
_SET, _ADD, _REMOVE = 1, 2, 3  # EventRecord.ChangeType
# The following numbers are values of EventRecord.ChangeDetail.
_NO_DETAIL, _REQUEST_CANCEL, _REQUEST_ALLOC = 0, 100, 101
_APP_ALLOC, _APP_REQUEST, _APP_NEW = 200, 201, 203
_STATES: Mapping[str, int] = {"Rejected": 202, "Accepted": 204, "Running": 206, "Completed": 208}
_NODE_ALLOC, _QUEUE_APP, _ALLOC_CANCEL, _ALLOC_PREEMPT = 303, 405, 500, 501


class JournalFigures(NamedTuple):
    """A sample of the history. `at_s`: the end of its minute, in seconds since the epoch. `applications`: the number
    of applications with pods on nodes. `pods`: the number of pods on nodes."""

    at_s: int
    applications: int
    pods: int


class ApplicationJournal:
    """The journal of YuniKorn's event records (implements `GangHistory` of `frame.dialect`). `instance`: the value of
    `InstanceUUID`, which differs for each scheduler process, because each process numbers its records from 0."""

    def __init__(self, instance: str) -> None:
        self._instance = instance
        self._records: deque[Object] = deque(maxlen=MOST_RECORDS)
        self._said = 0  # the number of records since the start
        self._on_nodes: dict[str, int] = {}  # id of a gang with pods on nodes -> the number of these pods
        self._samples: deque[JournalFigures] = deque(maxlen=_MOST_SAMPLES)
        self._next_s: int | None = None  # the end of the current minute (seconds since the epoch)

    def saw(self, before: GangView | None, after: GangView | None, now_s: float) -> None:
        """Write an event record for each difference between two statuses of a gang. `before`: the status that was
        published last; None if the gang is new. `after`: the new status; None if the gang no longer exists."""
        self._sample(now_s)
        either = after or before
        if either is None:
            return
        self._on_nodes.pop(either.id, None)
        if after is not None and (pods := sum(has_node(pod) for pod in after.owners)):
            self._on_nodes[after.id] = pods
        for type_, about, change, detail, more in _changes(before, after):
            record = {"type": type_, "objectID": about, "timestampNano": int(now_s * _NS), "eventChangeType": change}
            self._records.append(record | ({"eventChangeDetail": detail} if detail else {}) | more)
            self._said += 1

    def view(self, path: Sequence[str], query: Mapping[str, str], now_s: float) -> Object | list[Object] | None:
        """Return the response to a request for a path below `/ws`; None if the journal does not serve that path."""
        match tuple(path):
            case ("v1", "events", "batch"):
                return self._batch(query)
            case ("v1", "events", "stream"):
                return _counted(query, "count", 0)[1]
            case ("v1", "history", "apps"):
                return [_sampled(one, "totalApplications", one.applications) for one in self._sampled(now_s)]
            case ("v1", "history", "containers"):
                return [_sampled(one, "totalContainers", one.pods) for one in self._sampled(now_s)]
        return None

    def stream(self, path: Sequence[str], query: Mapping[str, str]) -> Iterator[Sequence[Object]] | None:
        past, wrong = _counted(query, "count", 0)
        if tuple(path) != ("v1", "events", "stream") or wrong is not None:
            return None
        return self._follow(self._said - min(past or 0, len(self._records)))

    # --- internal -----------------------------------------------------------------------------------------------------

    def _follow(self, at: int) -> Iterator[Sequence[Object]]:
        """Yield first the `InstanceUUID`, then batches of event records, beginning with the record with id `at`. A
        batch is empty if there is no new record."""
        yield [{"InstanceUUID": self._instance}]
        while True:
            lowest = self._said - len(self._records)
            if at < lowest:
                yield [error(200, f"Event stream was closed: {lowest - at} records were dropped before they were read")]
                return
            found = list(islice(self._records, at - lowest, at - lowest + _AT_ONCE))
            at += len(found)
            yield found

    def _batch(self, query: Mapping[str, str]) -> Object:
        (start, wrong), (count, none) = _counted(query, "start", 0), _counted(query, "count", 1)
        if refused := wrong or none:
            return refused
        lowest = self._said - len(self._records)
        start, count = start or 0, min(count or MOST_RECORDS, MOST_RECORDS)
        records = list(self._records)[start - lowest :][:count] if start >= lowest else []
        return {
            "InstanceUUID": self._instance,
            "LowestID": lowest,
            "HighestID": max(0, self._said - 1),
            "EventRecords": records,
        }

    def _sampled(self, now_s: float) -> list[JournalFigures]:
        self._sample(now_s)
        return list(self._samples)

    def _sample(self, now_s: float) -> None:
        """Add one sample for each minute that has ended since the last call. The samples have the current numbers,
        because no gang has changed since the last call."""
        if self._next_s is None:
            self._next_s = int(now_s) + _MINUTE_S
            return
        gone = int(now_s - self._next_s) // _MINUTE_S - _MOST_SAMPLES
        self._next_s += max(0, gone) * _MINUTE_S  # after a gap of more than a day, only the last day is sampled
        while self._next_s <= now_s:
            self._samples.append(JournalFigures(self._next_s, len(self._on_nodes), sum(self._on_nodes.values())))
            self._next_s += _MINUTE_S


def occurrences(told: GangView, before: Object | None, after: Object) -> Iterator[Occurrence]:
    """Yield the Events that YuniKorn records on a pod. A failed pod gets an Event with the reason. If the time limit of
    a gang with the style Soft has passed, an Event on its first pod states that the application now starts pod by pod.
    `before`, `after`: the pod before and after a write; `before` is None for a new pod."""
    was, now = ((each or {}).get("status") or {} for each in (before, after))
    application = application_id(after["metadata"])
    if now.get("phase") == "Failed" and was.get("phase") != "Failed":
        reason = f"{now.get('reason')}: {now.get('message')}"
        yield Occurrence(
            after, "ApplicationFailed", f"Application {application} scheduling failed, reason: {reason}", True
        )
    old, new = (((each or {}).get("metadata") or {}).get("annotations") or {} for each in (before, after))
    is_first = bool(told.owners) and told.owners[0]["metadata"]["uid"] == after["metadata"]["uid"]
    if is_first and new.get(GIVEN_UP) == SOFT != old.get(GIVEN_UP):
        text = f"Application {application} resuming as non-gang application (SOFT)"
        yield Occurrence(after, "GangScheduling", text, True)


def error(code: int, message: str) -> Object:
    """Return an error response as YuniKorn writes it. `code`: the HTTP status code."""
    return {"status_code": code, "message": message, "description": message}


def _counted(query: Mapping[str, str], name: str, least: int) -> tuple[int | None, Object | None]:
    """Return two values. The first is the number in the query parameter `name`; None if it is absent. The second is
    None, or an error response if the parameter is not a whole number of at least `least`."""
    text = query.get(name, "")
    if not text:
        return None, None
    if text.isascii() and text.isdigit() and len(text) < 20 and int(text) >= least:
        return int(text), None
    return None, error(400, f"{name}={text[:40]!r} is not a whole number of at least {least}")


def theirs(amounts: Mapping[str, int]) -> dict[str, int]:
    """Return the amounts by YuniKorn's names of resources, in which `cpu` is `vcore`."""
    return {"vcore" if name == "cpu" else name: amount for name, amount in amounts.items()}


def resource_of(pod: Object) -> dict[str, int]:
    """Return the resource requests of a pod by YuniKorn's names, and 1 for the resource `pods`."""
    return {**theirs(pod_requests(pod.get("spec") or {})), "pods": 1}


def is_over(pod: Object) -> bool:
    return (pod.get("status") or {}).get("phase") in _OVER


def has_node(pod: Object) -> bool:
    """Return whether a pod has been assigned to a node and has not ended."""
    return bool((pod.get("spec") or {}).get("nodeName")) and not is_over(pod)


def is_refused(told: GangView) -> bool:
    return told.reason is not None and told.reason.code is ReasonCode.INVALID


def application_state(*, running: bool, waiting: bool, refused: bool) -> str:
    """Return the state that YuniKorn reports for an application. `running`: whether any of its pods is on a node.
    `waiting`: whether any of its pods waits for a node. `refused`: whether the application is rejected."""
    if running:
        return "Running"
    if not waiting:
        return "Completed"
    return "Rejected" if refused else "Accepted"


# --- records from two published statuses ------------------------------------------------------------------------------

# the fields of an event record: type, id of the object, change type, change detail, further fields
_Change = tuple[int, str, int, int, dict[str, Any]]


def _changes(before: GangView | None, after: GangView | None) -> Iterator[_Change]:
    either = after or before
    if either is None or not either.owners:
        return
    queue = either.queue.partition(OF_APPLICATION)[0].removeprefix(QUEUE_PREFIX)
    application = application_id(either.owners[0]["metadata"])
    if before is None:
        yield _APP, application, _ADD, _APP_NEW, {}
        yield _QUEUE, queue, _ADD, _QUEUE_APP, {"referenceID": application}
    old, new = (_by_uid(told) for told in (before, after))
    left = _ALLOC_PREEMPT if _is_preempted(after.evicted if after is not None else None) else _ALLOC_CANCEL
    for uid in old | new:
        yield from _of_pod(application, uid, old.get(uid), new.get(uid), left)
    states = [_state(told) for told in (before, after)]
    if states[0] != states[1] and states[1]:
        yield _APP, application, _SET, _STATES[states[1]], {}
    if after is None:
        yield _QUEUE, queue, _REMOVE, _QUEUE_APP, {"referenceID": application}
        yield _APP, application, _REMOVE, _NO_DETAIL, {}


def _of_pod(application: str, uid: str, old: Object | None, new: Object | None, left: int) -> Iterator[_Change]:
    had, has = (one is not None and has_node(one) for one in (old, new))
    waited, waits = (one is not None and not has_node(one) and not is_over(one) for one in (old, new))
    if old is not None and (had, waited) == (has, waits):
        return
    pod = new or old or {}
    said = {"referenceID": uid, "resource": {"resources": {k: {"value": v} for k, v in resource_of(pod).items()}}}
    node = str((pod.get("spec") or {}).get("nodeName") or (old or {}).get("spec", {}).get("nodeName") or "")
    if old is None and (has or waits):
        yield _APP, application, _ADD, _APP_REQUEST, said
        waited = True
    if waited and not waits:
        yield _APP, application, _REMOVE, _REQUEST_ALLOC if has else _REQUEST_CANCEL, said
    if has and not had:
        yield _APP, application, _ADD, _APP_ALLOC, said
        yield _NODE, node, _ADD, _NODE_ALLOC, said
    if had and not has:
        yield _APP, application, _REMOVE, left, said
        yield _NODE, node, _REMOVE, _NODE_ALLOC, said


def _by_uid(told: GangView | None) -> dict[str, Object]:
    return {pod["metadata"]["uid"]: pod for pod in told.owners} if told is not None else {}


def _is_preempted(evicted: Eviction | None) -> bool:
    return evicted is not None and evicted.preempted


def _state(told: GangView | None) -> str:
    """Return the state of an application as YuniKorn reports it; empty if the application does not exist."""
    if told is None:
        return ""
    running, waiting = (
        any(map(has_node, told.owners)),
        any(not has_node(pod) and not is_over(pod) for pod in told.owners),
    )
    return application_state(running=running, waiting=waiting, refused=is_refused(told))


def _sampled(one: JournalFigures, name: str, count: int) -> Object:
    return {"timestamp": one.at_s * _NS, name: str(count)}
