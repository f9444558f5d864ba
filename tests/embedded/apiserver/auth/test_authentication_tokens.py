"""The user of a request: a token is valid for one server, and a user without a bearer token is anonymous."""

from __future__ import annotations

from typing import Any

import pytest

from tests.embedded.apiserver.process import ServerProcess


@pytest.mark.parametrize(
    ("header", "code"), [("Basic YTpi", 403), ("Bearer", 403), ("Bearer ", 403), ("Bearer wrong", 401)]
)
def test_who_comes_without_a_bearer_token_is_anonymous(api_server: ServerProcess, header: str, code: int) -> None:
    assert api_server.ask("GET", "/api/v1/nodes", token="", headers=(("Authorization", header),)).code == code


TOKENS = "/apis/authentication.k8s.io/v1/tokenreviews"


def test_a_token_is_good_for_this_server_only(api_server: ServerProcess) -> None:
    def reviewed(*audiences: str) -> Any:
        spec = {"token": api_server.token, "audiences": list(audiences)}
        return api_server.ask("POST", TOKENS, {"spec": spec}).body["status"]

    assert reviewed()["authenticated"] is True
    assert reviewed("vault") == {"user": {}, "error": "invalid bearer token"}
