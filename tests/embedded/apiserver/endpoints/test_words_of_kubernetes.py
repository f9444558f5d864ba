"""Answers that clients compare with the real server's: what a write ignores, warns of and returns, and paths that are
not served."""

from __future__ import annotations

import asyncio
import copy
import json
from pathlib import Path
from typing import Any

import pytest

from tests.embedded.apiserver.endpoints.test_definitions import DEFINITIONS, conditions, until
from tests.embedded.apiserver.inprocess import InProcess

JOBS = "/apis/batch/v1/namespaces/default/jobs"
PODS = "/api/v1/namespaces/default/pods"
MERGE, STRATEGIC, APPLY = (
    f"application/{form}" for form in ("merge-patch+json", "strategic-merge-patch+json", "apply-patch+yaml")
)
POD: dict[str, Any] = {"metadata": {"name": "p"}, "spec": {"containers": [{"name": "a", "image": "b"}]}}
JOB = {"metadata": {"name": "j"}, "spec": {"template": {"spec": {**POD["spec"], "restartPolicy": "Never"}}}}
ORPHANS = (
    "child pods are preserved by default when jobs are deleted; set propagationPolicy=Background to remove them or set "
    "propagationPolicy=Orphan to suppress this warning"
)


def test_writes(tmp_path: Path) -> None:
    async def scene() -> None:
        async with InProcess.started(tmp_path) as api:
            made = await api.make(PODS, POD)
            for changed in ({"creationTimestamp": "2020-01-01T00:00:00Z"}, {"creationTimestamp": None}):
                answer = await api.ask("PATCH", f"{PODS}/p", {"metadata": changed}, MERGE)
                assert (answer.code, answer.body["metadata"]) == (200, made["metadata"]), "a birth is ignored"
            other = {"metadata": {"uid": "another"}}
            assert (await api.ask("PATCH", f"{PODS}/p", other, MERGE)).code in (409, 422), "an identity is refused"
            warnings = []
            for query in ("", "?propagationPolicy=Orphan", "?propagationPolicy=Background", "?orphanDependents=false"):
                await api.make(JOBS, JOB)
                warnings.append((await api.ask("DELETE", f"{JOBS}/j{query}")).warnings)
                await api.ask("PATCH", f"{JOBS}/j", {"metadata": {"finalizers": None}}, MERGE)
            assert warnings == [(ORPHANS,), (), (), ()]
            assert (await api.ask("DELETE", JOBS)).warnings == (ORPHANS,)
            group = "/apis/scheduling.k8s.io/v1/priorityclasses"
            await api.make(group, {"metadata": {"name": "high"}, "value": 1})
            assert (await api.ask("DELETE", f"{group}/high")).body["kind"] == "Status"

    asyncio.run(scene())


def test_an_apply_of_a_pods_status_finds_who_wrote_it(tmp_path: Path) -> None:
    async def scene() -> None:
        async with InProcess.started(tmp_path) as api:
            await api.make(PODS, POD)
            condition = {"type": "Ok", "status": "True"}
            path = f"{PODS}/p/status?fieldManager="
            await api.ask("PATCH", f"{path}kubelet", {"status": {"conditions": [condition]}}, STRATEGIC)
            applied = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}}
            applied["status"] = {"conditions": [{**condition, "status": "False"}]}
            refused = await api.ask("PATCH", f"{path}me", applied, APPLY)
            assert refused.code == 409
            assert 'conflict with "kubelet" with subresource "status"' in refused.body["message"]
            taken = await api.ask("PATCH", f"{path}me&force=true", applied, APPLY)
            assert {one["manager"] for one in taken.body["metadata"]["managedFields"]} >= {"kubelet", "me"}
            owner = {"apiVersion": "batch/v1", "kind": "Job", "name": "j", "uid": "u", "controller": True}
            of_job = await api.make(PODS, {**POD, "metadata": {"name": "q", "ownerReferences": [owner]}})
            assert "managedFields" not in of_job["metadata"], "pods of controllers are too many"

    asyncio.run(scene())


NOT_FOUND = "the server could not find the requested resource"
NOT_ALLOWED = "the server does not allow this method on the requested resource"


ONLY_GET = ("/api", "/api/v1", "/apis/batch/v1", "/version")
EACH_METHOD = ("/apis", "/apis/batch", "/openapi/v3", "/healthz", "/healthz/ping")
BELOW_WHAT_IS_BUILT_IN = ("/api/v1/pods/p", "/api/v9", "/api/v9/pods", "/apis/batch/v9", "/apis/batch/v9/jobs")
NOTHING = ("/nothing", "/healthz/nothing", "/livez/ping/x", "/apis/nothing.example", "/apis/nothing.example/v1/things")
MEDIA = "application/json, application/yaml, application/vnd.kubernetes.protobuf"


