"""What an agent remembers of an admitted pod."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from phalanx.embedded.node.pod.record import PodRecord, records

INDEX = "batch.kubernetes.io/job-completion-index"


def pod(**meta: Any) -> dict[str, Any]:
    return {"metadata": {"uid": "u", "namespace": "ns", "name": "p", **meta}}


def test_the_controller_is_remembered_and_no_other_owner() -> None:
    owners = [{"kind": "X", "name": "x", "uid": "1"}, {"kind": "Job", "name": "j", "uid": "2", "controller": True}]
    found = PodRecord.of(pod(ownerReferences=owners), "127.0.0.1", "now", {})
    assert (found.owner, found.owner_uid) == ("Job/j", "2")
    assert PodRecord.of(pod(), "127.0.0.1", "now", {}).owner == ""


def test_the_completion_index_is_among_the_labels() -> None:
    found = PodRecord.of(pod(labels={"a": "b"}, annotations={INDEX: "3", "other": "x"}), "", "", {})
    assert found.labels == {"a": "b", INDEX: "3"}


def test_records_are_read_as_they_were_written(tmp_path: Path) -> None:
    made = PodRecord.of(pod(), "127.0.0.1", "now", {"c": ("gpu-0",)}, {"c": {"nic": ("n0",)}}, {"c": (1, 2)})
    made.write(tmp_path / "b")
    other = PodRecord.of(pod(uid="v"), "", "", {})
    other.write(tmp_path / "a")
    assert [*records(tmp_path)] == [other, made]
    assert (tmp_path / "a").stat().st_mode & 0o777 == 0o700


def test_a_damaged_record_is_passed_over(tmp_path: Path) -> None:
    for name, text in (("a", "{"), ("b", '{"uid": 1}')):
        (tmp_path / name).mkdir()
        (tmp_path / name / "pod.json").write_text(text)
    (tmp_path / "c" / "pod.json").mkdir(parents=True)
    assert [*records(tmp_path)] == []
