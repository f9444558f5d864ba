"""`phalanx status`: its lines, also where the user may see little."""

from __future__ import annotations

from typing import Any

import pytest

from phalanx.cli.commands.status.status import _lines


def lines(**changes: Any) -> dict[str, str]:
    found = {
        "server": "https://h", "version": "v1.36.0", "kubeconfig": "config",
        "scheduler": {"holder": "a", "renewed_s_ago": 2.0}, "nodes": {"ready": 3, "not_ready": 0}, "queues": 1,
        "jobs": {"running": 2, "queued": 1},
    }  # fmt: skip
    return {line[:11].strip(): line[11:] for line in _lines(found | changes)}


def test_a_cluster_that_works() -> None:
    assert lines() == {
        "cluster": "https://h, Kubernetes v1.36.0 (config)",
        "scheduler": "a, renewed 2s ago",
        "nodes": "3 ready",
        "queues": "1 queue",
        "jobs": "1 queued, 2 running",
    }


@pytest.mark.parametrize(
    ("what", "value", "told"),
    [
        ("scheduler", None, "no scheduler"),
        ("nodes", None, "you are not"),
        ("nodes", {"ready": 1, "not_ready": 2}, "1 ready, 2 not ready"),
        ("queues", None, "not readable"),
        ("queues", 0, "0 queues"),
        ("jobs", {}, "none"),
    ],
)
def test_what_is_missing_is_said(what: str, value: Any, told: str) -> None:
    assert lines(**{what: value})[what].startswith(told)


def test_a_lease_that_is_not_renewed_is_of_a_scheduler_that_does_not_run() -> None:
    told = lines(scheduler={"holder": "a", "renewed_s_ago": 3600.0})["scheduler"]
    assert "is scheduled" in told
    assert "is scheduled" not in lines()["scheduler"]
