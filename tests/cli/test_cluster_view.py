"""Rows of `phalanx clusters`."""

from __future__ import annotations

from typing import Any

from phalanx.cli.views.cluster_view import COLUMNS, UNSEEN, ClusterView, row, table_of, view_of
from phalanx.clusters.question import ClusterOffer
from phalanx.clusters.workers.state import WorkerCapacity


def cluster(**condition: Any) -> dict[str, Any]:
    conditions = [{"type": "Other"}, {"type": "Active", **condition}] if condition else []
    return {"metadata": {"name": "far"}, "status": {"conditions": conditions}}


def test_a_cluster_that_nobody_has_looked_at() -> None:
    assert view_of(cluster()) == ClusterView(name="far", active=False, why=UNSEEN)


def test_a_cause_and_what_to_do_about_it() -> None:
    said = cluster(status="False", message="no answer. Start it. Now.", lastTransitionTime="1970-01-01T00:01:00Z")
    found = view_of(said)
    assert (found.why, found.mend, found.since_s) == ("no answer", "Start it. Now.", 60.0)
    cells = dict(zip(COLUMNS, row(found, 30.0), strict=True))
    assert cells["WHY"] == "no answer. Start it. Now."
    assert (cells["STATE"], cells["NODES"], cells["CPU"]) == ("not ready", "-", "-")
    assert cells["SINCE"], "a clock that is behind makes no negative time"


def test_a_message_of_an_active_cluster_is_no_cause() -> None:
    found = view_of(cluster(status="True", message="Connected", lastTransitionTime="yesterday"))
    assert (found.active, found.why, found.since_s) == (True, "", None)


def test_amounts_are_used_of_total_and_others_are_named() -> None:
    figures = WorkerCapacity(nodes=3, ready=2, has={"cpu": 4000, "gpu": 8}, used={"cpu": 1500}, jobs=7)
    cells = dict(zip(COLUMNS, row(ClusterView(name="a", active=True, figures=figures), 0.0), strict=True))
    assert (cells["NODES"], cells["CPU"], cells["MEMORY"], cells["OTHERS"]) == ("2/3", "1.5/4", "-", "gpu 0/8")
    assert (cells["JOBS"], cells["SINCE"]) == ("7", "")


def test_offers_have_a_column_where_one_offers_something() -> None:
    plain = ClusterView(name="a", active=True)
    offers = ClusterView(name="b", active=True, offer=ClusterOffer(data=frozenset({"y", "x"}), prices={"cpu": 0.5}))
    columns, lines, _ = table_of([plain], 0.0)
    assert "OFFERS" not in columns
    assert len(columns) == len(lines[0])
    columns, lines, _ = table_of([plain, offers], 0.0)
    assert lines[1][columns.index("OFFERS")] == "data x, y; cpu=0.5/h"
    assert offers.record()["data"] == ["x", "y"]
    assert offers.record()["prices"] == {"cpu": 0.5}