def test_paths_and_forms_that_are_not_served(tmp_path: Path) -> None:
    async def scene() -> None:
        async with InProcess.started(tmp_path) as api:
            for path in ONLY_GET:
                for method in ("POST", "HEAD"):
                    answer = await api.ask(method, path, {})
                    assert (answer.code, answer.body["message"]) == (405, NOT_ALLOWED), path
            for path in EACH_METHOD:
                got, posted = [(await api.api(api.request(method, path))).body for method in ("GET", "POST")]
                assert got == posted
            everywhere = await api.ask("DELETE", "/api/v1/pods")
            assert (everywhere.code, everywhere.body["message"]) == (405, NOT_ALLOWED)
            paths = (await api.ask("GET", "/")).body["paths"]
            assert {"/api/v1", "/apis/batch/v1", "/healthz/ping", "/version"} <= set(paths)
            for path in BELOW_WHAT_IS_BUILT_IN:
                answer = await api.ask("GET", path)
                assert (answer.code, answer.body["kind"], answer.body["message"]) == (404, "Status", NOT_FOUND), path
            for path in NOTHING:
                plain = await api.api(api.request("GET", path))
                assert (plain.code, plain.body) == (404, b"404 page not found\n"), path
            for accept, message in (
                ("application/*", f"406: Not Acceptable\n\nAvailable representations: {MEDIA}"),
                (
                    "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1",
                    "you requested PartialObjectMetadata, but the requested object is a list (*core.PodList)",
                ),
                ("text/html", f"406: Not Acceptable\n\nAvailable representations: {MEDIA}"),
                ("application/json;as=Thing;g=x;v=v1", f"only the following media types are accepted: {MEDIA}"),
            ):
                request = api.request("GET", PODS)
                request.headers[b"accept"] = accept.encode()
                refused = await api.api(request)
                assert (refused.code, json.loads(refused.body)["message"]) == (406, message)

    asyncio.run(scene())


MAPS = "/api/v1/namespaces/default/configmaps"
JSON = "application/json-patch+json"
OPERATIONS = "error decoding patch: json: cannot unmarshal"
WRONG_PATCHES: tuple[tuple[str, Any, int, str], ...] = (
    (JSON, {"op": "add"}, 400, f"{OPERATIONS} object into Go value of type []handlers.jsonPatchOp"),
    (JSON, [1], 400, f"{OPERATIONS} number into Go value of type handlers.jsonPatchOp"),
    (MERGE, [], 400, f"{OPERATIONS} array into Go value of type map[string]interface {{}}"),
    (MERGE, None, 400, "error decoding patch: unexpected end of JSON input"),
    (MERGE, {"metadata": {"resourceVersion": "x"}}, 500, 'strconv.ParseUint: parsing "x": invalid syntax'),
    (STRATEGIC, {"data": {"a": 1}}, 422, '"map[data:map[a:1]]": cannot convert int64 to string'),
    (STRATEGIC, {"data": {"a": True}}, 422, '"map[data:map[a:true]]": unrecognized type: string'),
    (STRATEGIC, {"data": "x"}, 422, '"map[data:x]": cannot restore map from string'),
    (STRATEGIC, {"metadata": {"finalizers": 5}}, 422, "cannot restore slice from int64"),
    (STRATEGIC, {"metadata": "x"}, 422, "cannot restore struct from: string"),
    (STRATEGIC, {"immutable": 1.5}, 422, '"map[immutable:1.5]": unrecognized type: bool'),
    (MERGE, {"apiVersion": "v9"}, 422, 'no kind "ConfigMap" is registered for version "v9"'),
    (
        APPLY,
        ["x"],
        400,
        "error decoding YAML: error unmarshaling JSON: while decoding JSON: json: cannot unmarshal array",
    ),
    (APPLY, None, 400, "invalid object type: /, Kind="),
)


@pytest.mark.parametrize(("media", "patch", "code", "why"), WRONG_PATCHES)
def test_a_wrong_patch_is_refused_in_the_words_of_kubernetes(
    tmp_path: Path, media: str, patch: Any, code: int, why: str
) -> None:
    async def scene() -> None:
        async with InProcess.started(tmp_path) as api:
            await api.make(MAPS, {"metadata": {"name": "m"}, "data": {"a": "b"}})
            answer = await api.ask("PATCH", f"{MAPS}/m?fieldManager=me", patch, media)
            assert answer.code == code
            assert why in answer.body["message"]

    asyncio.run(scene())


