"""The jobs that a word of scontrol names."""

from __future__ import annotations

from typing import Any

import pytest

from phalanx.slurm.commands.cluster.verbs import named as names
from tests.slurm.few_jobs import RUNS, WAITS


def test_an_empty_word_is_no_job(monkeypatch: pytest.MonkeyPatch) -> None:
    """`scontrol hold "$JOB"` of a script whose variable is empty must not hold all jobs."""
    monkeypatch.setattr(names, "jobs", lambda api, numbers=None, **_: [WAITS, RUNS])
    api: Any = None
    assert [names.named(api, text) for text in ("", ",", "jobid=")] == [[], [], []]
    assert names.named(api, "7") == [WAITS]
