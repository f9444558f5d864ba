"""`machine/settings.py`: the files of a node are below its data directory, and its intervals are the kubelet's."""

from __future__ import annotations

from dataclasses import FrozenInstanceError
from pathlib import Path

import pytest

from phalanx.embedded.node.machine.settings import NodeSettings, Patience, SimulatedSettings


def test_the_files_of_a_node_are_below_its_data_directory() -> None:
    settings = NodeSettings(data_dir=Path("/data"))
    assert settings.pods_dir == Path("/data/pods")
    assert settings.token_file == Path("/data/kubelet.token"), "the API server reads this file"


def test_intervals_are_those_of_a_kubelet() -> None:
    """nodeLeaseDurationSeconds 40, renewed after a quarter of it; nodeStatusReportFrequency 5 min; back-offs 10 s to
    300 s."""
    patience = Patience()
    assert (patience.lease_renew_s, patience.lease_duration_s) == (10.0, 40)
    assert patience.heartbeat_s == 300.0
    assert (patience.backoff_first_s, patience.backoff_most_s) == (10.0, 300.0)


def test_leases_are_renewed_several_times_before_they_expire() -> None:
    simulated = SimulatedSettings()
    for renew_s, duration_s in (
        (Patience().lease_renew_s, Patience().lease_duration_s),
        (simulated.lease_renew_s, simulated.lease_duration_s),
    ):
        assert 3 * renew_s < duration_s


def test_a_node_is_open_to_its_own_machine_only_and_shares_nothing_unless_told() -> None:
    settings = NodeSettings(data_dir=Path("/data"))
    assert settings.address == "127.0.0.1"
    assert not settings.shared
    assert not settings.fenced
    assert settings.max_pods == 110, "the kubelet's --max-pods"


def test_settings_do_not_change() -> None:
    with pytest.raises(FrozenInstanceError):
        NodeSettings(data_dir=Path("/data")).port = 1  # type: ignore[misc]  # that is what is refused
    with pytest.raises(FrozenInstanceError):
        SimulatedSettings().nodes = 1  # type: ignore[misc]  # too