def test_a_deleted_collection_has_pages_and_preconditions(tmp_path: Path) -> None:
    async def scene() -> None:
        async with InProcess.started(tmp_path) as api:
            for name in "abc":
                await api.make(MAPS, {"metadata": {"name": name, "labels": {"of": "test"}}})
            mine = f"{MAPS}?labelSelector=of%3Dtest"
            refused = await api.ask("DELETE", mine, {"preconditions": {"uid": "another"}})
            assert (refused.code, len((await api.ask("GET", mine)).body["items"])) == (409, 3)
            page = await api.ask("DELETE", f"{mine}&limit=1")
            assert [one["metadata"]["name"] for one in page.body["items"]] == ["a"]
            assert page.body["metadata"]["continue"]
            assert [one["metadata"]["name"] for one in (await api.ask("GET", mine)).body["items"]] == ["b", "c"]

    asyncio.run(scene())


def test_a_refusal_keeps_the_warnings_of_the_request(tmp_path: Path) -> None:
    async def scene() -> None:
        async with InProcess.started(tmp_path) as api:
            refused = await api.ask("POST", MAPS, {"metadata": {"name": "A"}, "unknown": 1})
            assert (refused.code, refused.warnings) == (422, ('unknown field "unknown"',))
            assert (await api.ask("DELETE", f"{JOBS}/none")).warnings == (ORPHANS,)

    asyncio.run(scene())


CRD = {
    "metadata": {"name": "wids.test.dev"},
    "spec": {
        "group": "test.dev",
        "scope": "Namespaced",
        "names": {"plural": "wids", "kind": "Wid"},
        "versions": [
            {
                "name": "v1",
                "served": True,
                "storage": True,
                "subresources": {"scale": {"specReplicasPath": ".spec.size", "statusReplicasPath": ".status.size"}},
                "schema": {
                    "openAPIV3Schema": {
                        "type": "object",
                        "properties": {
                            "spec": {
                                "type": "object",
                                "properties": {
                                    "size": {"type": "integer"},
                                    "kept": {
                                        "type": "string",
                                        "x-kubernetes-validations": [{"rule": "self == oldSelf", "message": "kept"}],
                                    },
                                    "items": {
                                        "type": "array",
                                        "items": {
                                            "type": "object",
                                            "required": ["k"],
                                            "properties": {"k": {"type": "string"}},
                                        },
                                        "x-kubernetes-list-type": "map",
                                        "x-kubernetes-list-map-keys": ["k"],
                                    },
                                },
                            }
                        },
                    }
                },
            }
        ],
    },
}
WIDS = "/apis/test.dev/v1/namespaces/default/wids"
UNCHECKED = "some validation rules were not checked because the object was invalid"


def test_custom_resources_are_refused_in_the_words_of_kubernetes(tmp_path: Path) -> None:
    def wid(name: str = "w", **spec: Any) -> Any:
        return {"apiVersion": "test.dev/v1", "kind": "Wid", "metadata": {"name": name}, "spec": spec}

    async def scene() -> None:
        async with InProcess.started(tmp_path) as api:
            await api.make(DEFINITIONS, CRD)
            await until(api, DEFINITIONS, lambda event: conditions(event).get("Established") == "True")
            await api.make(WIDS, wid(kept="a"))
            cases = (
                ("POST", WIDS, wid("x", size=1.5), 422, "must be of type integer (default format) in spec.size"),
                ("POST", WIDS, wid("x", items=["a"]), 422, 'spec.items[0]: Invalid value: "a": must be an object'),
                ("POST", WIDS, wid(""), 422, UNCHECKED),
                ("POST", WIDS, {**wid("x"), "kind": "Other"}, 422, 'kind: Invalid value: "Other": must be Wid'),
                ("PATCH", f"{WIDS}/w", {"apiVersion": "test.dev/v9"}, 422, "must be test.dev/v1"),
                ("PATCH", f"{WIDS}/w", {"spec": {"kept": "b"}}, 422, 'spec.kept: Invalid value: "b": kept'),
                ("PATCH", WIDS, {}, 400, "name must be provided"),
                ("GET", f"{WIDS}/w/nothing", None, 404, 'wids.test.dev "w" not found'),
                ("DELETE", f"{WIDS}/w", {"preconditions": {"uid": "x"}}, 409, 'fulfilled on Wid.test.dev "w"'),
            )  # fmt: skip
            for method, path, body, code, why in cases:
                answer = await api.ask(method, path, body, MERGE if method == "PATCH" else "application/json")
                assert (answer.code, why in answer.body["message"]) == (code, True), answer.body
            unset = await api.ask("GET", f"{WIDS}/w/scale")
            assert (unset.code, "does not exist" in unset.body["message"]) == (500, True)
            for size, code in ((-1, 422), (3, 200)):
                scaled = await api.ask("PATCH", f"{WIDS}/w/scale", {"spec": {"replicas": size}}, MERGE)
                assert scaled.code == code, "a write sets replicas that are not there yet"
            assert (await api.ask("GET", f"{WIDS}/w")).body["spec"] == {"kept": "a", "size": 3}
            plain = await api.api(api.request("GET", "/apis/test.dev/v1/nothing"))
            assert (plain.code, plain.body) == (404, b"404 page not found\n")

    asyncio.run(scene())


