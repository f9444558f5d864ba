"""`dialects/schema/fields.py`: reads a mapping from a user strictly."""

from __future__ import annotations

from typing import Any

import pytest

from phalanx.dialects.schema.fields import Misread
from phalanx.dialects.schema.queue import read_queue


@pytest.mark.parametrize(
    ("spec", "complaint"),
    [
        ({"wieght": 2}, "spec.wieght: there is no such field; did you mean weight?"),
        ({"parent": "q"}, "spec.parent: 'q' is the queue itself; name another queue, or leave the field out"),
        ({"weight": -1}, "spec.weight: -1 is not a number of at least 0"),
        ({"weight": float("nan")}, "spec.weight: nan is not a number of at least 0"),
        ({"strict": "yes"}, "spec.strict: 'yes' must be true or false"),
        ({"order": "random"}, "spec.order: 'random' is not one of priority, fifo, fair, tiered, fill, multifactor"),
        ({"priority": 2**40}, "spec.priority: 1099511627776 is not a whole number from -2147483648 to 2147483647"),
        (
            {"limits": {"perJob": {"running": 2}}},
            "spec.limits.perJob.running: this limit cannot apply to a single job",
        ),
        ({"quotas": {}}, "spec.quotas: {} is not a list"),
        (
            {"quotas": [{"guaranteed": {"cpu": "-1"}}]},
            "spec.quotas[0].guaranteed.cpu: '-1' is negative",
        ),
        (
            {"quotas": [{"guaranteed": {"cpu": "two"}}]},
            "spec.quotas[0].guaranteed.cpu: 'two' is not a quantity; write for instance 500m, 2 or 1.5Gi",
        ),
        (
            {"quotas": [{"guaranteed": {"cpu": "1E"}}]},
            "spec.quotas[0].guaranteed.cpu: '1E' is more than any cluster has",
        ),
        (
            {"quotas": [{"guaranteed": {"cpu": 4}, "limit": {"cpu": "3"}}]},
            "spec.quotas[0].limit.cpu: the limit is lower than the guarantee (guaranteed is 4)",
        ),
        (
            {"quotas": [{"lend": {"cpu": "3"}}]},
            "spec.quotas[0].lend.cpu: it is more than the guarantee (0)",
        ),
        (
            {"quotas": [{"flavor": "a"}, {"flavor": "a"}]},
            "spec.quotas[1]: there is already a quota for the flavor a; combine both into one",
        ),
        (
            {"preemption": {"minRun": "soon"}},
            "spec.preemption.minRun: 'soon' is not a length of time; write seconds (90) or for instance 90s, 15m, "
            "1h30m, 2d",
        ),
        ({"preemption": {"minRun": -1}}, "spec.preemption.minRun: -1 is not from 0 s to a hundred years; write"),
        ({"limits": {"perUsers": {}}}, "spec.limits.perUsers: there is no such field; did you mean perUser?"),
        ({"limits": {"perUser": {"running": -1}}}, "spec.limits.perUser.running: -1 is not a whole number from 0 to"),
        ([], "spec: [] is not a mapping of names to values"),
    ],
)
def test_what_cannot_be_says_where_and_what_is_allowed(spec: Any, complaint: str) -> None:
    with pytest.raises(Misread) as raised:
        read_queue("q", spec)
    assert str(raised.value).startswith(complaint)
