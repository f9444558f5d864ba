"""What each patch type makes of an object: before, patch, after."""

from __future__ import annotations

import copy
from typing import Any

import pytest
import yaml

from phalanx.embedded.apimachinery.meta.status import StatusError
from phalanx.embedded.apimachinery.patch.patch import (
    JSON_PATCH,
    MERGE_PATCH,
    STRATEGIC_MERGE_PATCH,
    apply_patch,
)

POD, CONFIG_MAP = "io.k8s.api.core.v1.Pod", "io.k8s.api.core.v1.ConfigMap"


def patched(media_type: str, before: str, patch: str, kind: str | None = POD) -> Any:
    current = yaml.safe_load(before)
    kept = copy.deepcopy(current)
    result = apply_patch(media_type, current, yaml.safe_load(patch), kind)
    assert current == kept, "a patch must not change what it was given"
    return result


def refusal(media_type: str, before: str, patch: str, kind: str | None = POD) -> dict[str, Any]:
    with pytest.raises(StatusError) as caught:
        patched(media_type, before, patch, kind)
    return caught.value.status()


JSON_PATCHES = {
    "operations are applied in order": (
        "{data: {k: v}, metadata: {labels: {x: '1'}}}",
        """
        - {op: test, path: /data/k, value: v}
        - {op: replace, path: /data/k, value: w}
        - {op: add, path: /data/n, value: new}
        - {op: remove, path: /metadata/labels/x}
        """,
        "{data: {k: w, n: new}, metadata: {labels: {}}}",
    ),
    "copy and move": (
        "{data: {k: w, n: new}}",
        "[{op: copy, from: /data/n, path: /data/m}, {op: move, from: /data/k, path: /data/z}]",
        "{data: {m: new, n: new, z: w}}",
    ),
    "a slash in a key is ~1": ("{l: {a/b: 1}}", "[{op: replace, path: /l/a~1b, value: 2}]", "{l: {a/b: 2}}"),
    "replace creates a missing field": ("{data: {}}", "[{op: replace, path: /data/k, value: w}]", "{data: {k: w}}"),
    "test with null passes on a missing field": (
        "{data: {}}",
        "[{op: test, path: /data/k, value: null}]",
        "{data: {}}",
    ),
    "a dash appends, an index inserts": (
        "{l: [a, b]}",
        "[{op: add, path: /l/-, value: c}, {op: add, path: /l/1, value: x}]",
        "{l: [a, x, b, c]}",
    ),
    "the index after the last item appends": (
        "{l: [a], e: []}",
        "[{op: add, path: /l/1, value: b}, {op: add, path: /e/0, value: x}]",
        "{l: [a, b], e: [x]}",
    ),
    "an index removes; a negative one counts from the end": (
        "{l: [a, b, c]}",
        "[{op: remove, path: /l/0}, {op: remove, path: /l/-1}]",
        "{l: [b]}",
    ),
    "no operation": ("{data: {k: v}}", "[]", "{data: {k: v}}"),
}


@pytest.mark.parametrize(("before", "patch", "after"), JSON_PATCHES.values(), ids=JSON_PATCHES)
def test_json_patch(before: str, patch: str, after: str) -> None:
    assert patched(JSON_PATCH, before, patch) == yaml.safe_load(after)


@pytest.mark.parametrize(
    "operation",
    [
        "{op: test, path: /data/k, value: w}",
        "{op: test, path: /n, value: true}",
        "{op: remove, path: /data/none}",
        "{op: add, path: /none/k, value: 1}",
        "{op: replace, path: /none/k, value: 1}",
        "{op: add, path: /l/2, value: 1}",
        "{op: add, path: /l/-/k, value: 1}",
        "{op: move, from: /data/none, path: /data/x}",
        "{op: shuffle, path: /data/k}",
        "{op: add}",
        "{op: add, path: data, value: 1}",
    ],
)
def test_an_operation_that_does_not_apply_is_422_without_details(operation: str) -> None:
    assert refusal(JSON_PATCH, "{data: {k: v}, l: [a], n: 1}", f"[{operation}]") == {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Failure",
        "message": "the server rejected our request due to an error in our request",
        "reason": "Invalid",
        "details": {},
        "code": 422,
    }


