"""`registry/builtin_kinds/cluster.py`: the kinds of services, nodes and scheduling."""

from __future__ import annotations

import pytest

from phalanx.embedded.apiserver.registry.builtin_kinds.cluster import CLUSTER

KINDS = {(one.group, one.plural): one for one in CLUSTER}


def test_both_groups_of_events_are_stored_together() -> None:
    events = KINDS["events.k8s.io", "events"]
    assert events.key == ("", "events")
    assert events.to_stored is not None
    assert events.from_stored is not None


@pytest.mark.parametrize(
    ("group", "plural", "schema"),
    [
        ("policy", "poddisruptionbudgets", "io.k8s.api.policy.v1.PodDisruptionBudget"),
        ("scheduling.k8s.io", "podgroups", "io.k8s.api.scheduling.v1alpha2.PodGroup"),
        ("autoscaling", "horizontalpodautoscalers", "io.k8s.api.autoscaling.v2.HorizontalPodAutoscaler"),
    ],
)
def test_each_kind_has_its_definition(group: str, plural: str, schema: str) -> None:
    kind = KINDS[group, plural]
    assert kind.schema_name == schema
    [status] = [one for one in kind.subresources if one.name == "status"]
    assert (status.group, status.version) == (group, kind.version)
