"""What is answered in protobuf: objects, lists, streams and refusals, and which form a request gets."""

from __future__ import annotations

import asyncio
import struct
from pathlib import Path
from typing import Any

import pytest

from phalanx.embedded.apiserver.endpoints import answers
from phalanx.embedded.apiserver.storage.settings import Retention
from phalanx.embedded.apiserver.transport.protobuf import messages, protobuf
from phalanx.embedded.apiserver.transport.request import Response
from tests.embedded.apiserver.inprocess import InProcess

PROTOBUF = "application/vnd.kubernetes.protobuf"
POD = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {"name": "p"},
    "spec": {"containers": [{"name": "c", "image": "host"}]},
}
PODS = "/api/v1/namespaces/default/pods"
WIDGETS = "/apis/example.com/v1/namespaces/default/widgets"
DEFINITION = {
    "apiVersion": "apiextensions.k8s.io/v1",
    "kind": "CustomResourceDefinition",
    "metadata": {"name": "widgets.example.com"},
    "spec": {
        "group": "example.com",
        "scope": "Namespaced",
        "names": {"plural": "widgets", "singular": "widget", "kind": "Widget", "listKind": "WidgetList"},
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


def said(value: Any) -> Any:
    """Return a JSON value without the empty structs that JSON always has."""
    if isinstance(value, list):
        return [said(one) for one in value]
    if not isinstance(value, dict):
        return value
    found = {key: said(one) for key, one in value.items()}
    return {key: one for key, one in found.items() if one not in (None, {}, [])}


async def answered(client: InProcess, path: str, accept: str, method: str = "GET", data: bytes = b"") -> Response:
    raw = client.request(method, path, data, PROTOBUF)
    raw.headers[b"accept"] = accept.encode()
    return await client.api(raw)


async def define(client: InProcess) -> None:
    """Widgets, from the moment that they are served."""
    await client.make("/apis/apiextensions.k8s.io/v1/customresourcedefinitions", DEFINITION)
    while (await client.api(client.request("GET", WIDGETS))).code != 200:  # noqa: ASYNC110 -- the server's own task
        await asyncio.sleep(0.001)


def listed(raw: bytes) -> tuple[str, str, list[Any]]:
    """(apiVersion, kind, items) of a list."""
    envelope = messages.message("Unknown").FromString(raw.removeprefix(protobuf.MAGIC))
    of = messages.message("List").FromString(envelope.raw)
    item_kind = envelope.typeMeta.kind.removesuffix("List")
    api_version = envelope.typeMeta.apiVersion
    items = [protobuf.decode(protobuf.enveloped(api_version, item_kind, one)) for one in of.items]
    assert int(of.metadata.resourceVersion) > 0
    return api_version, envelope.typeMeta.kind, items


def test_what_is_sent_as_protobuf_is_answered_as_protobuf(tmp_path: Path) -> None:
    async def scene() -> None:
        async with InProcess.started(tmp_path) as client:
            made = await answered(client, PODS, PROTOBUF, "POST", protobuf.encode(POD))
            assert (made.code, made.media) == (201, PROTOBUF)
            pod = protobuf.decode(made.body)
            as_json = (await client.ask("GET", f"{PODS}/p")).body
            got = await answered(client, f"{PODS}/p", f"{PROTOBUF},application/json")
            assert protobuf.decode(got.body) == pod
            # Structs that Go always writes to JSON are absent in protobuf.
            assert said(pod) == said(as_json)

    asyncio.run(scene())


@pytest.mark.slow
def test_a_list_in_protobuf_has_all_objects(tmp_path: Path) -> None:
    async def scene() -> None:
        async with InProcess.started(tmp_path) as client:
            for number in range(answers.TURN + 3):
                pod = POD | {"metadata": {"name": f"p{number:04}"}}
                await client.make(PODS, pod)
            answer = await answered(client, PODS, PROTOBUF)
            api_version, kind, items = listed(answer.body)
            assert (answer.code, answer.media, api_version, kind) == (200, PROTOBUF, "v1", "PodList")
            assert [one["metadata"]["name"] for one in items] == [f"p{number:04}" for number in range(answers.TURN + 3)]

    asyncio.run(scene())


def frames(raw: bytes) -> list[tuple[str, Any]]:
    """The events in the bytes of a stream."""
    found = []
    while raw:
        (length,) = struct.unpack(">I", raw[:4])
        event = messages.message("WatchEvent").FromString(raw[4 : 4 + length])
        found.append((event.type, protobuf.decode(event.object.raw)))
        raw = raw[4 + length :]
    return found


def test_a_watch_in_protobuf_is_frames(tmp_path: Path) -> None:
    async def scene() -> None:
        query = "?watch=true&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true"
        async with InProcess.started(tmp_path) as client:
            await client.make(PODS, POD)
            opened = await answered(client, PODS + query, PROTOBUF)
            assert (opened.code, opened.media) == (200, f"{PROTOBUF};stream=watch")
            assert opened.stream is not None
            [(added, pod), (end, bookmark)] = frames(await anext(aiter(opened.stream)))
            assert (added, pod["metadata"]["name"]) == ("ADDED", "p")
            assert (end, bookmark["metadata"]["annotations"]) == ("BOOKMARK", {"k8s.io/initial-events-end": "true"})
            await client.ask("DELETE", f"{PODS}/p")
            *_, (event, gone) = frames(await anext(aiter(opened.stream)))
            assert (event, gone["metadata"]["name"]) == ("DELETED", "p")
            await opened.stream.aclose()

    asyncio.run(scene())


def test_a_watch_from_too_old_a_version_is_told_in_protobuf(tmp_path: Path) -> None:
    async def scene() -> None:
        async with InProcess.started(tmp_path, retention=Retention(events=1)) as client:
            for number in range(9):
                await client.make(PODS, POD | {"metadata": {"name": f"p{number}"}})
            opened = await answered(client, f"{PODS}?watch=true&resourceVersion=1", PROTOBUF)
            assert opened.stream is not None
            [(event, status)] = frames(await anext(aiter(opened.stream)))
            assert (event, status["code"], status["reason"]) == ("ERROR", 410, "Expired")
            await opened.stream.aclose()

    asyncio.run(scene())


def test_refusals_and_discovery_in_protobuf(tmp_path: Path) -> None:
    async def scene() -> None:
        async with InProcess.started(tmp_path) as client:
            missing = await answered(client, f"{PODS}/nobody", PROTOBUF)
            assert (missing.code, missing.media) == (404, PROTOBUF)
            assert protobuf.decode(missing.body)["details"] == {"name": "nobody", "kind": "pods"}
            resources = protobuf.decode((await answered(client, "/apis/batch/v1", PROTOBUF)).body)
            assert resources["kind"] == "APIResourceList"
            assert "cronjobs" in [one["name"] for one in resources["resources"]]

    asyncio.run(scene())


TABLE = "as=Table;v=v1;g=meta.k8s.io"


@pytest.mark.parametrize(
    ("path", "accept", "media"),
    [
        ("pods", f"{PROTOBUF},application/json", PROTOBUF),
        ("pods", f"{PROTOBUF};q=0.5,application/json", "application/json"),
        (
            "pods",
            f"{PROTOBUF};as=Table;v=v1;g=meta.k8s.io,application/json;as=Table;v=v1;g=meta.k8s.io",
            "application/json",
        ),
        ("pods", f"{PROTOBUF};as=PartialObjectMetadataList;g=meta.k8s.io;v=v1", PROTOBUF),
        ("widgets", f"{PROTOBUF};as=PartialObjectMetadataList;g=meta.k8s.io;v=v1", PROTOBUF),
        ("widgets", f"{PROTOBUF},application/json", "application/json"),
        ("widgets", PROTOBUF, "406"),
        ("pods?watch=true", "application/yaml", "406"),
        ("pods?watch=true", f"application/yaml,{PROTOBUF}", f"{PROTOBUF};stream=watch"),
    ],
)
def test_which_form_is_answered(tmp_path: Path, path: str, accept: str, media: str) -> None:
    async def scene() -> None:
        async with InProcess.started(tmp_path) as client:
            await define(client)
            group = "apis/example.com" if path == "widgets" else "api"
            answer = await answered(client, f"/{group}/v1/namespaces/default/{path}", accept)
            assert (str(answer.code) if answer.code == 406 else answer.media) == media
            if answer.stream is not None:
                await answer.stream.aclose()

    asyncio.run(scene())


def test_metadata_of_a_custom_kind_in_protobuf(tmp_path: Path) -> None:
    """As controllers of metadata ask: the garbage collector, kubebuilder's OnlyMetadata."""

    async def scene() -> None:
        form = f"{PROTOBUF};as=PartialObjectMetadata{{}};g=meta.k8s.io;v=v1"
        async with InProcess.started(tmp_path) as client:
            await define(client)
            widget = {"apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": "w"}, "size": 3}
            await client.make(WIDGETS, widget)
            api_version, kind, items = listed((await answered(client, WIDGETS, form.format("List"))).body)
            assert (api_version, kind) == ("meta.k8s.io/v1", "PartialObjectMetadataList")
            assert [(one["metadata"]["name"], "size" in one) for one in items] == [("w", False)]
            one = protobuf.decode((await answered(client, f"{WIDGETS}/w", form.format(""))).body)
            assert (one["kind"], one["metadata"]["name"]) == ("PartialObjectMetadata", "w")

    asyncio.run(scene())
