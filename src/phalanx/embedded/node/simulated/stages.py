"""The stages of simulated pods: the moment when all pods of a job are ready, and the end of each pod.

The first part groups simulated pods by job, and finds out when all pods of a job are ready. The pods of a job have the
same gang label (`phalanx.dev/job`, on the pods or on their Jobs) or, without it, the same controller. The number of
pods of a job is the value of `phalanx.dev/min-available` on the pods. Without this value, it is the sum of
min-available or parallelism over the Jobs of the gang; the sum is known when as many Jobs exist as
`phalanx.dev/job-roles` states. These options may be labels or annotations. If both exist, the label applies.

The second part decides how a pod ends: by Phalanx's annotation, or by KWOK's default stages. `phalanx.dev/run-seconds`
sets how long a pod runs after all pods of its job are ready. KWOK's stage `pod-complete` ends pods on a KWOK node if
their owner is a Job of any API group. It ends such a pod at once, or after the delay in an annotation. KWOK's stage
`pod-container-running-failed` makes pods fail that have the label of this stage. Stages that users define are not
supported.

Source: kustomize/stage/pod/{fast,general,chaos} of KWOK v0.8.0.
"""

from __future__ import annotations

import math
import random
import re
from collections import defaultdict
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from phalanx.client.connection import Object
from phalanx.client.informer import Change

_JOB = "phalanx.dev/job"
_ROLES = "phalanx.dev/job-roles"
_MIN_AVAILABLE = "phalanx.dev/min-available"


@dataclass(slots=True)
class _Gang:
    """A gang: the pods of one job. `ready`: uid -> ready pod. `complete`: True once all pods of the job have been
    ready."""

    ready: dict[str, Object] = field(default_factory=dict)
    complete: bool = False


class SimulatedGangs:
    """The gangs of simulated pods. `begin`: a function that is called for each pod of a gang when the gang is complete.
    For a pod that is added later, it is called at once."""

    def __init__(self, begin: Callable[[Object], None]) -> None:
        self._begin = begin
        self._gangs: dict[str, _Gang] = defaultdict(_Gang)
        self._key_of: dict[str, str] = {}  # uid of a ready pod -> its gang
        self._jobs: dict[str, Object] = {}  # uid of a Job -> the Job
        self._jobs_of: dict[str, set[str]] = defaultdict(set)  # gang -> the uids of its Jobs

    def is_ready(self, pod: Object) -> None:
        """Record that a pod is ready. Further calls for the same pod have no effect."""
        uid = pod["metadata"]["uid"]
        if uid in self._key_of:
            return
        key = self._key_of[uid] = self._key(pod)
        gang = self._gangs[key]
        gang.ready[uid] = pod
        if gang.complete:
            self._begin(pod)
        else:
            self._check(key)

    def is_over(self, uid: str) -> None:
        """Record that a pod has ended or is being deleted. When the last pod of a gang has ended, the gang is removed;
        its next pod begins a new gang."""
        if (key := self._key_of.pop(uid, None)) is None:
            return
        self._gangs[key].ready.pop(uid, None)
        if not self._gangs[key].ready:
            del self._gangs[key]

    def take_job(self, change: Change) -> None:
        """Store the Job. The gang may be complete now if the Job was created after its pods, or if it now requests
        fewer pods."""
        for job in (change.old, change.new):
            if job is not None:
                self._jobs_of[_job_key(job)].discard(job["metadata"]["uid"])
                self._jobs.pop(job["metadata"]["uid"], None)
        if change.new is None:
            return
        uid, key = change.new["metadata"]["uid"], _job_key(change.new)
        self._jobs[uid] = change.new
        self._jobs_of[key].add(uid)
        if uid != key and uid in self._gangs:  # move pods that were observed before their Job to the gang of the Job
            for pod in list(self._gangs[uid].ready.values()):
                self.is_over(pod["metadata"]["uid"])
                self.is_ready(pod)
        self._check(key)

    def _check(self, key: str) -> None:
        gang = self._gangs.get(key)
        if gang is None or gang.complete or not gang.ready:
            return
        wanted = self._wanted(key, next(iter(gang.ready.values())))
        if wanted is not None and len(gang.ready) >= wanted:
            gang.complete = True
            for pod in gang.ready.values():
                self._begin(pod)

    def _key(self, pod: Object) -> str:
        """Return the key of the pod's gang. A pod without a Job forms a gang by itself."""
        meta, owner = pod["metadata"], _controller(pod)
        if name := _said(meta, _JOB):
            return f"{meta['namespace']}/{name}"
        if owner is None:
            return str(meta["uid"])
        job = self._jobs.get(owner["uid"])
        return _job_key(job) if job is not None else str(owner["uid"])

    def _wanted(self, key: str, pod: Object) -> int | None:
        """Return the number of pods that the complete gang has; None as long as this number is unknown."""
        owner = _controller(pod)
        if text := _said(pod["metadata"], _MIN_AVAILABLE):
            return int(text)
        if owner is None or owner["kind"] != "Job":
            return 1
        jobs = [self._jobs[uid] for uid in self._jobs_of.get(key, ())]
        if owner["uid"] not in self._jobs or len(jobs) < int(self._roles(pod, jobs)):
            return None
        return sum(_size(job) for job in jobs)

    def _roles(self, pod: Object, jobs: list[Object]) -> str:
        said = (_said(one["metadata"], _ROLES) for one in (pod, *jobs))
        return next((text for text in said if text), "1")


