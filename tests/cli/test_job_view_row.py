"""`cli/views/job/job_view.py`: A job as a row of `phalanx jobs`."""

from __future__ import annotations

from dataclasses import replace

import pytest

from phalanx.cli.cluster.target import Scope
from phalanx.cli.commands.status.jobs import print_changes
from phalanx.cli.views.job.job_view import JobTableRow, short_row, tasks_together
from tests.cli.test_job_reading import NOW_S, array_job, batch_job, foreign_pod, node, queue, rows, snapshot


async def test_a_job_of_which_nothing_changes_is_told_once(capsys: pytest.CaptureFixture[str]) -> None:
    there = (queue("default"), node("n1"), foreign_pod("dns", "n1", "3"), batch_job("train", 2, "2"))
    known: dict[str, JobTableRow] = {}
    for more in ((), (), (node("n2", "1"),)):
        seen = snapshot(*there, *more)
        known = print_changes(rows(seen), known, seen.now_s, Scope(all_namespaces=True), json=True)
    first, then = capsys.readouterr().out.splitlines()
    assert first != then


def test_tasks_of_an_array_that_wait_are_one_line_and_others_stay_as_they_are() -> None:
    seen = snapshot(
        node("n1"), queue("default"), *(array_job(task, cap=2) for task in (5, 6, 7, 9)), batch_job("b", 1, "99")
    )
    found = rows(seen)
    lines = [short_row(row, NOW_S, with_namespace=False)[:4] for row in tasks_together(found)]
    assert sorted(lines) == [["b", "default", "queued", "0/1"], ["sweep[5-7,9%2]", "default", "queued", "0/4"]]
    over = [replace(row, state="complete" if row.task in {5, 6} else "running") for row in found if row.array]
    assert [row.name for row in tasks_together(over)] == ["sweep[5-6%2]", "sweep-7", "sweep-9"]
    assert {row.record["array"] for row in found} == {"", "sweep"}
