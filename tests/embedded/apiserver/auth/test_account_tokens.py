"""Tokens of service accounts: known by the server that made them, until their time or their account ends."""

from __future__ import annotations

import asyncio
import contextlib
import datetime as dt
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Self

import pytest

from phalanx.embedded.apiserver.auth import account_tokens
from tests.embedded.apiserver.inprocess import Answer, InProcess

ACCOUNTS = "/api/v1/namespaces/default/serviceaccounts"
REVIEW = "/apis/authentication.k8s.io/v1/tokenreviews"


class Server:
    """The server in this process, asked one thing after another."""

    def __init__(self, runner: asyncio.Runner, api: InProcess) -> None:
        self._runner, self._api = runner, api

    @classmethod
    @contextlib.contextmanager
    def started(cls, data: Path) -> Iterator[Self]:
        with asyncio.Runner() as runner:
            serving = InProcess.started(data)
            yield cls(runner, runner.run(serving.__aenter__()))
            runner.run(serving.__aexit__(None, None, None))

    def ask(self, method: str, path: str, body: Any = None) -> Answer:
        return self._runner.run(self._api.ask(method, path, body))

    def patch(self, path: str, change: Any) -> Answer:
        return self._runner.run(self._api.ask("PATCH", path, change, "application/merge-patch+json"))

    def request(self, account: str = "robot", **spec: Any) -> Answer:
        return self.ask("POST", f"{ACCOUNTS}/{account}/token", {"spec": spec})

    def token(self, **spec: Any) -> str:
        return str(self.request(**spec).body["status"]["token"])

    def review(self, token: str) -> Any:
        return self.ask("POST", REVIEW, {"spec": {"token": token}}).body["status"]

    def with_token(self, token: str) -> Server:
        return Server(self._runner, InProcess(self._api.api, token))


@pytest.fixture
def api(tmp_path: Path) -> Iterator[Server]:
    with Server.started(tmp_path) as found:
        found.ask("POST", ACCOUNTS, {"metadata": {"name": "robot"}})
        yield found


def test_a_token_is_its_account(api: Server) -> None:
    made = api.request()
    account = api.ask("GET", f"{ACCOUNTS}/robot").body
    assert made.code == 201
    default = {"expirationSeconds": 3600, "audiences": [account_tokens.ISSUER], "boundObjectRef": None}
    assert made.body["spec"] == default
    assert api.review(made.body["status"]["token"]) == {
        "authenticated": True,
        "user": {
            "username": "system:serviceaccount:default:robot",
            "uid": account["metadata"]["uid"],
            "groups": ["system:serviceaccounts", "system:serviceaccounts:default", "system:authenticated"],
        },
        "audiences": [account_tokens.ISSUER],
    }


def test_no_token_lasts_for_a_century(api: Server) -> None:
    made = api.request(expirationSeconds=1 << 32)
    assert (made.code, made.body["spec"]["expirationSeconds"]) == (201, 366 * 24 * 3600)
    assert int(made.body["status"]["expirationTimestamp"][:4]) <= dt.datetime.now(dt.UTC).year + 2


def test_being_known_is_not_being_allowed(api: Server) -> None:
    token = api.token()
    refused = api.with_token(token).ask("GET", "/api/v1/pods")
    assert refused.code == 403
    assert 'User "system:serviceaccount:default:robot" cannot list resource "pods"' in refused.body["message"]


def test_the_key_is_kept_and_private(tmp_path: Path) -> None:
    with Server.started(tmp_path) as api:
        api.ask("POST", ACCOUNTS, {"metadata": {"name": "robot"}})
        token = api.token()
    assert (tmp_path / "pki" / "sa.key").stat().st_mode & 0o777 == 0o600
    with Server.started(tmp_path) as api:
        assert api.review(token)["authenticated"] is True


def test_an_altered_token_is_nobodys(api: Server) -> None:
    head, claims, signature = api.token().split(".")
    for forged in (f"{head}.{claims[:-2]}AA.{signature}", f"{head}.{claims}.", f"{head}.{claims}", "a.b.c", "é.."):
        assert api.review(forged).get("error") == "invalid bearer token"


def test_it_ends_with_its_time(api: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    token = api.token(expirationSeconds=600)
    present_s = account_tokens.time.time()
    monkeypatch.setattr(account_tokens.time, "time", lambda: present_s + 598)
    assert api.review(token)["authenticated"] is True
    monkeypatch.setattr(account_tokens.time, "time", lambda: present_s + 601)
    assert "authenticated" not in api.review(token)


def test_it_ends_with_its_account_even_if_another_takes_the_name(api: Server) -> None:
    token = api.token()
    api.ask("DELETE", f"{ACCOUNTS}/robot")
    api.ask("POST", ACCOUNTS, {"metadata": {"name": "robot"}})
    assert "authenticated" not in api.review(token)


def test_it_ends_with_what_it_is_bound_to(api: Server) -> None:
    secrets = "/api/v1/namespaces/default/secrets"
    api.ask("POST", secrets, {"metadata": {"name": "tied"}})
    token = api.token(boundObjectRef={"kind": "Secret", "name": "tied"})
    assert api.review(token)["authenticated"] is True
    api.ask("DELETE", f"{secrets}/tied")
    assert "authenticated" not in api.review(token)


def test_a_token_for_others_is_not_for_this_server(api: Server) -> None:
    token = api.token(audiences=["vault"])
    assert "authenticated" not in api.review(token)


@pytest.mark.parametrize(
    ("account", "spec", "code", "words"),
    [
        ("nobody", {}, 404, 'serviceaccounts "nobody" not found'),
        ("robot", {"expirationSeconds": 5}, 422, "may not specify a duration less than 10 minutes"),
        ("robot", {"expirationSeconds": 1 << 33}, 422, "may not specify a duration larger than 2^32 seconds"),
        (
            "robot",
            {"boundObjectRef": {"apiVersion": "batch/v1", "kind": "Job", "name": "x"}},
            400,
            "cannot bind token to object of type batch/v1, Kind=Job",
        ),
        ("robot", {"boundObjectRef": {"kind": "Pod", "name": "x"}}, 404, 'pods "x" not found'),
    ],
)
def test_what_no_token_is_made_for(api: Server, account: str, spec: Any, code: int, words: str) -> None:
    refused = api.request(account, **spec)
    assert refused.code == code
    assert words in refused.body["message"]