def _job_key(job: Object) -> str:
    meta = job["metadata"]
    name = _said(meta, _JOB) or _said((job["spec"].get("template") or {}).get("metadata") or {}, _JOB)
    return f"{meta['namespace']}/{name}" if name else str(meta["uid"])


def _size(job: Object) -> int:
    text = _said(job["metadata"], _MIN_AVAILABLE)
    return int(text) if text else pods_at_once(job["spec"])


def pods_at_once(spec: Mapping[str, Any]) -> int:
    """Return the number of pods that a Job runs at the same time: its parallelism, but not more than its
    completions."""
    parallelism, completions = spec.get("parallelism"), spec.get("completions")
    wanted = 1 if parallelism is None else int(parallelism)
    return wanted if completions is None else min(wanted, int(completions))


def _said(meta: Mapping[str, Any], key: str) -> str | None:
    return (meta.get("labels") or {}).get(key) or (meta.get("annotations") or {}).get(key)


def _controller(pod: Object) -> Mapping[str, Any] | None:
    owners = pod["metadata"].get("ownerReferences") or ()
    return next((one for one in owners if one.get("controller")), None)


# --- endings ----------------------------------------------------------------------------------------------------------

RUN_SECONDS: Final = "phalanx.dev/run-seconds"
FAKE_NODE: Final = ("kwok.x-k8s.io/node", "fake")  # annotation of nodes that KWOK simulates
PROVIDED_NODE: Final = "phalanx.dev/simulated-node"  # annotation of nodes of simulated node groups
_COMPLETE: Final = "pod-complete.stage.kwok.x-k8s.io"
_FAIL: Final = "pod-container-running-failed.stage.kwok.x-k8s.io"
_FAIL_AFTER_S: Final = 1.0
_UNITS_S: Final = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0}
_PART: Final = re.compile(r"(\d{1,9}(?:\.\d{1,9})?)(ms|h|m|s)")
_DURATION: Final = re.compile(rf"(?:{_PART.pattern}){{1,8}}|0")


@dataclass(frozen=True, slots=True, kw_only=True)
class StageEnding:
    """The end of a simulated pod. `after_s`: the time to the end, from the moment when all pods of its job are ready.
    `alone`: True if `after_s` counts from the moment when this pod is ready."""

    after_s: float
    phase: str = "Succeeded"
    code: int = 0
    reason: str = "Completed"
    message: str = ""
    alone: bool = False


def is_fake(node: Object) -> bool:
    """Return True if KWOK would simulate this node."""
    key, value = FAKE_NODE
    return (node["metadata"].get("annotations") or {}).get(key) == value


def is_provided(node: Object) -> bool:
    """Return True if a simulated provider of a node group created the node."""
    return (node["metadata"].get("annotations") or {}).get(PROVIDED_NODE) == "true"


def ending(pod: Object, *, fake: bool) -> StageEnding | None:
    """Return the end of a pod; None if it runs for ever. `fake`: True if its node was created for KWOK."""
    meta = pod["metadata"]
    words: Mapping[str, Any] = meta.get("annotations") or {}
    if (meta.get("labels") or {}).get(_FAIL) == "true":
        return _failure(words)
    if RUN_SECONDS in words:
        after_s = _number(words[RUN_SECONDS])
        return StageEnding(after_s=after_s) if after_s is not None else None
    of_a_job = any(owner.get("kind") == "Job" for owner in meta.get("ownerReferences") or ())
    if of_a_job and (fake or f"{_COMPLETE}/delay" in words):
        return StageEnding(after_s=_delay_s(words, _COMPLETE, 0.0))
    return None


def _failure(words: Mapping[str, object]) -> StageEnding:
    code = str(words.get(f"{_FAIL}/exit-code", "1"))
    return StageEnding(
        after_s=_delay_s(words, _FAIL, _FAIL_AFTER_S),
        phase="Failed",
        code=int(code) if code.isascii() and code.isdigit() and len(code) < 4 else 1,
        reason=str(words.get(f"{_FAIL}/reason", "containerFailed")),
        message=str(words.get(f"{_FAIL}/message", "container failed")),
        alone=True,
    )


def _delay_s(words: Mapping[str, object], stage: str, default_s: float) -> float:
    """Return the delay of a stage in seconds. As in KWOK, if the jitter is longer than the delay, the result is a
    random time between the two; if the jitter is shorter, the result is the jitter."""
    delay_s = _seconds(words.get(f"{stage}/delay"), default_s)
    jitter_s = _seconds(words.get(f"{stage}/jitter-delay"), -1.0)
    if jitter_s < 0.0:
        return delay_s
    return jitter_s if jitter_s <= delay_s else random.uniform(delay_s, jitter_s)


def _seconds(text: object, default_s: float) -> float:
    """Return the seconds of a Go duration; the default if the string is not a duration."""
    if text is None or not _DURATION.fullmatch(str(text)):
        return default_s
    return sum(float(number) * _UNITS_S[unit] for number, unit in _PART.findall(str(text)))


def _number(text: Any) -> float | None:
    try:
        found = float(text)
    except ValueError:
        return None
    return found if math.isfinite(found) else None