def test_a_json_patch_that_is_no_list_is_400() -> None:
    assert refusal(JSON_PATCH, "{}", "{data: {}}")["code"] == 400


MERGE_PATCHES = {
    "objects merge": ("{data: {a: 1, b: 2}}", "{data: {b: 3, c: 4}}", "{data: {a: 1, b: 3, c: 4}}"),
    "null removes": ("{data: {a: 1, b: 2}}", "{data: {a: null}}", "{data: {b: 2}}"),
    "lists are replaced": ("{l: [{name: a}, {name: b}]}", "{l: [{name: c}]}", "{l: [{name: c}]}"),
    "a scalar gives way to an object, whose nulls vanish": ("{a: 1}", "{a: {b: {c: null, d: 1}}}", "{a: {b: {d: 1}}}"),
}


@pytest.mark.parametrize(("before", "patch", "after"), MERGE_PATCHES.values(), ids=MERGE_PATCHES)
def test_merge_patch(before: str, patch: str, after: str) -> None:
    assert patched(MERGE_PATCH, before, patch) == yaml.safe_load(after)


STRATEGIC_PATCHES = {
    "containers are found by name": (
        "{spec: {containers: [{name: a, image: i}, {name: b, image: i}]}}",
        "{spec: {containers: [{name: b, image: i2}]}}",
        "{spec: {containers: [{name: a, image: i}, {name: b, image: i2}]}}",
    ),
    "conditions are found by type; null removes below them": (
        "{status: {conditions: [{type: Ready, status: 'False', reason: A}, {type: X, status: 'True'}]}}",
        "{status: {conditions: [{type: Ready, status: 'True', reason: null}]}}",
        "{status: {conditions: [{type: Ready, status: 'True'}, {type: X, status: 'True'}]}}",
    ),
    "finalizers are a set and new ones come first": (
        "{metadata: {finalizers: [example.com/a]}}",
        "{metadata: {finalizers: [example.com/b]}}",
        "{metadata: {finalizers: [example.com/b, example.com/a]}}",
    ),
    "a finalizer is deleted from the set": (
        "{metadata: {finalizers: [a, b]}}",
        "{metadata: {$deleteFromPrimitiveList/finalizers: [a, c]}}",
        "{metadata: {finalizers: [b]}}",
    ),
    "an owner is deleted by its uid": (
        "{metadata: {ownerReferences: [{uid: u1, name: a}, {uid: u2, name: b}]}}",
        "{metadata: {ownerReferences: [{$patch: delete, uid: u1}]}}",
        "{metadata: {ownerReferences: [{uid: u2, name: b}]}}",
    ),
    "a list is replaced on demand": (
        "{spec: {containers: [{name: a}, {name: b}]}}",
        "{spec: {containers: [{$patch: replace}, {name: c}]}}",
        "{spec: {containers: [{name: c}]}}",
    ),
    "an object is replaced on demand": (
        "{metadata: {labels: {a: '1', b: '2'}}}",
        "{metadata: {labels: {$patch: replace, c: '3'}}}",
        "{metadata: {labels: {c: '3'}}}",
    ),
    "an atomic list is replaced": (
        "{spec: {containers: [{name: a, command: [x, y]}]}}",
        "{spec: {containers: [{name: a, command: [z]}]}}",
        "{spec: {containers: [{name: a, command: [z]}]}}",
    ),
    "tolerations have no merge key and are replaced": (
        "{spec: {tolerations: [{key: a}]}}",
        "{spec: {tolerations: [{key: b}]}}",
        "{spec: {tolerations: [{key: b}]}}",
    ),
    "the order is set for all items": (
        "{spec: {containers: [{name: a}, {name: b}, {name: c}]}}",
        "{spec: {$setElementOrder/containers: [{name: c}, {name: a}, {name: b}], containers: [{name: b, image: i}]}}",
        "{spec: {containers: [{name: c}, {name: a}, {name: b, image: i}]}}",
    ),
    "items outside the order keep their places": (
        "{spec: {containers: [{name: server}, {name: a}, {name: b}]}}",
        "{spec: {$setElementOrder/containers: [{name: b}, {name: a}]}}",
        "{spec: {containers: [{name: server}, {name: b}, {name: a}]}}",
    ),
    "only the named keys of a volume are kept": (
        "{spec: {volumes: [{name: v, emptyDir: {}}]}}",
        "{spec: {volumes: [{name: v, $retainKeys: [name, hostPath], hostPath: {path: /d}}]}}",
        "{spec: {volumes: [{name: v, hostPath: {path: /d}}]}}",
    ),
    "directives leave no trace in what is new": (
        "{spec: {}}",
        """
        spec:
          $setElementOrder/volumes: [{name: v}]
          volumes: [{name: v, emptyDir: {}, $retainKeys: [name, emptyDir], hostPath: null}, {name: w, $patch: delete}]
        """,
        "{spec: {volumes: [{name: v, emptyDir: {}}]}}",
    ),
    "env of a container is merged in depth": (
        "{spec: {containers: [{name: a, env: [{name: X, value: '1'}, {name: Y, value: '2'}]}]}}",
        "{spec: {containers: [{name: a, env: [{name: Y, value: '3'}, {name: Z, value: '4'}]}]}}",
        "{spec: {containers: [{name: a, env: [{name: X, value: '1'}, {name: Y, value: '3'}, {name: Z, value: '4'}]}]}}",
    ),
}


