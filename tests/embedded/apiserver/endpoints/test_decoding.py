"""Bodies and patches that are no object of their kind: the real server's code, message and warnings."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from phalanx.embedded.apiserver.transport.negotiation import decode_yaml
from tests.embedded.apiserver.inprocess import InProcess

pytestmark = pytest.mark.slow  # each test starts an API server; `test_answers_protobuf` and its neighbours are fast

MAPS = "/api/v1/namespaces/default/configmaps"
JOBS = "/apis/batch/v1/namespaces/default/jobs"
JSON = "application/json"
STRATEGIC, MERGE, PATCH = (f"application/{one}+json" for one in ("strategic-merge-patch", "merge-patch", "json-patch"))
APPLY = "application/apply-patch+yaml"
SPEC = {"suspend": True, "template": {"spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "i"}]}}}
UNKNOWN_SCHEME = 'in scheme "pkg/runtime/scheme.go:111"'
KIND_STRUCT = 'struct { APIVersion string "json:\\"apiVersion,omitempty\\""; Kind string "json:\\"kind,omitempty\\"" }'
NO_VERSION = "couldn't get version/kind; json parse error: json: cannot unmarshal"
NOT_MINE = "the object provided is unrecognized (must be of type ConfigMap):"


def play(tmp_path: Path, scene: Callable[[InProcess], Awaitable[None]]) -> None:
    async def run() -> None:
        async with InProcess.started(tmp_path / "data") as server:
            await server.make(MAPS, {"metadata": {"name": "m"}, "data": {"a": "b"}})
            await server.make(JOBS, {"metadata": {"name": "j"}, "spec": SPEC})
            await scene(server)

    asyncio.run(run())


async def ask(server: InProcess, method: str, path: str, body: str, media: str) -> tuple[int, str, tuple[str, ...]]:
    """Return the code of the answer, the message of a refusal, and the warnings."""
    response = await server.api(server.request(method, path, body.encode(), media))
    return response.code, str(json.loads(response.body).get("message", "")), response.warnings


BODIES: dict[str, tuple[str, int, str]] = {
    "null": ("null", 422, 'ConfigMap "" is invalid: metadata.name: Required value: name or generateName is required'),
    "a list": ("[]", 400, f"{NOT_MINE} {NO_VERSION} array into Go value of type {KIND_STRUCT} (5b5d)"),
    "a kind that is a number": (
        '{"kind": 1}', 400,
        f'{NOT_MINE} {NO_VERSION} number into Go struct field .kind of type string ({{"kind": 1}})',
    ),
    "an apiVersion of three parts": (
        '{"apiVersion":"a/b/c"}', 400, f'{NOT_MINE} unexpected GroupVersion string: a/b/c ({{"apiVersion":"a/b/c"}})',
    ),
    "a version without the kind": (
        '{"apiVersion":"v2"}', 400,
        f'ConfigMap in version "v2" cannot be handled as a ConfigMap: no kind "ConfigMap" is registered for version '
        f'"v2" {UNKNOWN_SCHEME}',
    ),
    "metadata that is a list": (
        '{"metadata": []}', 400,
        'ConfigMap in version "v1" cannot be handled as a ConfigMap: json: cannot unmarshal array into Go struct field '
        "ConfigMap.metadata of type v1.ObjectMeta",
    ),
}  # fmt: skip


@pytest.mark.parametrize(("body", "code", "message"), BODIES.values(), ids=BODIES)
def test_body_of_another_type_is_refused(tmp_path: Path, body: str, code: int, message: str) -> None:
    async def scene(server: InProcess) -> None:
        assert (await ask(server, "POST", MAPS, body, JSON))[:2] == (code, message)

    play(tmp_path, scene)


# --- patches that cannot be read ---------------------------------------------------------------------------------

OBJECT = "into Go value of type map[string]interface {}"
DECODING = "error decoding patch: "
ERROR = f"{DECODING}json: cannot unmarshal"
UNREADABLE: dict[str, tuple[str, str, str, str]] = {
    "merge: half an object": (MERGE, "", "{", f"{DECODING}unexpected end of JSON input"),
    "merge: a list": (MERGE, "", "[]", f"{ERROR} array {OBJECT}"),
    "merge: null": (MERGE, "", "null", "Invalid JSON Patch"),
    "strategic: half an object": (STRATEGIC, "", "{", "unexpected end of JSON input"),
    "strategic: a number": (STRATEGIC, "", "1", f"json: cannot unmarshal number {OBJECT}"),
    "JSON: an object": (PATCH, "", "{}", f"{ERROR} object into Go value of type []handlers.jsonPatchOp"),
    "JSON: unchecked": (
        PATCH, "?fieldValidation=Ignore", "{}",
        "json: cannot unmarshal object into Go value of type jsonpatch.Patch",
    ),
    "JSON: a number": (PATCH, "", "[1]", f"{ERROR} number into Go value of type handlers.jsonPatchOp"),
    "JSON: op": (PATCH, "", '[{"op":1}]', f"{ERROR} number into Go struct field jsonPatchOp.op of type string"),
    "apply: a list": (
        APPLY, "?fieldManager=f", "[]",
        f"error decoding YAML: error unmarshaling JSON: while decoding JSON: json: cannot unmarshal array {OBJECT}",
    ),
}  # fmt: skip


@pytest.mark.parametrize(("media", "query", "patch", "message"), UNREADABLE.values(), ids=UNREADABLE)
def test_unreadable_patch_is_refused(tmp_path: Path, media: str, query: str, patch: str, message: str) -> None:
    async def scene(server: InProcess) -> None:
        assert (await ask(server, "PATCH", f"{MAPS}/m{query}", patch, media))[:2] == (400, message)
        if media != APPLY:
            code, why, _ = await ask(server, "PATCH", f"{MAPS}/other{query}", patch, media)
            assert (code, why) == (404, 'configmaps "other" not found'), "the object is read before the patch"

    play(tmp_path, scene)


@pytest.mark.parametrize("media", [STRATEGIC, PATCH])
def test_null_is_a_patch_without_changes(tmp_path: Path, media: str) -> None:
    async def scene(server: InProcess) -> None:
        assert (await ask(server, "PATCH", f"{MAPS}/m", "null", media))[0] == 200

    play(tmp_path, scene)


# --- patches whose result is no object of the kind ---------------------------------------------------------------

CONVERTED: dict[str, tuple[str, str, str]] = {
    "a number for a string": ('{"metadata":{"name":5}}', "map[metadata:map[name:5]]", "cannot convert int64 to string"),
    "a boolean for a string": (
        '{"metadata":{"labels":{"a":null,"b":true}}}', "map[metadata:map[labels:map[a:<nil> b:true]]]",
        "unrecognized type: string",
    ),
    "a list for an object": ('{"spec":[]}', "map[spec:[]]", "cannot restore struct from: slice"),
    "a string for a map": (
        '{"metadata":{"labels":"x"}}', "map[metadata:map[labels:x]]", "cannot restore map from string",
    ),
    "a string for a list": (
        '{"metadata":{"finalizers":"x"}}', "map[metadata:map[finalizers:x]]", "cannot restore slice from string",
    ),
    "a string for a number": (
        '{"spec":{"parallelism":"x"}}', "map[spec:map[parallelism:x]]", "unrecognized type: int32",
    ),
    "a fraction": ('{"spec":{"parallelism":1.5}}', "map[spec:map[parallelism:1.5]]", "cannot convert float64 to int32"),
    "a number for a time": (
        '{"status":{"startTime":5}}', "map[status:map[startTime:5]]",
        "json: cannot unmarshal number into Go value of type string",
    ),
    "a kind that is a number": ('{"kind":1}', "map[kind:1]", "cannot convert int64 to string"),
}  # fmt: skip


@pytest.mark.parametrize(("patch", "quoted", "why"), CONVERTED.values(), ids=CONVERTED)
def test_strategic_patch_is_quoted_as_go_prints_it(tmp_path: Path, patch: str, quoted: str, why: str) -> None:
    async def scene(server: InProcess) -> None:
        code, message, _ = await ask(server, "PATCH", f"{JOBS}/j", patch, STRATEGIC)
        assert (code, message) == (422, f' "" is invalid: patch: Invalid value: "{quoted}": {why}')

    play(tmp_path, scene)


@pytest.mark.parametrize(("media", "code"), [(STRATEGIC, 422), (APPLY, 500)])
def test_data_that_is_not_base64_is_named_by_the_converter(tmp_path: Path, media: str, code: int) -> None:
    async def scene(server: InProcess) -> None:
        patch = '{"kind":"ConfigMap","apiVersion":"v1","metadata":{"name":"m"},"binaryData":{"x":"a b"}}'
        found, message, _ = await ask(server, "PATCH", f"{MAPS}/m?fieldManager=f", patch, media)
        assert found == code
        assert message.endswith(": error decoding from json: illegal base64 data at input byte 1")

    play(tmp_path, scene)


def test_the_quoted_object_has_its_maps_sorted(tmp_path: Path) -> None:
    async def scene(server: InProcess) -> None:
        made = {"metadata": {"name": "s", "labels": {"z": "1", "a": "2"}}, "data": {"z": "1", "a": "2"}}
        await server.make(MAPS, made)
        _, message, _ = await ask(server, "PATCH", f"{MAPS}/s?fieldValidation=Strict", '{"foo":1}', MERGE)
        quoted = message.replace('\\"', '"')
        assert '"data":{"a":"2","z":"1"}' in quoted
        assert '"labels":{"a":"2","z":"1"}' in quoted

    play(tmp_path, scene)


def test_strategic_patch_cannot_change_the_kind(tmp_path: Path) -> None:
    async def scene(server: InProcess) -> None:
        for patch in ('{"kind":"Secret"}', '{"apiVersion":"v3"}', '{"apiVersion":"a/b/c"}'):
            answer = await server.api(server.request("PATCH", f"{MAPS}/m", patch.encode(), STRATEGIC))
            assert (answer.code, answer.body.startswith(b'{"kind":"ConfigMap","apiVersion":"v1"')) == (200, True)

    play(tmp_path, scene)


NOT_A_MAP: dict[str, tuple[str, str, str, str]] = {
    "a kind that every version has": (
        MERGE, '{"kind":"Status","apiVersion":"apps/v1"}', '"kind":"Status"',
        "converting (v1.Status) to (core.ConfigMap): unknown conversion",
    ),
    "another kind": (
        MERGE, '{"kind":"Secret"}', '"kind":"Secret"',
        "converting (v1.Secret) to (core.ConfigMap): unknown conversion",
    ),
    "another version": (
        PATCH, '[{"op":"replace","path":"/apiVersion","value":"v2"}]', '{"apiVersion":"v2","data":{"a":"b"}',
        f'no kind "ConfigMap" is registered for version "v2" {UNKNOWN_SCHEME}',
    ),
    "another type": (
        MERGE, '{"data":{"z":1}}', '"data":{"a":"b","z":1},"kind":"ConfigMap","metadata":{"name":"m","namespace":',
        "json: cannot unmarshal number into Go struct field ConfigMap.data of type string",
    ),
}  # fmt: skip


@pytest.mark.parametrize(("media", "patch", "quoted", "why"), NOT_A_MAP.values(), ids=NOT_A_MAP)
def test_patched_object_of_another_type_is_quoted(
    tmp_path: Path, media: str, patch: str, quoted: str, why: str
) -> None:
    async def scene(server: InProcess) -> None:
        code, message, _ = await ask(server, "PATCH", f"{MAPS}/m", patch, media)
        assert code == 422
        assert message.startswith(' "" is invalid: patch: Invalid value: "{')
        assert quoted in message.replace('\\"', '"')
        assert message.endswith(f'": {why}')

    play(tmp_path, scene)


def test_resource_version_of_a_patch_is_a_number(tmp_path: Path) -> None:
    async def scene(server: InProcess) -> None:
        for media in (MERGE, STRATEGIC):
            patch = '{"metadata":{"resourceVersion":"x"}}'
            code, message, _ = await ask(server, "PATCH", f"{MAPS}/m", patch, media)
            assert (code, message) == (500, 'strconv.ParseUint: parsing "x": invalid syntax')

    play(tmp_path, scene)


# --- warnings ----------------------------------------------------------------------------------------------------

WARNED: dict[str, tuple[str, str, str, str, int, str]] = {
    "a new object without a name": ("POST", MAPS, JSON, '{"foo":1}', 422, 'unknown field "foo"'),
    "an object of another name": ("PUT", f"{MAPS}/m", JSON, '{"metadata":{"name":"x","name":"y"}}', 400,
                                  'duplicate field "metadata.name"'),
    "an object that is not found": ("PUT", f"{MAPS}/x", JSON, '{"metadata":{"name":"x"},"foo":1}', 404,
                                    'unknown field "foo"'),
    "an object that exists": ("POST", MAPS, JSON, '{"metadata":{"name":"m"},"foo":1}', 409, 'unknown field "foo"'),
    "a merge patch of the name": ("PATCH", f"{MAPS}/m", MERGE, '{"metadata":{"name":"x"},"foo":1}', 400,
                                  'unknown field "foo"'),
    "a strategic patch of the name": ("PATCH", f"{MAPS}/m", STRATEGIC, '{"metadata":{"name":"x"},"foo":1}', 400,
                                      'unknown field "foo"'),
    "an operation with another field": ("PATCH", f"{MAPS}/m", PATCH,
                                        '[{"op":"add","path":"/data/b","value":"c","foo":1}]', 200,
                                        'json patch unknown field "[0].foo"'),
    "an operation twice": ("PATCH", f"{MAPS}/m", PATCH, '[{"op":"add","op":"add","path":"/data/b","value":"c"}]', 200,
                           'json patch duplicate field "[0].op"'),
}  # fmt: skip


@pytest.mark.parametrize(("method", "path", "media", "body", "code", "warning"), WARNED.values(), ids=WARNED)
def test_refused_write_carries_its_warnings(
    tmp_path: Path, method: str, path: str, media: str, body: str, code: int, warning: str
) -> None:
    async def scene(server: InProcess) -> None:
        answer = await ask(server, method, path, body, media)
        assert (answer[0], answer[2]) == (code, (warning,))

    play(tmp_path, scene)


APPLIED: dict[str, tuple[str, int, str]] = {
    "a number for a string": (
        '{"data":{"a":[1,{"b":"c"}]}}', 500,
        "failed to create typed patch object (/m; /v1, Kind=ConfigMap): .data.a: expected string, got "
        '&value.valueUnstructured{Value:[]interface {}{1, map[string]interface {}{"b":"c"}}}',
    ),
    "a string for a boolean": (
        '{"immutable":"x"}', 500,
        "failed to create typed patch object (/m; /v1, Kind=ConfigMap): .immutable: expected boolean, got &{x}",
    ),
    "a list item without its key": (
        '{"metadata":{"name":"m","ownerReferences":[{"name":"a","kind":"b","apiVersion":"c"}]}}', 422,
        'ConfigMap "m" is invalid: metadata.ownerReferences.uid: Invalid value: "": must not be empty',
    ),
    "a time that is none": (
        '{"metadata":{"name":"m","creationTimestamp":"x"}}', 500,
        "failed to convert new object (/m; /v1, Kind=ConfigMap) to proper version: unable to convert unstructured "
        'object to /v1, Kind=ConfigMap: parsing time "x" as "2006-01-02T15:04:05Z07:00": cannot parse "x" as "2006"',
    ),
    "an apiVersion of three parts": ('{"apiVersion":"a/b/c"}', 400, "invalid object type: /, Kind="),
    "a kind that is a number": ('{"kind":1}', 400, "invalid object type: /v1, Kind="),
}  # fmt: skip


@pytest.mark.parametrize(("fields", "code", "message"), APPLIED.values(), ids=APPLIED)
def test_wrong_configuration_is_refused(tmp_path: Path, fields: str, code: int, message: str) -> None:
    async def scene(server: InProcess) -> None:
        config = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "m"}} | json.loads(fields)
        answer = await ask(server, "PATCH", f"{MAPS}/m?fieldManager=f", json.dumps(config), APPLY)
        assert answer[:2] == (code, message)

    play(tmp_path, scene)


def test_generate_name_is_checked_in_a_patch(tmp_path: Path) -> None:
    async def scene(server: InProcess) -> None:
        code, message, _ = await ask(server, "PATCH", f"{MAPS}/m", '{"metadata":{"generateName":"Bad_"}}', MERGE)
        assert (code, message[:58]) == (422, 'ConfigMap "m" is invalid: metadata.generateName: Invalid v')

    play(tmp_path, scene)


YAML_VALUES: dict[str, Any] = {
    **dict.fromkeys(("y", "Y", "yes", "True", "ON"), True),
    **dict.fromkeys(("n", "N", "No", "false", "off"), False),
    "~": None,
    "yy": "yy",
    "'y'": "y",
    "tRue": "tRue",
    "0x10": 16,
    "010": 8,
    "0o17": 15,
    "-0b11": -3,
    "1_000": 1000,
    "1e3": 1000,
    "09": 9,
    "1.": 1,
    ".5": 0.5,
    "-1.5": -1.5,
    "1:30": "1:30",
    "2024-01-01": "2024-01-01",
    "2024-01-01T00:00:00Z": "2024-01-01T00:00:00Z",
    "1e400": "1e400",
    "0x": "0x",
}


@pytest.mark.parametrize(("text", "value"), YAML_VALUES.items())
def test_yaml_means_what_go_yaml_reads(text: str, value: Any) -> None:
    found = decode_yaml(f"a: {text}".encode())["a"]
    assert (found, type(found)) == (value, type(value))


@pytest.mark.parametrize("version", ["v1", "v1beta1"])
def test_tables_and_metadata_come_in_the_version_that_is_asked_for(tmp_path: Path, version: str) -> None:
    async def scene(server: InProcess) -> None:
        async def shown(path: str, kind: str) -> Any:
            request = server.request("GET", path)
            request.headers[b"accept"] = f"application/json;as={kind};v={version};g=meta.k8s.io".encode()
            return json.loads((await server.api(request)).body)

        listed = await shown(MAPS, "Table")
        assert listed["apiVersion"] == listed["rows"][0]["object"]["apiVersion"] == f"meta.k8s.io/{version}"
        assert (await shown(f"{MAPS}/m", "PartialObjectMetadata"))["apiVersion"] == f"meta.k8s.io/{version}"
        partial = await shown(MAPS, "PartialObjectMetadataList")
        assert partial["apiVersion"] == partial["items"][0]["apiVersion"] == f"meta.k8s.io/{version}"

    play(tmp_path, scene)
