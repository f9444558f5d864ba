"""`agent/pod/ending.py`: why a pod must end, when, and how long its programs may take to stop."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from phalanx.embedded.node.agent.pod.ending import DEADLINE, EVICTED, PodEnding
from phalanx.embedded.node.pod.record import PodRecord
from tests.embedded.node.objects import pod

RECORD = PodRecord(uid="u", namespace="default", name="p", pod_ip="", start_time="1970-01-01T00:01:40Z")
FULL_DISK = replace(RECORD, failure=(EVICTED, "the disk is full"))
LATE = replace(RECORD, failure=DEADLINE)
DELETED: dict[str, Any] = {"deletionTimestamp": "1970-01-01T00:02:00Z", "deletionGracePeriodSeconds": 7}


def ending(record: PodRecord = RECORD, *, is_gone: bool = False, phase: str = "", **parts: Any) -> PodEnding:
    found = pod(meta=parts.pop("meta", None), **parts)
    return PodEnding(pod={**found, "status": {"phase": phase}}, record=record, is_gone=is_gone)


@pytest.mark.parametrize(
    ("found", "must_end", "cause"),
    [
        (ending(), False, "the pod's other containers had ended"),
        (ending(FULL_DISK), True, "the disk is full"),
        (ending(LATE, meta=DELETED), True, DEADLINE[1]),
        (ending(meta=DELETED), True, "the pod was deleted"),
        (ending(is_gone=True), True, "the pod was deleted"),
        (ending(phase="Failed"), True, "the pod was ended: nobody said why"),
        (ending(phase="Running"), False, "the pod's other containers had ended"),
    ],
    ids=["goes on", "evicted", "late and deleted", "deleted", "its object is gone", "ended by others", "runs"],
)
def test_why_a_pod_ends(found: PodEnding, must_end: bool, cause: str) -> None:
    assert (found.must_end, found.cause) == (must_end, cause)


@pytest.mark.parametrize(
    ("found", "grace_s"),
    [
        (ending(), 30.0),
        (ending(terminationGracePeriodSeconds=0), 0.0),
        (ending(meta=DELETED, terminationGracePeriodSeconds=60), 7.0),
        (ending(LATE, terminationGracePeriodSeconds=60), 60.0),
        (ending(FULL_DISK, terminationGracePeriodSeconds=60), 1.0),
        (ending(is_gone=True, meta=DELETED), 1.0),
    ],
    ids=["default", "of its spec", "of the deletion", "late", "evicted", "its object is gone"],
)
def test_how_long_its_programs_may_take(found: PodEnding, grace_s: float) -> None:
    assert found.grace_s == grace_s


def test_the_deadline_counts_from_the_start_until_the_pod_must_end() -> None:
    assert ending().deadline_s is None
    assert ending(activeDeadlineSeconds=20).deadline_s == 120.0
    assert ending(meta=DELETED, activeDeadlineSeconds=20).deadline_s is None
