"""How a simulated pod ends: by a word of ours, or by the stages that KWOK ships."""

from __future__ import annotations

from typing import Any

import pytest

from phalanx.embedded.node.simulated.stages import StageEnding, ending, is_fake

COMPLETE, FAIL = "pod-complete.stage.kwok.x-k8s.io", "pod-container-running-failed.stage.kwok.x-k8s.io"
OURS = "phalanx.dev/run-seconds"


def pod(owner: str = "", labels: dict[str, str] | None = None, **annotations: str) -> dict[str, Any]:
    meta: dict[str, Any] = {"labels": labels or {}, "annotations": annotations}
    return {"metadata": meta | ({"ownerReferences": [{"kind": owner}]} if owner else {})}


@pytest.mark.parametrize(
    ("found", "fake", "wanted"),
    [
        (pod(), True, None),
        (pod("ReplicaSet"), True, None),
        (pod("Job"), False, None),
        (pod("Job"), True, StageEnding(after_s=0.0)),
        (pod("Job", **{f"{COMPLETE}/delay": "1m30s"}), True, StageEnding(after_s=90.0)),
        (pod("Job", **{f"{COMPLETE}/delay": "500ms"}), False, StageEnding(after_s=0.5)),
        (pod("Job", **{f"{COMPLETE}/delay": "soon"}), True, StageEnding(after_s=0.0)),
        (pod("Job", **{f"{COMPLETE}/delay": "10s", f"{COMPLETE}/jitter-delay": "4s"}), True, StageEnding(after_s=4.0)),
        (pod("Job", **{OURS: "7"}), True, StageEnding(after_s=7.0)),
        (pod(**{OURS: "inf"}), False, None),
        (pod(**{OURS: "long"}), False, None),
        (pod(**{f"{COMPLETE}/delay": "1s"}), True, None),
    ],
)
def test_when_a_pod_ends(found: dict[str, Any], fake: bool, wanted: StageEnding | None) -> None:
    assert ending(found, fake=fake) == wanted


def test_a_longer_jitter_is_drawn_from() -> None:
    words = {f"{COMPLETE}/delay": "1s", f"{COMPLETE}/jitter-delay": "3s"}
    drawn = {ends.after_s for _ in range(20) if (ends := ending(pod("Job", **words), fake=True)) is not None}
    assert len(drawn) > 1
    assert all(1.0 <= each <= 3.0 for each in drawn)


def test_a_pod_with_the_label_of_the_failing_stage_fails_as_it_says() -> None:
    words = {f"{FAIL}/delay": "2s", f"{FAIL}/exit-code": "3", f"{FAIL}/reason": "Bad", f"{FAIL}/message": "so"}
    said = StageEnding(after_s=2.0, phase="Failed", code=3, reason="Bad", message="so", alone=True)
    assert ending(pod(labels={FAIL: "true"}, **words), fake=False) == said
    plain = ending(pod("Job", labels={FAIL: "true"}), fake=True)
    assert plain is not None
    assert (plain.after_s, plain.code, plain.reason) == (1.0, 1, "containerFailed")


def test_a_node_is_fake_by_its_annotation() -> None:
    assert is_fake({"metadata": {"annotations": {"kwok.x-k8s.io/node": "fake"}}})
    assert not is_fake({"metadata": {"labels": {"kwok.x-k8s.io/node": "fake"}}})
