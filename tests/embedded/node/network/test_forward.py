"""`embedded/node/network/forward.py`: serve services with a cluster IP on one machine."""

from __future__ import annotations

import pytest

from phalanx.embedded.node.network import forward
from phalanx.embedded.node.network.forward import Forwarder


def test_one_service_does_not_take_the_connections_of_all(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(forward, "_MOST_OF_ONE", 3)
    forwarder = Forwarder(most=4)
    taken = [forwarder.take(address) for address in ("a", "a", "a", "a", "b", "b", "c", "c")]
    assert taken == [True, True, True, False, True, True, True, False]
    for _ in range(3):
        forwarder.give_back("a")
    assert forwarder.take("c")
