"""`endpoints/parts/committed.py`: the stored objects, as admission plug-ins read them."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from phalanx.embedded.apiserver.endpoints.parts.committed import Committed
from phalanx.embedded.apiserver.storage.store import encode
from tests.embedded.apiserver.registry.kinds.writes import resource


class _Tally:
    def objects(self, namespace: str) -> Counter[tuple[str, str]]:
        return Counter({("", "pods"): 2}) if namespace == "a" else Counter()

    def size_bytes(self, namespace: str) -> int:
        return 100


class _Store:
    """A store with counts, and with one service that has an address."""

    tally = _Tally()

    def decided(self, key: tuple[str, str], namespace: str | None = None) -> Any:
        return iter(())


def committed() -> Committed:
    store: Any = _Store()
    return Committed(store)


def test_an_object_that_is_stored_with_another_counts_for_quotas_meanwhile() -> None:
    held, secret = committed(), {"kind": "Secret", "metadata": {"name": "s"}}
    with held.counting("a", resource("secrets"), secret):
        found = held.held("a")
        assert found.objects == Counter({("", "pods"): 2, ("", "secrets"): 1})
        assert found.size_bytes == 100 + len(encode(secret))
        assert held.held("b").objects == Counter(), "the other namespace has no more objects"
    assert held.held("a").objects == Counter({("", "pods"): 2})
    assert held.held("a").size_bytes == 100


def test_an_object_stops_counting_if_its_write_fails() -> None:
    held = committed()
    with pytest.raises(RuntimeError), held.counting("a", resource("secrets"), {}):
        raise RuntimeError
    assert held.held("a").objects == Counter({("", "pods"): 2})


def test_addresses_of_services_are_reserved_while_webhooks_are_asked() -> None:
    held, service = committed(), {"spec": {"clusterIP": "10.0.0.1"}}
    equal = {"spec": {"clusterIP": "10.0.0.1"}}
    with held.keeping_addresses(resource("services"), service):
        with held.keeping_addresses(resource("services"), equal), held.keeping_addresses(resource("pods"), {}):
            assert [*held.addressed()] == [service, equal]
        assert len([*held.addressed()]) == 1, "an equal service of another request is not forgotten"
    assert [*held.addressed()] == []
