"""`cli/submission/moving/selection.py`: which of a cluster's jobs may move, and why the others stay."""

from __future__ import annotations

from phalanx.cli.submission.moving.selection import RUNS, choose, parted
from tests.cli.test_move_selection import FAILED, RUNNING, chosen, job


def test_no_dependency_is_between_two_clusters() -> None:
    runs, chain = job("runs", status=RUNNING), [job("a", "runs:ok"), job("b", "a:ok"), job("c", "b:any"), job("d")]
    moves, stays = chosen(runs, *chain)
    assert set(moves) == {"d"}
    assert stays["runs"] == RUNS
    assert "it waits for n/runs, which runs here" in stays["a"]
    assert stays["c"] == "it waits for n/b, which stays in this cluster"
    moves, stays = chosen(job("a"), job("b", "a:ok"), stays="b")
    assert (moves, stays["a"]) == ({}, "n/b waits for it, and stays in this cluster")
    broke = job("broke", status=FAILED)
    assert "it never starts: n/broke ended in another way" in chosen(broke, job("a", "broke:ok"))[1]["a"]
    assert "cannot be read" in chosen(job("a", "b:sometimes"))[1]["a"]


def test_jobs_that_depend_on_one_that_was_refused_stay_with_it() -> None:
    moves = choose([job("a"), job("b", "a:ok"), job("c")], lambda one: "").moves
    kept = [move for move in moves if move.job.name != "a"]
    assert [(one.name, why) for one, why in parted(moves, kept)] == [
        ("b", "it waits for n/a, which stays in this cluster")
    ]
    assert parted(moves, moves) == []
