"""`cli/views/node_view.py`: build the row of a node from a snapshot."""

from __future__ import annotations

from phalanx.cli.views import node_view
from tests.cli.test_job_reading import foreign_pod, node, snapshot


async def test_a_node_says_what_is_used_and_by_whom() -> None:
    seen = snapshot(node("n1"), node("n2"), foreign_pod("dns", "n1", "500m"))
    rows = [node_view.row(view) for view in node_view.views(seen)]
    assert rows[0] == ["n1", "ready", "0.5/4", "0/8Gi", "-", "1/110", "kube-system/dns (not a job)"]
    assert rows[1] == ["n2", "ready", "0/4", "0/8Gi", "-", "0/110", ""]
