"""`embedded/controllers/operators/volcano/job_spec.py`: lifecycle policies of a Job and its tasks."""

from __future__ import annotations

import pytest

from phalanx.embedded.controllers.operators.volcano.job_spec import go_seconds


@pytest.mark.parametrize(
    ("text", "span_s"), [("1m30s", 90.0), ("1.5h", 5400.0), ("10", None), ("", None), ("x1s", None)]
)
def test_durations_are_gos(text: str, span_s: float | None) -> None:
    assert go_seconds(text) == span_s
