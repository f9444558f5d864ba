"""A job that another cluster runs, as `phalanx jobs` and `phalanx explain` show it."""

from __future__ import annotations

from dataclasses import replace

from phalanx.cli.views.job.job_page import _cluster_lines, _verdict
from phalanx.cli.views.job.job_view import COLUMNS, JobView, table_of
from phalanx.model.reason import Reason, ReasonCode

HERE = JobView(
    id="default/one",
    queue="q",
    state="running",
    wanted=2,
    placed=2,
    since_s=0.0,
    submitted_s=0.0,
    priority=0,
    nodes={"n1": 2},
    reason=None,
    message="",
    soon=False,
    roles=(),
)
THERE = replace(HERE, id="default/two", cluster="w1", clusters=("w1: price 1/h", "w2: no room, price 0.5/h"))


def test_the_column_cluster_is_there_if_another_cluster_runs_a_job() -> None:
    here, there = HERE.row(None, 10.0), THERE.row(None, 10.0)
    assert table_of([here], 10.0, with_namespace=False)[0] == COLUMNS
    columns, lines, _ = table_of([here, there], 10.0, with_namespace=False)
    at = list(columns).index("CLUSTER")
    assert [line[at] for line in lines] == ["", "w1"]
    assert all(len(line) == len(columns) for line in lines)
    wide, lines, _ = table_of([there], 10.0, with_namespace=True, wide=True)
    assert lines[0][list(wide).index("CLUSTER")] == "w1"


def test_a_job_that_runs_elsewhere_is_explained_by_its_cluster_though_that_shows_no_nodes() -> None:
    unseen = replace(THERE, reason=Reason(code=ReasonCode.NO_NODE_MATCHES, text="3 are not ready"))
    assert _verdict(unseen) == "It runs in cluster w1, which has a copy of it."
    assert (
        _verdict(replace(THERE, state="starting")) == "It was sent to cluster w1, which has not started its copy yet."
    )
    assert list(_cluster_lines(THERE)) == ["cluster w1", "  w1: price 1/h", "  w2: no room, price 0.5/h"]
    assert list(_cluster_lines(HERE)) == []
    assert THERE.record()["cluster"] == "w1"