@pytest.mark.parametrize(("before", "patch", "after"), STRATEGIC_PATCHES.values(), ids=STRATEGIC_PATCHES)
def test_strategic_merge_patch(before: str, patch: str, after: str) -> None:
    assert patched(STRATEGIC_MERGE_PATCH, before, patch) == yaml.safe_load(after)


@pytest.mark.parametrize(
    ("patch", "code", "message"),
    [
        (
            "{spec: {containers: [{image: i3}]}}",
            500,
            "map: map[image:i3] does not contain declared merge key: name",
        ),
        ("{spec: {$retainKeys: [a], containers: []}}", 400, "invalid patch format of retainKeys"),
        ("{$patch: shred}", 500, "unknown patch type: shred in map: map[$patch:shred]"),
        ("[]", 400, "json: cannot unmarshal array into Go value of type map[string]interface {}"),
    ],
)
def test_a_wrong_strategic_patch_is_refused(patch: str, code: int, message: str) -> None:
    status = refusal(STRATEGIC_MERGE_PATCH, "{spec: {containers: [{name: a}]}}", patch)
    assert (status["code"], status["message"]) == (code, message)


def test_custom_resources_know_no_strategic_merge() -> None:
    status = refusal(STRATEGIC_MERGE_PATCH, "{}", "{}", kind=None)
    assert status["code"] == 415
    assert status["message"].endswith(
        "application/json-patch+json, application/merge-patch+json, application/apply-patch+yaml"
    )


def test_an_unknown_patch_type_is_415() -> None:
    assert refusal("application/json", "{}", "{}", kind=CONFIG_MAP)["message"] == "415: Unsupported Media Type"


@pytest.mark.parametrize(
    ("media_type", "patch"),
    [
        (JSON_PATCH, [{"op": "add", "path": "/status/phase", "value": "Running"}]),
        (MERGE_PATCH, {"status": {"phase": "Running"}}),
        (STRATEGIC_MERGE_PATCH, {"status": {"phase": "Running"}}),
    ],
)
def test_what_a_patch_does_not_touch_is_shared(media_type: str, patch: Any) -> None:
    pod = {"spec": {"containers": [{"name": "a"}]}, "status": {"phase": "Pending"}}
    result = apply_patch(media_type, pod, patch, POD)
    assert result["status"] == {"phase": "Running"}
    assert result["spec"] is pod["spec"]
