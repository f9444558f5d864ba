"""`simulator/cluster/arrivals.py`: the run time estimates that the scheduler is given."""

from __future__ import annotations

from phalanx.simulator.cluster.arrivals import estimator
from tests.simulator.builders import task


def test_last_two_predicts_from_the_user_s_own_jobs_and_corrects_itself() -> None:
    mine = [
        task(f"j{index}", index * 1000, run_s, limit_s=900, user="u") for index, run_s in enumerate((100, 300, 250))
    ]
    known = estimator("last-two")
    assert [known.told(each).limit_s for each in mine[:1]] == [900]
    known.ended(mine[0], 100, now_s=100)
    assert known.told(mine[1]).limit_s == 900
    known.ended(mine[1], 300, now_s=1300)
    assert known.told(mine[2]).limit_s == 200
    assert [known.outlived(mine[2], nth) for nth in range(4)] == [260, 500, 900, 900]


def test_last_two_does_not_know_what_ends_at_the_very_moment_of_a_submission() -> None:
    jobs = [task(f"j{index}", submit_s, 100, limit_s=900, user="u") for index, submit_s in enumerate((0, 50, 150, 151))]
    known = estimator("last-two")
    known.ended(jobs[0], 100, now_s=100)
    known.ended(jobs[1], 100, now_s=150)
    assert [known.told(each).limit_s for each in jobs[2:]] == [900, 100]
