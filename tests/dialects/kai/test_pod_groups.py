"""PodGroups of KAI: the size of a gang, and what its spec says."""

from __future__ import annotations

from typing import Any

import pytest

from phalanx.dialects.kai import kinds, pod_groups
from phalanx.dialects.kai.pod_groups import gang_of, shape_of_spec
from phalanx.model.queue import STALENESS_GRACE_S


@pytest.mark.parametrize(
    ("spec", "minimum"), [({}, 1), ({"minMember": 3}, 3), ({"minMember": 0}, 1), ({"minMember": -1}, 1)]
)
def test_a_group_without_subgroups_has_a_minimum(spec: dict[str, Any], minimum: int) -> None:
    assert shape_of_spec(spec).minimum == minimum


def test_subgroups_without_children_are_roles_and_the_others_are_groups() -> None:
    listed = [
        {"name": "top", "minSubGroup": 1},
        {"name": "left", "parent": "top", "minMember": 2, "topologyConstraint": {"requiredTopologyLevel": "rack"}},
        {"name": "alone", "minMember": 1},
        "nonsense",
    ]
    found = shape_of_spec({"subGroups": listed})
    assert {name: role.minimum for name, role in found.roles.items()} == {"left": 2, "alone": 1}
    groups = {group["name"]: group for group in found.groups}
    assert groups[pod_groups.ROOT]["minimum"] == 2, "all that have no parent"
    assert (groups["top"]["minimum"], groups["left"]["parent"]) == (1, "top")
    assert groups["left"]["near"] == {"requiredTopologyLevel": "rack"}


@pytest.mark.parametrize(("least", "minimum"), [(None, 2), (1, 1), (9, 2)])
def test_no_more_subgroups_are_needed_than_there_are(least: int | None, minimum: int) -> None:
    found = shape_of_spec({"subGroups": [{"name": "a"}, {"name": "b"}], "minSubGroup": least})
    assert found.groups[0]["minimum"] == minimum


@pytest.mark.parametrize(
    ("said", "grace_s"),
    [("90s", 90.0), ("-1s", 0.0), ("90", STALENESS_GRACE_S), ("soon", STALENESS_GRACE_S), (90, STALENESS_GRACE_S),
     (None, STALENESS_GRACE_S)],
)  # fmt: skip
def test_a_grace_period_is_a_duration_with_a_unit(said: Any, grace_s: float) -> None:
    assert pod_groups._grace_s(said) == grace_s


@pytest.mark.parametrize(
    ("said", "priority", "preemptible"),
    [(None, 99, True), (None, 100, False), ("preemptible", 100, True), ("non-preemptible", 1, False), ("x", 1, True)],
)
def test_high_priorities_are_not_preemptible_unless_the_group_says_so(
    said: Any, priority: int, preemptible: bool
) -> None:
    assert pod_groups._preemptible(said, priority) is preemptible


def test_the_gang_of_an_owner_is_that_of_the_group_that_it_gets() -> None:
    meta = {"namespace": "ns", "name": "j", "uid": "u"}
    assert gang_of({"metadata": meta, "spec": {"minMember": 1}}) == f"ns/{kinds.gang_name('j')}"
    for spec in ({"template": {}}, {"pytorchReplicaSpecs": {}}, {"replicatedJobs": []}):
        assert gang_of({"metadata": meta, "spec": spec}) == f"ns/{kinds.gang_name('pg-j-u')}"
