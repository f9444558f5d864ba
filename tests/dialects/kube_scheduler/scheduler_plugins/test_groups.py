"""PodGroups of scheduler-plugins: which pods are in one, what they claim, and the status of the group."""

from __future__ import annotations

from typing import Any

import pytest

from phalanx.dialects.frame.dialect import Object
from phalanx.dialects.kube_scheduler.scheduler_plugins import groups, kinds

LABEL = kinds.GROUP_LABELS[0]


def options(scheduler: str, **labels: str) -> dict[str, str]:
    named = {"group": LABEL, "minimum": kinds.MIN_LABEL, "job": "phalanx.dev/job"}
    said = {named[key]: text for key, text in labels.items()}
    return {
        key.removeprefix("phalanx.dev/"): text
        for key, text in groups.options_of({"labels": said, "namespace": "ns"}, scheduler).items()
    }


def test_pods_of_the_scheduler_are_in_the_quota_of_their_namespace() -> None:
    assert options(kinds.SCHEDULER_NAME) == {"queue": kinds.tree_quota("ns")}
    found = options(kinds.SCHEDULER_NAME, group="g", minimum="3")
    assert (found[groups.OBJECT], found["min-available"]) == ("g", "3")
    assert f"ns/{found['job']}" == groups.gang_of({"metadata": {"namespace": "ns", "name": "g"}})


def test_other_pods_are_left_alone() -> None:
    assert options("phalanx") == options("volcano", group="g") == options(kinds.SCHEDULER_NAME, job="j") == {}
    assert options("phalanx", group="g")[groups.OBJECT] == "g"


def group(minimum: int = 2, **status: Any) -> Object:
    return {"metadata": {"name": "g", "namespace": "ns"}, "spec": {"minMember": minimum}, "status": status}


def pods(*phases: str) -> list[Object]:
    owners = [{"name": "b"}, {"name": "a"}]
    meta = {"namespace": "ns", "ownerReferences": owners}
    return [{"metadata": meta, "status": {"phase": phase}} for phase in phases]


@pytest.mark.parametrize(
    ("phases", "phase"),
    [
        ((), "Pending"),
        (("Running",), "Pending"),
        (("Pending", "Pending"), "Scheduling"),
        (("Running", "Pending"), "Scheduling"),
        (("Running", "Succeeded"), "Running"),
        (("Succeeded", "Succeeded"), "Finished"),
        (("Failed", "Running"), "Failed"),
        (("Failed", "Pending"), "Scheduling"),
    ],
)
def test_phases(phases: tuple[str, ...], phase: str) -> None:
    assert groups._status(group(), pods(*phases), "now")["phase"] == phase


def test_a_complete_group_has_its_time_and_its_owners() -> None:
    first = groups._status(group(), pods("Pending", "Pending"), "then")
    assert first == {"phase": "Scheduling", "scheduleStartTime": "then", "occupiedBy": "ns/a,ns/b"}
    later = groups._status(group(**first), pods("Running"), "now")
    assert (later["scheduleStartTime"], later["occupiedBy"], later["running"]) == ("then", "ns/a,ns/b", 1)


def test_an_end_does_not_change() -> None:
    ended = {"phase": "Finished", "succeeded": 2}
    assert groups._status(group(**ended), pods("Failed", "Failed"), "now") == ended


@pytest.mark.parametrize("said", [None, 0, -1, "2", 2.5])
def test_a_minimum_that_is_none_is_one(said: Any) -> None:
    assert groups._minimum({"spec": {"minMember": said}}) == 1


def test_groups_without_pods_have_a_status_too() -> None:
    [one] = groups.statuses([], {kinds.POD_GROUPS: {"ns/g": group()}}, "now")
    assert (one.key, one.status) == ("ns/g", {"phase": "Pending"})