REVIEWS, DEFAULT = "/apis/authorization.k8s.io/v1/subjectaccessreviews", "/api/v1/namespaces/default"
TOKENS = f"{DEFAULT}/serviceaccounts/robot/token"
CLASSES = "/apis/scheduling.k8s.io/v1/priorityclasses"
SELECTED = {"manualSelector": True, "selector": {"matchExpressions": [{"key": "a", "operator": "Bad"}]}}
NAMED = {"metadata": {"name": "x"}}
NOT_AN_OPERATOR = 'is invalid: spec.selector.matchExpressions[0].operator: Invalid value: "Bad": not a valid'
NOTHING_ASKED = (
    "[spec.resourceAttributes: Invalid value: null: exactly one of nonResourceAttributes or resourceAttributes must be "
    "specified, spec.user: "
)
REFUSED: tuple[tuple[str, str, Any, int, str], ...] = (
    ("POST", MAPS, {"metadata": {"name": "x" * 254}}, 422, "must be no more than 253 characters"),
    ("POST", MAPS, {"metadata": {"name": "x", "labels": {"a": "x" * 64}}}, 422, "no more than 63 bytes"),
    ("POST", "/api/v1/namespaces", {**NAMED, "spec": {"finalizers": ["y"]}}, 422, "neither a standard finalizer name"),
    ("POST", JOBS, {**JOB, "spec": {**JOB["spec"], **SELECTED}}, 422, NOT_AN_OPERATOR),
    ("POST", REVIEWS, {"spec": {}}, 422, NOTHING_ASKED),
    ("POST", REVIEWS, {**NAMED, "spec": {"user": "u", "resourceAttributes": {}}}, 422, "must be empty"),
    ("POST", TOKENS, {"metadata": {"name": "x"}}, 422, "must match the service account name if specified"),
    ("POST", TOKENS, {"spec": {"boundObjectRef": {}}}, 400, "cannot bind token to object of type /, Kind="),
    ("DELETE", f"{CLASSES}/system-node-critical", None, 403, "this is a system priority class and cannot be deleted"),
    ("POST", f"{PODS}/p/binding", {"target": {}}, 400, "name in URL does not match name in Binding object"),
    ("GET", f"{MAPS}?labelSelector=!", None, 400, "found '', expected: identifier"),
    ("GET", f"{MAPS}?labelSelector=a%3D%3D%3Db", None, 400, "found '=', expected: identifier"),
    ("GET", f"{MAPS}?labelSelector=a%20in%20(", None, 400, "found '', expected: ',', ')' or identifier"),
    ("POST", MAPS, {"kind": 5}, 400, "cannot unmarshal number into Go struct field .kind of type string"),
    ("POST", MAPS, {"metadata": []}, 400, "cannot unmarshal array into Go struct field ConfigMap.metadata of type"),
    ("POST", MAPS, None, 400, "unexpected end of JSON input (<empty>)"),
)  # fmt: skip


@pytest.mark.parametrize(("method", "path", "body", "code", "why"), REFUSED)
def test_refusals_have_the_words_of_kubernetes(
    tmp_path: Path, method: str, path: str, body: Any, code: int, why: str
) -> None:
    async def scene() -> None:
        async with InProcess.started(tmp_path) as api:
            await api.make(f"{DEFAULT}/serviceaccounts", {"metadata": {"name": "robot"}})
            await api.make(PODS, POD)
            answer = await api.ask(method, path, body)
            assert (answer.code, why in answer.body["message"]) == (code, True), answer.body


WORDS = {"b": "yes", "float": "1.5", "plain": "a", "quoted": "a: b", "lines": "a\nb", "empty": "", "e": "1e3"}


