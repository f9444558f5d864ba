"""Which pods Koordinator's rules apply to, and names of its quotas."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import pytest

from phalanx.dialects.kube_scheduler.koordinator import kinds

GANG, QUOTA = {"annotations": {kinds.GANG_NAME: "g"}}, {"labels": {kinds.QUOTA_NAME: "q"}}


@pytest.mark.parametrize(
    ("meta", "scheduler", "theirs"),
    [
        ({}, "koord-scheduler", True),
        ({}, "default-scheduler", False),
        (GANG, "default-scheduler", True),
        (QUOTA, "phalanx", True),
        (QUOTA, "volcano", False),
        ({"labels": {"phalanx.dev/job": "j"}}, "koord-scheduler", False),
    ],
)
def test_which_pods_are_theirs(meta: dict[str, Any], scheduler: str, theirs: bool) -> None:
    assert kinds.is_theirs(meta, scheduler) is theirs


def test_names_of_quotas_lead_back() -> None:
    assert kinds.quota_of(kinds.tree_quota("q")) == "q"
    assert kinds.quota_of("q") == ""
    assert kinds.quota_said(kinds.said_quota("ns", "q")) == ("ns", "q")
    assert kinds.quota_said(kinds.said_quota("ns", "")) == ("ns", "")
    assert kinds.quota_said(kinds.tree_quota("q")) is None


def test_bands_of_priorities_are_apart() -> None:
    bands = sorted(kinds.BANDS.values())
    assert all(low <= high < nxt for (low, high), (nxt, _) in pairwise(bands))
