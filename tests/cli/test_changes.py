"""`cli/study/changes.py`: the cluster state with the changes of a what-if question."""

from __future__ import annotations

from pathlib import Path

import pytest

from phalanx.cli.commands.study.whatif import whatif
from phalanx.cli.study.changes import Changes, altered, last_state, seconds
from phalanx.cli.study.future import played
from phalanx.errors import PhalanxError
from tests.cli.test_whatif import SMALL, a_job, manifest, saved


@pytest.fixture
def small(tmp_path: Path) -> Path:
    return saved(tmp_path, SMALL)


def test_changes_are_made_in_a_copy_of_the_state(small: Path) -> None:
    before = last_state(small)
    after, remarks = altered(before, {}, [], Changes(delete=("job/next",), add_nodes=("1xn1",)), None, "default")
    assert remarks == []
    assert "default/next" in before.jobs
    assert "default/next" not in after.jobs
    assert (len(before.columns), len(after.columns)) == (1, 2)


def test_simulation_ends_at_its_horizon(small: Path) -> None:
    book = last_state(small)
    assert played(book.copy(), 30.0, 60.0).courses["default/next"].starts_s == []
    assert played(book.copy(), 90.0, 60.0).courses["default/next"].starts_s == [book.now_s + 60]


def test_a_duration_that_cannot_be_read_names_its_option() -> None:
    assert seconds("--for", "2m") == 120
    with pytest.raises(PhalanxError, match=r"--for .*Nothing was simulated"):
        seconds("--for", "soon")


async def test_a_started_job_of_a_snapshot_is_passed_over_and_that_is_said(
    small: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    await whatif(snapshot=small, changes=Changes(file=manifest(tmp_path, a_job("runs", 2, "10s"))))
    assert "default/runs has already started: the changes in its file have no effect" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("kept", "complaint"),
    [(slice(0, -30), r"small\.jsonl has no complete step"), (slice(0, 0), "is not a recording")],
)
def test_a_snapshot_cut_short_is_refused(small: Path, kept: slice, complaint: str) -> None:
    small.write_text(small.read_text()[kept])
    with pytest.raises(PhalanxError, match=complaint):
        last_state(small)
