"""Triggers: what counts as having happened between two looks at the nodes."""

from __future__ import annotations

import pytest

from phalanx.slurm.commands.cluster.strigger import Trigger, changed, run
from phalanx.slurm.options import Usage

UP = {"n1": "up", "n2": "up", "n3": "up"}


def trigger(event: str, about: str = "*") -> Trigger:
    return Trigger(id=1, event=event, about=about, offset_s=0, program="/bin/true", user="ada")


def test_a_node_trigger_looks_at_what_has_changed() -> None:
    down = {**UP, "n1": "down", "n3": "down"}
    assert changed(trigger("down"), None, down) == ""
    assert changed(trigger("down"), UP, down) == "n[1,3]"
    assert changed(trigger("down", "n[2-3]"), UP, down) == "n3"
    assert changed(trigger("down"), down, down) == ""
    assert changed(trigger("up"), down, UP) == "n[1,3]"
    assert changed(trigger("drained"), UP, {**UP, "n2": "drained"}) == "n2"
    assert changed(trigger("down"), UP, {**UP, "n4": "down"}) == ""


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("", "exactly one of the following options"),
        ("--set --get", "exactly one of the following options"),
        ("--set -p /bin/true", "You must specify a trigger"),
        ("--set --fini -j 1", "You must specify a --program value"),
        ("--set --fini -j 1 -p /no/such", "Invalid --program value, file not found"),
        ("--clear", "You must specify a --id, --jobid, or --user to clear"),
        ("--set --reconfig -p /bin/true", "--reconfig is not supported by Phalanx"),
    ],
)
def test_what_it_refuses(line: str, said: str) -> None:
    with pytest.raises(Usage) as error:
        run(line.split())
    assert said in error.value.text
