"""`apiserver/app/request_terms.py`: the right that a request needs, and who pays for it."""

from __future__ import annotations

from collections.abc import Callable

from phalanx.embedded.apimachinery.meta.resource import User
from phalanx.embedded.apiserver.app.request_terms import payer_of
from tests.embedded.apiserver.app.ada import SPACE, as_ada, grant, rule
from tests.embedded.apiserver.inprocess import InProcess, Scene


def test_all_service_accounts_of_a_namespace_wait_in_one_line() -> None:
    """If each account had a turn of its own, a user who may create ServiceAccounts would get more turns than others."""
    names = ("system:serviceaccount:ns:a", "system:serviceaccount:ns:b", "system:serviceaccount:other:a", "ada")
    payers = [payer_of(User(name=name)) for name in names]
    assert payers == ["system:serviceaccount:ns", "system:serviceaccount:ns", "system:serviceaccount:other", "ada"]


def test_a_list_by_one_name_needs_the_right_to_that_name_only(play: Callable[[Scene], None]) -> None:
    async def scene(server: InProcess) -> None:
        await grant(server, "one", rule("secrets", "list", "watch", resourceNames=["mine"]))
        await server.make(f"{SPACE}/secrets", {"metadata": {"name": "mine"}})
        await server.make(f"{SPACE}/secrets", {"metadata": {"name": "other"}})
        ada = as_ada(server)
        for selector in ("metadata.name=mine", "metadata.name==mine", "metadata.namespace=default,metadata.name=mine"):
            found = await ada.ask("GET", f"{SPACE}/secrets?fieldSelector={selector.replace('=', '%3D')}")
            assert [one["metadata"]["name"] for one in found.body["items"]] == ["mine"], selector
        for selector in (
            "",
            "metadata.name=other",
            "metadata.name!=mine",
            r"metadata.namespace!=a\,metadata.name\=mine",
            "metadata.name!=x,metadata.namespace=default",
        ):
            found = await ada.ask("GET", f"{SPACE}/secrets?fieldSelector={selector.replace('=', '%3D')}")
            assert found.code == 403, selector

    play(scene)


def test_no_selector_shows_more_than_the_named_object(play: Callable[[Scene], None]) -> None:
    """The right is checked by the text of the selector, so its text must mean the same to the list."""

    async def scene(server: InProcess) -> None:
        ada = as_ada(server)
        for selector in (
            r"metadata.namespace!=a\,metadata.name=mine",
            r"metadata.name=mine\,",
            "metadata.name=mine,metadata.name=other",
        ):
            found = await ada.ask("GET", f"{SPACE}/secrets?fieldSelector={selector.replace('=', '%3D')}")
            assert found.code in (400, 403) or found.body["items"] == [], selector

    play(scene)


def test_roles_of_a_namespace_grant_its_namespace_object(play: Callable[[Scene], None]) -> None:
    async def scene(server: InProcess) -> None:
        for name in ("team", "foreign"):
            await server.make("/api/v1/namespaces", {"metadata": {"name": name}})
        await grant(server, "space", rule("namespaces", "get"), namespace="team")
        ada = as_ada(server)
        assert (await ada.ask("GET", "/api/v1/namespaces/team")).code == 200
        assert (await ada.ask("GET", "/api/v1/namespaces/foreign")).code == 403

    play(scene)
