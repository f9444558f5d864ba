"""Bodies that are wrong are refused with what is wrong in them, and nothing is done."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

from tests.embedded.apiserver.inprocess import Answer, InProcess

PODS = "/api/v1/namespaces/default/pods"
MAPS = "/api/v1/namespaces/default/configmaps"
POD = {"metadata": {"name": "p"}, "spec": {"containers": [{"name": "c", "image": "i"}]}}


def play(tmp_path: Path, scene: Callable[[InProcess], Awaitable[None]]) -> None:
    async def run() -> None:
        async with InProcess.started(tmp_path / "data") as server:
            await scene(server)

    asyncio.run(run())


async def send(server: InProcess, method: str, path: str, body: bytes, media: str = "application/json") -> Answer:
    response = await server.api(server.request(method, path, body, media))
    return Answer(response.code, response.body.decode(), ())


DELETE_BODIES: dict[str, tuple[bytes, str]] = {
    "no JSON": (b"{", "couldn't get version/kind"),
    "no object": (b"[]", "array"),
    "another kind": (b'{"kind": "Pod", "apiVersion": "v1"}', "no kind"),
    "a grace that is text": (b'{"gracePeriodSeconds": "5"}', "into Go struct field DeleteOptions.gracePeriodSeconds"),
    "a grace that is no integer": (b'{"gracePeriodSeconds": 1.5}', "of type int64"),
    "a grace of more than 64 bits": (b'{"gracePeriodSeconds": 99999999999999999999}', "of type int64"),
    "preconditions that are a list": (b'{"preconditions": []}', "Preconditions"),
    "a uid that is a number": (b'{"preconditions": {"uid": 5}}', "of type"),
    "a version that is an object": (b'{"preconditions": {"resourceVersion": {}}}', "of type string"),
    "a rehearsal that is text": (b'{"dryRun": "All"}', "of type []string"),
    "a policy that is a number": (b'{"propagationPolicy": 1}', "of type"),
    "a policy that there is not": (b'{"propagationPolicy": "Never"}', "Unsupported value"),
    "an orphan that is text": (b'{"orphanDependents": "yes"}', "of type bool"),
}


@pytest.mark.parametrize(("body", "why"), DELETE_BODIES.values(), ids=DELETE_BODIES)
def test_a_deletion_that_is_not_understood_deletes_nothing(tmp_path: Path, body: bytes, why: str) -> None:
    async def scene(server: InProcess) -> None:
        await server.make(MAPS, {"metadata": {"name": "m"}})
        for path in (f"{MAPS}/m", MAPS):
            answer = await send(server, "DELETE", path, body)
            assert answer.code in (400, 422)
            assert why in answer.body
        assert (await server.ask("GET", f"{MAPS}/m")).code == 200

    play(tmp_path, scene)


@pytest.mark.parametrize("text", ["x", "1.5", " 1", "1_000", "\u0661", "9" * 30, "9" * 5000])
def test_a_grace_in_the_path_is_an_integer_of_64_bits(tmp_path: Path, text: str) -> None:
    async def scene(server: InProcess) -> None:
        await server.make(MAPS, {"metadata": {"name": "m"}})
        answer = await send(server, "DELETE", f"{MAPS}/m?gracePeriodSeconds={quote(text)}", b"")
        assert answer.code == 400
        assert (await server.ask("GET", f"{MAPS}/m")).code == 200

    play(tmp_path, scene)


def test_a_negative_grace_is_a_second_and_the_longest_ends_with_the_calendar(tmp_path: Path) -> None:
    async def scene(server: InProcess) -> None:
        bound = {**POD, "spec": {**POD["spec"], "nodeName": "n"}}
        for name, grace, expected in (("a", -5, 1), ("b", 2**63 - 1, 2**63 - 1)):
            await server.make(PODS, {**bound, "metadata": {"name": name}})
            answer = await server.ask("DELETE", f"{PODS}/{name}", {"gracePeriodSeconds": grace})
            assert answer.body["metadata"]["deletionGracePeriodSeconds"] == expected
        assert answer.body["metadata"]["deletionTimestamp"] == "9999-12-31T23:59:59Z"

    play(tmp_path, scene)


POD_BODIES: dict[str, tuple[str, Any]] = {
    "metadata of a binding": ("binding", {"metadata": "x", "target": {"name": "n"}}),
    "annotations of a binding": ("binding", {"metadata": {"annotations": [1]}, "target": {"name": "n"}}),
    "target of a binding": ("binding", {"target": "n"}),
    "name of a target": ("binding", {"target": {"name": 5}}),
    "a binding that is a list": ("binding", []),
    "metadata of an eviction": ("eviction", {"metadata": 5}),
    "options of an eviction": ("eviction", {"deleteOptions": {"preconditions": "x"}}),
    "options that are a list": ("eviction", {"deleteOptions": []}),
    "an eviction that is text": ("eviction", "x"),
}


@pytest.mark.parametrize(("subresource", "body"), POD_BODIES.values(), ids=POD_BODIES)
def test_what_is_done_to_pods_has_the_types_of_its_kind(tmp_path: Path, subresource: str, body: Any) -> None:
    async def scene(server: InProcess) -> None:
        await server.make(PODS, POD)
        answer = await server.ask("POST", f"{PODS}/p/{subresource}", body)
        assert answer.code == 400, answer.body
        assert "nodeName" not in (await server.ask("GET", f"{PODS}/p")).body["spec"]

    play(tmp_path, scene)


def test_an_empty_key_is_an_unknown_field_like_any_other(tmp_path: Path) -> None:
    async def scene(server: InProcess) -> None:
        answer = await server.ask("POST", PODS, {**POD, "spec": {**POD["spec"], "securityContext": {"": 1}}})
        assert answer.code == 201
        assert answer.warnings == ('unknown field "spec.securityContext."',)

    play(tmp_path, scene)


BODIES: dict[str, tuple[bytes, str, str]] = {
    "objects within objects": (b'{"a":' * 900 + b"1" + b"}" * 900, "application/json", "exceeded max depth"),
    "brackets for ever": (b"[" * 3_000_000, "application/json", "exceeded max depth"),
    "YAML within YAML": (b"[" * 100_000, "application/yaml", "exceeded max depth"),
    "aliases of aliases": (
        b"a0: &a0 [x, x]\n" + b"".join(b"a%d: &a%d [*a%d, *a%d]\n" % (n, n, n - 1, n - 1) for n in range(1, 60)),
        "application/yaml",
        "document contains excessive aliasing",
    ),
    "an anchor in itself": (b"a: &a [*a]", "application/yaml", "value contains itself"),
    "too many values": (b"a: [" + b"1," * 200_000 + b"]", "application/yaml", "more than 50000 values"),
    "too many values of JSON": (b'{"a": [' + b"1," * 60_000 + b"1]}", "application/json", "more than 50000 values"),
    "a number that is none": (b"a: .nan", "application/yaml", "unsupported value"),
    "a tag that JSON does not have": (b"a: !!set {b}", "application/yaml", "cannot represent set"),
    "a boolean that is none": (b"a: !!bool b", "application/yaml", "(must be of type ConfigMap): yaml: "),
}


@pytest.mark.parametrize(("body", "media", "why"), BODIES.values(), ids=BODIES)
def test_a_body_is_neither_too_deep_nor_much_larger_than_its_text(
    tmp_path: Path, body: bytes, media: str, why: str
) -> None:
    async def scene(server: InProcess) -> None:
        answer = await send(server, "POST", MAPS, body, media)
        assert answer.code == 400
        assert why in answer.body

    play(tmp_path, scene)


def test_a_number_to_the_base_60_is_text(tmp_path: Path) -> None:
    async def scene(server: InProcess) -> None:
        body = b"metadata: {name: m}\ndata: {a: 1:30, b: 1:30.5}"
        assert (await send(server, "POST", MAPS, body, "application/yaml")).code == 201
        assert (await server.ask("GET", f"{MAPS}/m")).body["data"] == {"a": "1:30", "b": "1:30.5"}

    play(tmp_path, scene)


PATCHES: dict[str, tuple[Any, int]] = {
    "a copy of a copy of a copy": (
        [{"op": "add", "path": "/data/x", "value": "x" * 1000}]
        + [{"op": "copy", "from": "/data", "path": f"/data/x{n}"} for n in range(64)],
        413,
    ),
    "an index of no digits": ([{"op": "add", "path": "/metadata/finalizers/\u00b2", "value": "x"}], 422),
    "a path that is a number": ([{"op": "add", "path": 5, "value": "x"}], 400),
    "deeper at every copy": ([{"op": "add", "path": "/data/" + "a/" * 250, "value": "x"}], 422),
}


@pytest.mark.slow
@pytest.mark.parametrize(("patch", "code"), PATCHES.values(), ids=PATCHES)
def test_a_patch_makes_nothing_that_a_body_may_not_be(tmp_path: Path, patch: Any, code: int) -> None:
    async def scene(server: InProcess) -> None:
        made = {"metadata": {"name": "m", "finalizers": ["a.b/c"]}, "data": {"a": "b"}}
        await server.make(MAPS, made)
        assert (await server.ask("PATCH", f"{MAPS}/m", patch, "application/json-patch+json")).code == code

    play(tmp_path, scene)


def test_what_a_patch_copies_are_two_values_and_not_one(tmp_path: Path) -> None:
    async def scene(server: InProcess) -> None:
        template = {"metadata": {"labels": {"a": "b"}}, "spec": {**POD["spec"], "restartPolicy": "Always"}}
        spec = {"selector": {"matchLabels": {"a": "b"}}, "template": template}
        sets = "/apis/apps/v1/namespaces/default/statefulsets"
        await server.make(sets, {"metadata": {"name": "s", "labels": {"a": "b"}}, "spec": spec})
        patch = [{"op": "copy", "from": "/metadata", "path": "/spec/template"}]
        assert (await server.ask("PATCH", f"{sets}/s", patch, "application/json-patch+json")).code == 422

    play(tmp_path, scene)


@pytest.mark.slow
def test_an_object_does_not_grow_beyond_a_request(tmp_path: Path) -> None:
    async def scene(server: InProcess) -> None:
        await server.make("/apis/apiextensions.k8s.io/v1/customresourcedefinitions", FREE)
        things = "/apis/example.com/v1/namespaces/default/things"
        while (await server.api(server.request("GET", things))).code != 200:  # noqa: ASYNC110 -- the server's own task
            await asyncio.sleep(0.001)
        await server.make(things, {"apiVersion": "example.com/v1", "kind": "Thing", "metadata": {"name": "t"}})
        codes = []
        for number in range(3):
            patch = {"spec": {f"x{number}": "x" * 1_500_000}}
            codes.append((await server.ask("PATCH", f"{things}/t", patch, "application/merge-patch+json")).code)
        assert codes == [200, 200, 413]

    play(tmp_path, scene)


FREE = {
    "metadata": {"name": "things.example.com"},
    "spec": {
        "group": "example.com",
        "scope": "Namespaced",
        "names": {"plural": "things", "kind": "Thing"},
        "versions": [
            {
                "name": "v1",
                "served": True,
                "storage": True,
                "schema": {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}},
            }
        ],
    },
}


@pytest.mark.slow
def test_of_a_great_many_mistakes_the_first_are_told(tmp_path: Path) -> None:
    async def scene(server: InProcess) -> None:
        wrong = {"metadata": {"name": "m", "labels": {f"!{number}": "v" for number in range(20_000)}}}
        answer = await server.ask("POST", MAPS, wrong)
        assert answer.code == 422
        assert len(answer.body["details"]["causes"]) == 100
        assert answer.body["message"].endswith("and 19900 more]")
        unknown = {"metadata": {"name": "m"}, **{f"x{number}": 1 for number in range(20_000)}}
        assert len((await server.ask("POST", MAPS, unknown)).warnings) == 100
        twice = (
            b'{"metadata": {"name": "n"}, "data": {'
            + b",".join([b'"k%d": "a", "k%d": "b"' % (n, n) for n in range(200)])
            + b"}}"
        )
        assert len((await server.api(server.request("POST", MAPS, twice))).warnings) == 100

    play(tmp_path, scene)


@pytest.mark.slow
def test_a_number_of_protobuf_has_an_end(tmp_path: Path) -> None:
    async def scene(server: InProcess) -> None:
        answer = await send(server, "POST", PODS, b"k8s\0" + b"\xff" * 3_000_000, "application/vnd.kubernetes.protobuf")
        assert answer.code == 400

    play(tmp_path, scene)
