"""Addresses are given to one at a time, and so are whole networks."""

from __future__ import annotations

from pathlib import Path

from phalanx.embedded.node.network.addresses import Networks, networks


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


def test_two_nodes_of_one_machine_have_different_networks(tmp_path: Path) -> None:
    with networks(tmp_path) as one, networks(tmp_path) as two:
        assert one.number != two.number
        first = one.number
    with networks(tmp_path) as again:
        assert again.number == first
