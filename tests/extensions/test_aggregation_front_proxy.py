"""The user of a request, named by an API server: only a trusted front proxy may name users, and its headers are used
unchanged."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from phalanx.client.connection import ApiUnknown
from phalanx.extensions.aggregation import PAUSE_S, Asker, Belief, read_front_proxy
from tests import clockwork

DATA = {
    "requestheader-client-ca-file": "a certificate",
    "requestheader-allowed-names": '["front-proxy-client"]',
    "requestheader-username-headers": '["X-Remote-User"]',
    "requestheader-uid-headers": '["X-Remote-Uid"]',
    "requestheader-group-headers": '["X-Remote-Group"]',
    "requestheader-extra-headers-prefix": '["X-Remote-Extra-"]',
}


def test_an_api_server_says_for_whom_it_asks() -> None:
    said = [
        ("X-Remote-User", "alice"),
        ("X-Remote-Uid", "7"),
        ("x-remote-group", "dev"),
        ("X-Remote-Group", "system:authenticated"),
        ("X-Remote-Extra-Acme.com%2fscopes", "one"),
        ("X-Remote-Extra-Acme.com%2fscopes", "two"),
        ("Authorization", "Bearer x"),
    ]
    assert read_front_proxy(DATA).asker("front-proxy-client", said) == Asker(
        name="alice",
        uid="7",
        groups=("dev", "system:authenticated"),
        extra=(("acme.com/scopes", ("one", "two")),),
    )


@pytest.mark.parametrize(
    ("common_name", "said"),
    [
        ("kubelet", [("X-Remote-User", "alice")]),
        ("", [("X-Remote-User", "alice")]),
        ("front-proxy-client", []),
        ("front-proxy-client", [("X-Remote-User", "")]),
        ("front-proxy-client", [("X-Remote-Group", "system:masters")]),
    ],
)
def test_who_is_not_believed_or_names_nobody_is_nobody(common_name: str, said: list[tuple[str, str]]) -> None:
    assert read_front_proxy(DATA).asker(common_name, said) is None


def test_without_names_every_certificate_of_the_authority_counts() -> None:
    proxy = read_front_proxy({**DATA, "requestheader-allowed-names": "[]"})
    assert proxy.asker("aggregator", [("X-Remote-User", "bob")]) == Asker(name="bob")


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"requestheader-client-ca-file": ""}, "--requestheader-client-ca-file"),
        ({"requestheader-username-headers": "[]"}, "username-headers is empty"),
        ({"requestheader-allowed-names": "front-proxy"}, "Expecting value"),
        ({"requestheader-group-headers": '{"a": 1}'}, "is not a list of names"),
    ],
)
def test_a_configuration_that_says_nobody_is_refused_with_what_is_wrong(change: dict[str, str], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        read_front_proxy({**DATA, **change})


class Api:
    def __init__(self) -> None:
        self.data: Any = None

    async def get(self, kind: Any, name: str, namespace: str) -> Any:
        if self.data is None:
            raise ApiUnknown("it is away")
        return {"data": self.data}


def test_what_was_read_counts_until_something_else_is_there(caplog: pytest.LogCaptureFixture) -> None:
    api, told = Api(), list[str]()
    belief = Belief(api, told.append)  # type: ignore[arg-type]  # it answers as a connection does

    async def life() -> None:
        keeping = asyncio.ensure_future(belief.keep())
        await asyncio.sleep(3 * PAUSE_S)
        assert "it is away" in belief.wrong()
        api.data = DATA
        await asyncio.sleep(2 * PAUSE_S)
        assert (belief.wrong(), told) == ("", ["a certificate"])
        for broken in (None, {}, {**DATA, "requestheader-allowed-names": "?"}):
            api.data = broken
            await asyncio.sleep(2 * PAUSE_S)
            assert belief.wrong() == ""
            assert belief.proxy == read_front_proxy(DATA)
        api.data = {**DATA, "requestheader-allowed-names": json.dumps(["another"])}
        await asyncio.sleep(2 * PAUSE_S)
        assert belief.proxy is not None
        assert belief.proxy.names == {"another"}
        assert told == ["a certificate"], "the authority is the same"
        keeping.cancel()

    clockwork.run(life())
    assert caplog.text.count("it is away") == 2
