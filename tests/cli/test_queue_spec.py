"""`cli/submission/queue_spec.py`: the spec of a queue, made or changed by the options of a command line."""

from __future__ import annotations

from phalanx.cli.commands.administer.queue import QueueOptions
from phalanx.cli.submission.queue_spec import differences
from tests.cli.test_queue import SPEC


def test_an_empty_amount_or_parent_takes_the_setting_away() -> None:
    after = QueueOptions(parent="", limit=("cpu=",), flavor="spot").applied(SPEC)
    assert differences(SPEC, after) == ["parent: lab -> not set", "quotas[spot].limit.cpu: 2 -> not set"]
    assert len(after["quotas"]) == 1
