"""The values of scontrol update, one by one, in the words of Slurm 22.05."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from phalanx.slurm.cluster.site import Site
from phalanx.slurm.commands.cluster.verbs import update_asked as asked
from tests.slurm.few_jobs import PLAIN, RUNS, WAITS


@pytest.mark.parametrize(
    ("before", "value", "shown"),
    [  # NumNodes of a job that waits, before and after `numnodes=VALUE`
        ("2", "3", "3"), ("2", "2-3", "2-3"), ("2-3", "2", "2-3"), ("2-3", "3-4", "3-4"),
        ("2-3", "4", "Node count specification invalid"), ("2", "3-2", "Node count specification invalid"),
    ],
)  # fmt: skip
def test_a_single_count_of_nodes_leaves_the_most_as_it_is(before: str, value: str, shown: str) -> None:
    least, _, most = before.partition("-")
    ask = replace(PLAIN, nodes=int(least), max_nodes=int(most or least), said_nodes=bool(most), tasks=2)
    within = asked.Around(Site(), None, True)  # type: ignore[arg-type]  # no hardware is asked
    try:
        asked.change(replace(WAITS, ask=ask), ask, "numnodes", value, within)
    except asked.Refusal as error:
        assert str(error) == shown  # noqa: PT017 (one of several outcomes)
        return
    assert (f"{ask.nodes}-{ask.max_nodes}" if ask.said_nodes else str(ask.nodes)) == shown


@pytest.mark.parametrize(("value", "why"), [("n", ""), ("m", "Invalid node name specified"), ("", "Invalid node name")])
def test_a_job_that_runs_keeps_nodes_of_its_own(value: str, why: str) -> None:
    hardware: Any = type("Hardware", (), {"names": {"n", "m"}})
    within = asked.Around(Site(), hardware, True)
    if not why:
        asked.change(RUNS, replace(PLAIN), "reqnodelist", value, within)
        return
    with pytest.raises(asked.Refusal, match=why):
        asked.change(RUNS, replace(PLAIN), "reqnodelist", value, within)
