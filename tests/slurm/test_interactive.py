"""An allocation is held by the salloc or srun that asked for it: by its step daemon's own program.

No clock decides here: the daemon begins to wait for its holder when the test lets it.
"""

from __future__ import annotations

from typing import cast

import pytest

from phalanx.errors import PhalanxError
from phalanx.slurm.cluster.api import ApiClient
from phalanx.slurm.cluster.site import Site
from phalanx.slurm.jobs.ask import Ask
from phalanx.slurm.jobs.view import JobInfo
from phalanx.slurm.options import Usage
from phalanx.slurm.submission import interactive


@pytest.mark.parametrize("at", ["_wait", "allocation"])
def test_what_cannot_be_had_is_given_back(monkeypatch: pytest.MonkeyPatch, at: str) -> None:
    """For example a job whose pods run no steps, which would never end."""
    ended = []

    def fails(*_: object, **__: object) -> None:
        raise PhalanxError("no")

    monkeypatch.setattr(interactive.ApiClient, "open", lambda: None)
    monkeypatch.setattr(interactive.site, "load", lambda api: Site())
    monkeypatch.setattr(interactive, "hardware", lambda *_: None)
    monkeypatch.setattr(interactive, "request", lambda *_: type("Asked", (), {"ask": type("Ask", (), {"hold": ""})()}))
    monkeypatch.setattr(interactive, "submit", lambda *_: [7])
    monkeypatch.setattr(interactive, "_wait", lambda *_: None)
    monkeypatch.setattr(interactive, at, fails)
    monkeypatch.setattr(interactive, "cancel", lambda api, number: ended.append(number))
    with pytest.raises(PhalanxError, match="no"):
        interactive.grant("salloc", "alloc", [{}], "interactive", "salloc")
    assert ended == [7]


@pytest.mark.parametrize(
    ("name", "quiet", "told"),
    [
        (
            "srun",
            False,
            "srun: job 7 queued and waiting for resources\nsrun: Job has been cancelled\n"
            "srun: error: Unable to allocate resources: Job/step already completing or completed",
        ),
        ("srun", True, "srun: error: Unable to allocate resources: Job/step already completing or completed"),
        (
            "salloc",
            False,
            "salloc: Pending job allocation 7\nsalloc: job 7 queued and waiting for resources\n"
            "salloc: Job allocation 7 has been revoked.\nsalloc: Job has been cancelled\n"
            "salloc: error: Job submit/allocate failed: Job/step already completing or completed",
        ),
    ],
)
@pytest.mark.parametrize("missed", [True, False], ids=["missed its deadline", "was cancelled"])
def test_a_job_that_ends_before_it_starts_is_no_allocation(
    monkeypatch: pytest.MonkeyPatch, *, name: str, quiet: bool, told: str, missed: bool
) -> None:
    ask = Ask(name="j", user="a", uid=1, gid=1, group="g", account="l", partition="b")
    found = [JobInfo(number=7, ask=ask, state="DEADLINE")] if missed else []
    monkeypatch.setattr(interactive, "jobs", lambda api, numbers: found)
    with pytest.raises(Usage) as error:
        interactive._wait(cast(ApiClient, None), 7, name, quiet, {})
    assert error.value.text == told
