"""`cli/cluster/live_state/decision.py`: what is not logged while a command reads a cluster's objects."""

from __future__ import annotations

import logging

import pytest

from phalanx.cli.cluster.live_state.decision import without_warnings


def test_only_errors_of_a_logger_are_logged_while_its_warnings_are_off(caplog: pytest.LogCaptureFixture) -> None:
    quiet, other = logging.getLogger("phalanx.kube.quiet"), logging.getLogger("phalanx.client")
    with without_warnings("phalanx.kube"):
        quiet.warning("an invalid object")
        quiet.error("a defect")
        other.warning("a server that is away")
    quiet.warning("afterwards")
    assert caplog.messages == ["a defect", "a server that is away", "afterwards"]
