"""`phalanx queue`: specs from options, and the effects of a change on jobs."""

from __future__ import annotations

from enum import StrEnum
from typing import Any, get_args, get_type_hints

import pytest

from phalanx.cli.commands.administer.queue import QueueOptions
from phalanx.cli.submission.queue_spec import differences, require_valid
from phalanx.errors import PhalanxError
from phalanx.model.queue import QueueOrder, QueueState, WithinQueue

SPEC: dict[str, Any] = {
    "gang": True,
    "parent": "lab",
    "quotas": [{"guaranteed": {"cpu": "4"}, "limit": {"cpu": 8}}, {"flavor": "spot", "limit": {"cpu": "2"}}],
}


def test_only_what_is_given_changes() -> None:
    after = QueueOptions(limit=("cpu=6,memory=1Ti",), weight=2.0, strict=False).applied(SPEC)
    assert differences(SPEC, after) == [
        "quotas[all nodes].limit.cpu: 8 -> 6",
        "quotas[all nodes].limit.memory: not set -> 1Ti",
        "strict: not set -> false",
        "weight: not set -> 2.0",
    ]
    assert SPEC["quotas"][0]["limit"] == {"cpu": 8}
    assert QueueOptions().applied(SPEC) == SPEC


def test_settings_of_preemption_stand_beside_those_that_are_there() -> None:
    after = QueueOptions(within="lower").applied({"preemption": {"reclaim": "any"}})
    assert after == {"preemption": {"reclaim": "any", "within": "lower"}}


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        (QueueOptions(limit=("cpu",)), "--limit 'cpu' is not RESOURCE=AMOUNT"),
        (QueueOptions(limit=("cpu=2",)), "the limit is lower than the guarantee (guaranteed is 4)"),
        (QueueOptions(guaranteed=("memory=many",)), "spec.quotas[0].guaranteed.memory"),
        (QueueOptions(parent="research"), "is the queue itself"),
    ],
)
def test_what_no_queue_can_have_is_refused(options: QueueOptions, complaint: str) -> None:
    with pytest.raises(PhalanxError) as error:
        require_valid("research", options.applied(SPEC))
    assert complaint in str(error.value)


@pytest.mark.parametrize(("field", "known"), [("order", QueueOrder), ("state", QueueState), ("within", WithinQueue)])
def test_every_choice_of_the_schema_is_one_of_the_command(field: str, known: type[StrEnum]) -> None:
    said = get_args(get_args(get_type_hints(QueueOptions)[field])[0])
    assert set(said) == {str(one) for one in known}
