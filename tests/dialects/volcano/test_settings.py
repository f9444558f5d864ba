"""What becomes of each setting of Volcano's configuration."""

from __future__ import annotations

import pytest

from phalanx.dialects.frame.fields import Becomes, Ignored
from phalanx.dialects.volcano.definitions.configuration import Setting
from phalanx.dialects.volcano.settings import SETTINGS, told, use_of

TEXT = """
actions: "enqueue, shuffle, dance"
tiers:
- plugins:
  - name: gang
  - name: capacity
    arguments:
      capacity.ancestorReclaimLevel: 2
"""


@pytest.mark.parametrize(
    ("what", "name", "same"),
    [
        ("action", "preempt", "action preempt"),
        ("argument", "capacity.enableHierarchy", "argument capacity.enableHierarchy"),
        ("argument", "capacity.other", "argument capacity.*"),
        ("argument", "gang.enableJobStarving", "argument *.enable*"),
        ("argument", "sla.enableX", "argument *.enable*"),  # a switch, whatever the plugin's other arguments become
    ],
)
def test_the_most_exact_entry_counts(what: str, name: str, same: str) -> None:
    assert use_of(Setting(what=what, name=name)) is SETTINGS[same]


def test_what_nobody_knows_has_no_use() -> None:
    assert use_of(Setting(what="plugin", name="mine")) is None
    assert use_of(Setting(what="argument", name="gang.size")) is None


def test_every_setting_of_a_text_is_told() -> None:
    found = "\n".join(told(TEXT))
    assert "the action enqueue is used (the cycle): Phalanx always does this" in found
    assert "the action shuffle has no effect: " in found
    assert "the action dance is unknown to Phalanx, and has no effect" in found
    assert "the plugin gang is used (Role.minimum)" in found
    assert "the argument capacity.ancestorReclaimLevel has no effect: " in found


def test_a_text_that_cannot_be_read_counts_as_absent() -> None:
    [line] = told("tiers: [")
    assert line.endswith(": the configuration is ignored")


def test_every_entry_says_something() -> None:
    for use in SETTINGS.values():
        match use:
            case Becomes(field, _):
                assert field
            case Ignored(why):
                assert why
            case _:
                raise AssertionError(use)
