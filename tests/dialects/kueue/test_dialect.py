"""Kueue's dialect as a whole: which gang an object belongs to."""

from __future__ import annotations

from typing import Any

import pytest

from phalanx.dialects.kueue.dialect import KUEUE
from phalanx.dialects.kueue.provisioning.requests import GANG

OWNER = {"kind": "Job", "name": "j", "uid": "u"}


@pytest.mark.parametrize(
    ("obj", "gang"),
    [
        ({"metadata": {"name": "w", "namespace": "ns", "ownerReferences": [OWNER]}}, "ns/j"),
        ({"metadata": {"name": "w", "namespace": "ns", "ownerReferences": [{**OWNER, "kind": "Pod"}]}}, "ns/pod:j"),
        ({"metadata": {"name": "w", "namespace": "ns"}}, ""),
        ({"kind": "ProvisioningRequest", "metadata": {"name": "r", "annotations": {GANG: "ns/j"}}}, "ns/j"),
        ({"kind": "ProvisioningRequest", "metadata": {"name": "r", "ownerReferences": [OWNER]}}, ""),
        (
            {
                "metadata": {
                    "name": "w",
                    "namespace": "ns",
                    "ownerReferences": [OWNER],
                    "annotations": {"kueue.x-k8s.io/is-group-workload": "true"},
                }
            },
            "ns/w",
        ),
    ],
)
def test_the_gang_of_an_object(obj: dict[str, Any], gang: str) -> None:
    assert KUEUE.gang_of(obj) == gang


def test_objects_that_are_read_by_their_status_are_among_the_definitions() -> None:
    assert set(KUEUE.by_status) <= set(KUEUE.definition_kinds)
    assert len(set(KUEUE.definition_kinds)) == len(KUEUE.definition_kinds)
    assert len(set(KUEUE.answer_kinds)) == len(KUEUE.answer_kinds)
