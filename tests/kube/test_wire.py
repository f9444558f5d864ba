"""`kube/read/wire.py`: fields of pods that move into their metadata, and times."""

from __future__ import annotations

import pytest

from phalanx.kube.read.wire import epoch_s, with_group, with_priority


def test_a_pod_that_names_no_group_keeps_its_metadata() -> None:
    meta = {"name": "p"}
    assert with_group(meta, {"containers": []}) is meta
    found = with_group(meta, {"schedulingGroup": {"podGroupName": "g"}, "containers": []})
    assert found == {"name": "p", "group": {"schedulingGroup": {"podGroupName": "g"}}}
    assert meta == {"name": "p"}


@pytest.mark.parametrize(
    ("spec", "priority"),
    [
        ({}, None),
        ({"priority": 0}, None),
        ({"priority": 7}, ("", 7)),
        ({"priorityClassName": "high", "priority": 0}, ("high", 0)),
        ({"priorityClassName": None}, ("", 0)),
    ],
)
def test_a_priority_is_a_class_and_a_value(spec: dict[str, object], priority: tuple[str, int] | None) -> None:
    assert with_priority({}, spec) == ({} if priority is None else {"priority": priority})


@pytest.mark.parametrize(
    ("text", "seconds"),
    [(None, 0.0), ("", 0.0), ("1970-01-01T00:01:40Z", 100.0), ("1970-01-01T01:01:40+01:00", 100.0)],
)
def test_a_time_is_seconds_since_the_epoch(text: str | None, seconds: float) -> None:
    assert epoch_s(text) == seconds
