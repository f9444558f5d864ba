"""`apiserver/app.py`: the steps of a request, and what a client gets if one of them fails."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from phalanx.embedded.apimachinery.fair_queue import TooManyRequests
from phalanx.embedded.apimachinery.meta.resource import User
from phalanx.embedded.apiserver import app
from phalanx.embedded.apiserver.auth.authentication import token_of, write_tokens
from phalanx.embedded.apiserver.transport.request import Response
from tests.embedded.apiserver.inprocess import InProcess, Scene, played

SPACE = "/api/v1/namespaces/default"
MAPS, LEASES = f"{SPACE}/configmaps", "/apis/coordination.k8s.io/v1/namespaces/default/leases"
RBAC = "/apis/rbac.authorization.k8s.io/v1"
MERGE, APPLY, JSON_PATCH = (
    f"application/{word}" for word in ("merge-patch+json", "apply-patch+yaml", "json-patch+json")
)


@pytest.fixture(scope="module")
def play(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[[Scene], None]]:
    data = tmp_path_factory.mktemp("api")
    write_tokens(data / "tokens.csv", [("admin", "admin", ("system:masters",)), ("ada", "ada", ())])
    with played(data) as playing:
        yield playing


def as_ada(server: InProcess) -> InProcess:
    return InProcess(server.api, token_of(server.api.settings.tokens, "ada"))


async def grant(server: InProcess, name: str, *rules: dict[str, Any], namespace: str = "default") -> None:
    """Give ada these rights in the namespace; "" for the whole cluster."""
    kind = "Role" if namespace else "ClusterRole"
    space = f"/namespaces/{namespace}" if namespace else ""
    await server.make(f"{RBAC}{space}/{kind.lower()}s", {"metadata": {"name": name}, "rules": list(rules)})
    reference = {"apiGroup": "rbac.authorization.k8s.io", "kind": kind, "name": name}
    subjects = [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "ada"}]
    body = {"metadata": {"name": name}, "roleRef": reference, "subjects": subjects}
    await server.make(f"{RBAC}{space}/{kind.lower()}bindings", body)


def rule(resource: str, *verbs: str, group: str = "", **more: Any) -> dict[str, Any]:
    return {"apiGroups": [group], "resources": [resource], "verbs": list(verbs), **more}


async def answered(server: InProcess, method: str, path: str, **headers: str) -> Response:
    request = server.request(method, path)
    request.headers.update({name.replace("_", "-").encode(): text.encode() for name, text in headers.items()})
    return await server.api(request)


# --- errors -----------------------------------------------------------------------------------------------------------


def test_a_defect_is_answered_by_500_and_harms_no_other_request(
    play: Callable[[Scene], None], monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async def scene(server: InProcess) -> None:
        async def broken(*about: Any) -> Response:
            raise KeyError("spec")

        with monkeypatch.context() as patched:
            patched.setattr(server.api.reader, "show", broken)
            found = await server.ask("GET", MAPS)
        assert found.code == 500
        assert (found.body["reason"], found.body["status"]) == ("InternalError", "Failure")
        assert "spec" not in found.body["message"], "the client gets no details"
        assert f"GET {MAPS}" in caplog.text
        assert "KeyError: 'spec'" in caplog.text
        assert (await server.ask("GET", MAPS)).code == 200

    play(scene)


def test_a_refusal_is_a_status_in_the_form_that_the_client_accepts(play: Callable[[Scene], None]) -> None:
    async def scene(server: InProcess) -> None:
        found = await answered(server, "GET", f"{MAPS}/gone", accept="application/yaml")
        assert (found.code, found.media) == (404, "application/yaml")
        assert b"reason: NotFound\n" in found.body
        found = await answered(server, "GET", f"{MAPS}/gone", accept="text/html")
        assert found.code == 406
        assert json.loads(found.body)["kind"] == "Status", "an error has no other form than JSON then"

    play(scene)


def test_a_wrong_token_is_refused_before_anything_else(play: Callable[[Scene], None]) -> None:
    async def scene(server: InProcess) -> None:
        for path in (MAPS, "/no/such/path", "/healthz"):
            assert (await InProcess(server.api, "wrong").ask("GET", path)).code == 401, path

    play(scene)


def test_rights_are_checked_before_the_path(play: Callable[[Scene], None]) -> None:
    """A user learns nothing of what exists, as from kube-apiserver."""

    async def scene(server: InProcess) -> None:
        ada = as_ada(server)
        for path in (f"{MAPS}/gone", "/api/v1/things", "/apis/batch/v1/namespaces/default/jobs/j/nothing", "/metrics"):
            assert (await ada.ask("GET", path)).code == 403, path
            assert (await answered(server, "GET", path)).code == 404, path

    play(scene)


def test_a_method_that_a_path_does_not_have_is_refused(play: Callable[[Scene], None]) -> None:
    async def scene(server: InProcess) -> None:
        assert (await server.ask("PUT", MAPS, {})).code == 405
        assert (await server.ask("POST", f"{MAPS}/m", {})).code == 405

    play(scene)


def test_a_busy_server_asks_its_users_to_come_again(
    play: Callable[[Scene], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    async def scene(server: InProcess) -> None:
        async def full(payer: str, work: Any) -> Response:
            work.close()
            raise TooManyRequests

        monkeypatch.setattr(server.api._turns, "run", full)
        request = as_ada(server).request("GET", MAPS)
        found = await server.api(request)
        assert (found.code, found.body) == (429, b"Too many requests, please try again later.\n")
        assert found.headers == ((b"retry-after", b"1"),)
        assert (await server.ask("GET", MAPS)).code == 200, "admins and the control plane do not wait in line"

    play(scene)


def test_all_service_accounts_of_a_namespace_wait_in_one_line() -> None:
    """If each account had a turn of its own, a user who may create ServiceAccounts would get more turns than others."""
    names = ("system:serviceaccount:ns:a", "system:serviceaccount:ns:b", "system:serviceaccount:other:a", "ada")
    payers = [app._payer(User(name=name)) for name in names]
    assert payers == ["system:serviceaccount:ns", "system:serviceaccount:ns", "system:serviceaccount:other", "ada"]


def test_each_warning_is_sent_once(play: Callable[[Scene], None]) -> None:
    async def scene(server: InProcess) -> None:
        found = await server.ask("POST", f"{MAPS}?dryRun=All", {"metadata": {"name": "m"}, "colour": 1})
        assert found.code == 201
        assert found.warnings == ('unknown field "colour"',)
        refused = await server.ask("POST", f"{MAPS}?dryRun=All", {"metadata": {"name": "M"}, "colour": 1})
        assert refused.code == 422
        assert refused.warnings == ('unknown field "colour"',), "also with a refusal"

    play(scene)


# --- rights -----------------------------------------------------------------------------------------------------------


def test_a_put_or_apply_that_creates_needs_the_right_to_create(play: Callable[[Scene], None]) -> None:
    async def scene(server: InProcess) -> None:
        await grant(server, "leases", rule("leases", "update", "patch", group="coordination.k8s.io"))
        ada, lease = as_ada(server), {"metadata": {"name": "l"}, "spec": {}}
        named = {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", **lease}
        put = await ada.ask("PUT", f"{LEASES}/l", named)
        applied = await ada.ask("PATCH", f"{LEASES}/l?fieldManager=m", named, APPLY)
        for found in (put, applied):
            assert found.code == 403
            assert 'cannot create resource "leases" in API group "coordination.k8s.io"' in found.body["message"]
        made = await server.make(LEASES, lease)
        named["metadata"] = {"name": "l", "resourceVersion": made["metadata"]["resourceVersion"]}
        assert (await ada.ask("PUT", f"{LEASES}/l", named)).code == 200
        named["metadata"] = {"name": "l"}
        assert (await ada.ask("PATCH", f"{LEASES}/l?fieldManager=m&force=true", named, APPLY)).code == 200

    play(scene)


def test_a_patch_of_a_missing_object_is_not_found_before_its_body_is_read(play: Callable[[Scene], None]) -> None:
    async def scene(server: InProcess) -> None:
        for media in (MERGE, JSON_PATCH):
            assert (await server.ask("PATCH", f"{MAPS}/gone", "no patch", media)).code == 404
        assert (await server.ask("PATCH", f"{MAPS}/gone", {}, "application/json")).code == 415

    play(scene)


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


def test_a_stream_into_a_pod_needs_the_right_to_create_it(play: Callable[[Scene], None]) -> None:
    """A WebSocket begins with GET; kube-apiserver asks for `create` since 1.35."""

    async def scene(server: InProcess) -> None:
        await grant(server, "streams", rule("pods/exec", "get"))
        await server.make(
            f"{SPACE}/pods", {"metadata": {"name": "p"}, "spec": {"containers": [{"name": "c", "image": "i"}]}}
        )
        found = await as_ada(server).ask("GET", f"{SPACE}/pods/p/exec?command=id&stdout=1")
        assert found.code == 403
        assert 'cannot create resource "pods/exec"' in found.body["message"]

    play(scene)


# --- deletions --------------------------------------------------------------------------------------------------------


def test_the_answer_to_a_deletion_is_a_status_or_the_object(play: Callable[[Scene], None]) -> None:
    async def scene(server: InProcess) -> None:
        made = await server.make(MAPS, {"metadata": {"name": "m"}})
        found = await server.ask("DELETE", f"{MAPS}/m")
        assert found.body == {
            "kind": "Status",
            "apiVersion": "v1",
            "metadata": {},
            "status": "Success",
            "details": {"name": "m", "kind": "configmaps", "uid": made["metadata"]["uid"]},
        }
        await server.make(MAPS, {"metadata": {"name": "kept", "finalizers": ["x.org/f"]}})
        waits = await server.ask("DELETE", f"{MAPS}/kept")
        assert waits.body["kind"] == "ConfigMap"
        assert waits.body["metadata"]["deletionTimestamp"]

    play(scene)


def test_a_deleted_collection_is_listed(play: Callable[[Scene], None]) -> None:
    async def scene(server: InProcess) -> None:
        path = "/api/v1/namespaces/team/configmaps"
        for name in ("a", "b", "c"):
            await server.make(path, {"metadata": {"name": name, "labels": {"gone": str(name != "b")}}})
        found = await server.ask("DELETE", f"{path}?labelSelector=gone%3DTrue")
        assert [one["metadata"]["name"] for one in found.body["items"]] == ["a", "c"]
        left = (await server.ask("GET", path)).body["items"]
        assert [one["metadata"]["name"] for one in left] == ["b"]

    play(scene)


def test_after_the_shutdown_all_writes_are_there(tmp_path: Path) -> None:
    async def write(server: InProcess) -> None:
        await server.make(MAPS, {"metadata": {"name": "m"}})

    async def read(server: InProcess) -> None:
        assert (await server.ask("GET", f"{MAPS}/m")).code == 200

    for scene in (write, read):
        with played(tmp_path / "data") as playing:
            playing(scene)
