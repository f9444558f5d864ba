"""`storage/settings.py`: a server's files are below its data directory, and its defaults are those of Kubernetes."""

from __future__ import annotations

from dataclasses import FrozenInstanceError, fields
from pathlib import Path

import pytest

from phalanx.embedded.apiserver.storage.settings import Retention, StoreSettings

PATHS = (
    "database",
    "kubeconfig",
    "control_plane_kubeconfig",
    "tokens",
    "kubelet_token",
    "views",
    "lock",
    "pki",
    "account_key",
    "ca_certificate",
)


def test_every_file_is_below_the_data_directory_and_no_two_are_one() -> None:
    settings = StoreSettings(data_dir=Path("/data"))
    paths = [getattr(settings, name) for name in PATHS]
    assert all(path.is_relative_to("/data") and path != Path("/data") for path in paths)
    assert len(set(paths)) == len(paths)
    derived = {name for name, one in vars(StoreSettings).items() if isinstance(one, property)}
    assert derived == set(PATHS), "list the new path in this test, too"


def test_keys_and_certificates_are_in_the_folder_of_the_authority() -> None:
    settings = StoreSettings(data_dir=Path("/data"))
    assert settings.account_key.parent == settings.ca_certificate.parent == settings.pki


def test_a_server_is_reached_from_its_own_machine_only_unless_told() -> None:
    settings = StoreSettings(data_dir=Path("/data"))
    assert (settings.host, settings.port) == ("127.0.0.1", 0)


def test_the_limits_are_those_of_kube_apiserver() -> None:
    """--min-request-timeout is 1800 s, the largest body of a request has 3 MiB, and bookmarks come every minute."""
    settings = StoreSettings(data_dir=Path("/data"))
    assert settings.watch_timeout_s == 1800.0
    assert settings.body_limit_bytes == 3 * 2**20
    assert settings.bookmark_interval_s == 60.0


def test_a_server_that_has_lost_writes_does_not_start_unless_told() -> None:
    assert StoreSettings(data_dir=Path("/data")).accept_loss is False


def test_settings_do_not_change_and_share_nothing() -> None:
    settings = StoreSettings(data_dir=Path("/data"))
    with pytest.raises(FrozenInstanceError):
        settings.port = 1  # type: ignore[misc]  # that is what is refused
    assert settings.retention == Retention()
    assert all(getattr(settings.retention, one.name) > 0 for one in fields(Retention))