YAML_LINES = ('b: "yes"', 'float: "1.5"', "plain: a", "quoted: 'a: b'", "lines: |-\n    a", 'empty: ""', 'e: "1e3"')


def test_yaml_is_quoted_as_go_quotes_it(tmp_path: Path) -> None:
    async def scene() -> None:
        async with InProcess.started(tmp_path) as api:
            await api.make(MAPS, {"metadata": {"name": "m"}, "data": WORDS})
            request = api.request("GET", f"{MAPS}/m")
            request.headers[b"accept"] = b"application/yaml"
            text = (await api.api(request)).body.decode()
            for line in YAML_LINES:
                assert line in text

    asyncio.run(scene())


GONE = {"metadata": {"name": "going", "finalizers": ["a.b/c"]}}
ODD_OWNER = {"metadata": {"ownerReferences": [{"apiVersion": "a/b/c", "kind": "Pod", "name": "p", "uid": "u"}]}}
ORDER = {"spec": {"$setElementOrder/containers": [{"name": "d"}], "containers": [{"name": "a", "image": "z"}]}}
REFUSALS: dict[str, tuple[str, str, Any, str, int, str]] = {
    "a name whose object is being deleted": (
        "POST", MAPS, GONE, "", 409, 'object is being deleted: configmaps "going" already exists',
    ),
    "an owner whose apiVersion has three parts": (
        "PATCH", f"{MAPS}/going", ODD_OWNER, MERGE, 422,
        'metadata.ownerReferences.apiVersion: Invalid value: "a/b/c": version must not be empty',
    ),
    "a watch that goes on from a list": (
        "GET", f"{MAPS}?watch=1&continue=x", None, "", 422,
        "resourceVersionMatch: Forbidden: resourceVersionMatch is forbidden when continue is provided",
    ),
    "a watch of one object by its name": ("GET", f"{MAPS}/x?watch=1", None, "", 404, 'configmaps "x" not found'),
    "a log without bytes": (
        "GET", f"{PODS}/none/log?limitBytes=0", None, "", 422, "limitBytes: Invalid value: 0: must be greater than 0",
    ),
    "an order without an item of the patch": (
        "PATCH", f"{PODS}/p", ORDER, STRATEGIC, 500,
        "The order in patch list:\n[map[image:z name:a]]\n doesn't match $setElementOrder list:\n[map[name:d]]\n",
    ),
    "a list among objects": (
        "PATCH", f"{PODS}/p", {"spec": {"tolerations": [{"key": "a"}, [1]]}}, STRATEGIC, 422,
        "cannot restore struct from: slice",
    ),
    "a directive that there is not": (
        "PATCH", f"{PODS}/p", {"spec": {"$patch": "nope"}}, STRATEGIC, 500,
        "unknown patch type: nope in map: map[$patch:nope]",
    ),
}  # fmt: skip


@pytest.mark.parametrize(("method", "path", "body", "media", "code", "message"), REFUSALS.values(), ids=REFUSALS)
def test_refusal_has_the_words_of_kubernetes(
    tmp_path: Path, method: str, path: str, body: Any, media: str, code: int, message: str
) -> None:
    async def scene() -> None:
        async with InProcess.started(tmp_path) as api:
            await api.make(MAPS, GONE)
            await api.make(PODS, POD)
            await api.ask("DELETE", f"{MAPS}/going")
            answer = await api.ask(method, path, body, media or "application/json")
            assert (answer.code, message in answer.body["message"]) == (code, True), answer.body

    asyncio.run(scene())


def test_a_number_that_becomes_true_is_a_change(tmp_path: Path) -> None:
    """In Python `1 == True`, but not in JSON."""
    free = copy.deepcopy(CRD)
    free["spec"]["versions"][0]["schema"]["openAPIV3Schema"] = {
        "type": "object",
        "x-kubernetes-preserve-unknown-fields": True,
    }

    async def scene() -> None:
        async with InProcess.started(tmp_path) as api:
            await api.make(DEFINITIONS, free)
            await until(api, DEFINITIONS, lambda event: conditions(event).get("Established") == "True")
            made = await api.make(
                WIDS, {"apiVersion": "test.dev/v1", "kind": "Wid", "metadata": {"name": "w"}, "one": 1}
            )
            changed = (await api.ask("PATCH", f"{WIDS}/w", {"one": True}, MERGE)).body
            again = (await api.ask("PATCH", f"{WIDS}/w", {"one": True}, MERGE)).body
        assert changed["one"] is True
        versions = [each["metadata"]["resourceVersion"] for each in (made, changed, again)]
        assert versions[0] != versions[1] == versions[2]

    asyncio.run(scene())
