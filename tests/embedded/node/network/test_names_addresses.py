"""Addresses are given to one at a time, and so are whole networks."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from phalanx.embedded.node.network.names import Networks, networks
from phalanx.errors import PhalanxError


def test_an_address_is_given_once() -> None:
    assert Networks(number=3).pod_address(["127.67.0.1"]) == "127.67.0.2"


def test_an_address_that_is_free_again_comes_late() -> None:
    assert Networks(number=0).pod_address([], after="127.64.0.1") == "127.64.0.2"
    assert Networks(number=0).pod_address(["127.64.0.1"], after="127.64.255.254") == "127.64.0.2"


def test_an_address_of_another_network_does_not_count() -> None:
    assert Networks(number=1).pod_address([], after="127.64.0.9") == "127.65.0.1"


def test_a_service_keeps_its_number() -> None:
    assert Networks(number=2).service_address("10.96.3.7") == "127.98.3.7"
    assert [Networks(number=2).service_address(text) for text in ("None", "")] == ["", ""]


@pytest.mark.parametrize("user", [0, 1000])
def test_two_nodes_of_one_machine_have_different_networks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, user: int
) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: user)
    with networks(tmp_path, tmp_path) as one, networks(tmp_path, tmp_path) as two:
        assert one.number != two.number
        first = one.number
    with networks(tmp_path, tmp_path) as again:
        assert again.number == first


def test_no_user_can_take_what_root_claims(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Names in the abstract namespace are anybody's: 32 of them are enough to keep a node from starting."""
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    with networks(tmp_path, tmp_path) as of_user:
        assert of_user.pod_address([]) == f"127.{64 + of_user.number}.0.1"
    assert list(tmp_path.iterdir()) == []
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    with networks(tmp_path, tmp_path) as of_root:
        assert of_root.number == of_user.number + 32
        assert of_root.pod_address([]) == f"127.{96 + of_root.number}.0.1"
        assert of_root.api_address == f"127.{128 + of_root.number}.0.1"
        [claim] = tmp_path.iterdir()
        assert stat.S_IMODE(claim.stat().st_mode) == 0o600


def test_where_root_can_claim_nothing_it_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    refused = pytest.raises(PhalanxError, match="by which a node has its addresses, cannot be opened")
    with refused, networks(tmp_path, tmp_path / "none"):
        pass
