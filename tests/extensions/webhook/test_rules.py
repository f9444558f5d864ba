"""The rules, written a second time in Python: the policies and the webhook must have the same result for every kind of
Job. The policies are written in CEL, so that an error in one of the two is found."""

from __future__ import annotations

import json
from collections.abc import Iterator
from itertools import product
from typing import Any

import pytest

from phalanx.extensions.webhook.review import judge, read
from phalanx.kube.read.labels import JOB, QUEUE, SCHEDULER_NAME, USER
from tests.extensions.webhook.reviews import Case, patched, review

WHO = "admin"  # who asks
LABELS: tuple[dict[str, str] | None, ...] = (None, {}, {"app": "web"}, {QUEUE: "a"}, {JOB: "g"}, {QUEUE: "", JOB: "g"})
SIGNATURES: tuple[dict[str, str] | None, ...] = (None, {}, {"note": "x"}, {USER: WHO}, {USER: "root"}, {USER: ""})
SUSPENDED = (None, True, False)
SCHEDULERS = (None, "default-scheduler", SCHEDULER_NAME, "volcano")
MANAGERS = (None, "kubernetes.io/job-controller", "kueue.x-k8s.io/multikueue")


def becomes(job: Any, old: Any = None) -> Any:
    return patched(job, judge(read(json.dumps(review(job, old, user=WHO)).encode())).answer)


def is_ours(job: Any) -> bool:
    return not {QUEUE, JOB}.isdisjoint(job["metadata"].get("labels") or {})


def signature(job: Any) -> str | None:
    found: str | None = (job["metadata"].get("annotations") or {}).get(USER)
    return found


def expected(job: Any, old: Any = None) -> Any:
    """Jobs for Phalanx are suspended and get its scheduler name, unless another one was chosen; a Job with another
    controller is not changed. The user who queues a Job, or writes a signature, is recorded as its signer; an existing
    signature stays."""
    found = json.loads(json.dumps(job))
    spec = found["spec"]
    if old is None and is_ours(job) and spec.get("managedBy", MANAGERS[1]) == MANAGERS[1]:
        spec["suspend"] = True
        pods = spec["template"]["spec"]
        if pods.get("schedulerName", "default-scheduler") == "default-scheduler":
            pods["schedulerName"] = SCHEDULER_NAME
    who = signer(job, old)
    if who != signature(job):
        found["metadata"]["annotations"] = {**(found["metadata"].get("annotations") or {}), USER: who}
    return found


def signer(job: Any, old: Any) -> str | None:
    if old is not None and signature(old) is not None:
        return signature(old)
    if not is_ours(job) and signature(job) is None:
        return None
    return WHO if old is None or signature(job) is not None or not is_ours(old) else None


@pytest.mark.slow
def test_every_job_that_is_created() -> None:
    count = 0
    for labels, words, suspend, scheduler, manager in product(LABELS, SIGNATURES, SUSPENDED, SCHEDULERS, MANAGERS):
        said = {"suspend": suspend, "managedBy": manager}
        spec = {key: value for key, value in said.items() if value is not None}
        job = Case(name="j", labels=labels, annotations=words, spec=spec, scheduler=scheduler).job()
        assert becomes(job) == expected(job), job
        count += 1
    assert count == 1296


def changes() -> Iterator[tuple[Any, Any]]:
    states = [Case(name="j", labels=labels, annotations=words).job() for labels, words in product(LABELS, SIGNATURES)]
    yield from product(states, states)


@pytest.mark.slow
def test_every_change_of_labels_and_signatures() -> None:
    count = 0
    for old, new in changes():
        assert becomes(new, old) == expected(new, old), (old["metadata"], new["metadata"])
        count += 1
    assert count == 1296
