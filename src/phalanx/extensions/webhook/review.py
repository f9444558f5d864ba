"""Answer an AdmissionReview: apply the admission policies to the object, and return the change as a patch.

The policies, with their CEL expressions, are those of `phalanx.kube.install.admission_policy`. The embedded API server
evaluates them with the same code. So an API server without MutatingAdmissionPolicy, which calls this webhook, stores
the same objects as a server that evaluates the policies itself.

A response depends only on the review; the webhook reads and stores nothing else. An object without a matching policy is
allowed and not changed. Source of the format: k8s.io/api/admission/v1.

The response has a JSON patch (RFC 6902) with only those operations that change the object. The patch is computed by
comparing mappings field by field. Any other value, such as a list, is replaced as a whole, because the policies only
change fields of mappings."""

from __future__ import annotations

import base64
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

import msgspec

from phalanx.client.policies import MUTATING, MUTATING_BINDINGS, VALIDATING, VALIDATING_BINDINGS
from phalanx.embedded.apimachinery.expressions.admission_policy import Patches, PolicyReader, Review, mutate, validate
from phalanx.embedded.apimachinery.meta.resource import Resource, User
from phalanx.embedded.apimachinery.meta.status import StatusError
from phalanx.embedded.apimachinery.patch.json_patch import json_patch
from phalanx.embedded.apimachinery.schema.typed import merged
from phalanx.kube.install.admission_policy import GUARDED, INSTALLED, RECORDS_POLICIES

Operation = dict[str, Any]


def difference(before: object, after: object) -> list[Operation]:
    return list(_between(before, after, ""))


def _between(before: object, after: object, path: str) -> Iterator[Operation]:
    if before is after:
        return
    if not isinstance(before, dict) or not isinstance(after, dict):
        if type(before) is not type(after) or before != after:
            yield {"op": "replace", "path": path, "value": after}
        return
    for key in before.keys() - after.keys():
        yield {"op": "remove", "path": f"{path}/{_escaped(key)}"}
    for key, value in after.items():
        below = f"{path}/{_escaped(key)}"
        if key in before:
            yield from _between(before[key], value, below)
        else:
            yield {"op": "add", "path": below, "value": value}


def _escaped(key: str) -> str:
    return key.replace("~", "~0").replace("/", "~1")


Object = dict[str, Any]

API_VERSION = "admission.k8s.io/v1"
_OPERATIONS = frozenset({"CREATE", "UPDATE"})


class UnreadableReview(Exception):
    """Raised for a request that is not a valid AdmissionReview. The text states the reason."""


class _Named(msgspec.Struct, frozen=True, kw_only=True):
    group: str = ""
    version: str
    resource: str


class _Asker(msgspec.Struct, frozen=True, kw_only=True):
    username: str = ""
    uid: str = ""
    groups: tuple[str, ...] | None = None


class ReviewRequest(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """The fields of an AdmissionRequest that the policies read."""

    uid: str
    operation: str
    resource: _Named
    name: str | None = None
    sub_resource: str | None = None
    user_info: _Asker = _Asker()
    object: Object | None = None
    old_object: Object | None = None


class _Asked(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    api_version: str
    kind: str
    request: ReviewRequest


class Reviewed(msgspec.Struct, frozen=True, kw_only=True):
    """The AdmissionReview to return (`answer`). `outcome`: changed, unchanged or refused, for the metrics."""

    answer: Object
    outcome: str


_ASKED = msgspec.json.Decoder(_Asked)
_RESOURCES = {
    (kind.group, kind.version, kind.plural): Resource(
        group=kind.group, version=kind.version, kind=kind.name, plural=kind.plural, namespaced=True
    )
    for kind in GUARDED
}
CARRIED_OUT = (*INSTALLED, *RECORDS_POLICIES)
_READER = PolicyReader(
    policies=lambda plural: [body for kind, body in CARRIED_OUT if kind.plural == plural], param=lambda *_: None
)
assert {kind.plural for kind, _ in CARRIED_OUT} == {
    each.plural for each in (MUTATING, MUTATING_BINDINGS, VALIDATING, VALIDATING_BINDINGS)
}
# The policies set fields of objects but no items of lists, so merging needs no schema.
_PATCHES = Patches(
    merge=lambda _, obj, value: merged(obj, value, None), json=lambda _, obj, value: json_patch(obj, value)
)


def read(body: bytes) -> ReviewRequest:
    """Return the request in the body of an AdmissionReview. Raises UnreadableReview."""
    try:
        asked = _ASKED.decode(body)
    except (msgspec.MsgspecError, RecursionError) as error:
        raise UnreadableReview(f"the body is not an AdmissionReview: {error}") from error
    if (asked.api_version, asked.kind) != (API_VERSION, "AdmissionReview"):
        raise UnreadableReview(
            f"the body is {asked.kind!r} of {asked.api_version!r}, not AdmissionReview of {API_VERSION}"
        )
    return asked.request


def judge(request: ReviewRequest) -> Reviewed:
    """Apply the policies to the request, and return the response. Raises UnreadableReview if the object has no
    metadata."""
    try:
        changes = _changes(request)
    except StatusError as error:  # a policy refused the object or failed; failurePolicy Fail refuses in both cases
        status = {"code": error.code, "reason": error.reason, "message": error.message}
        return Reviewed(answer=_answer(request, {"allowed": False, "status": status}), outcome="refused")
    if not changes:
        return Reviewed(answer=_answer(request, {"allowed": True}), outcome="unchanged")
    patch = base64.b64encode(msgspec.json.encode(changes)).decode()
    allowed = {"allowed": True, "patchType": "JSONPatch", "patch": patch}
    return Reviewed(answer=_answer(request, allowed), outcome="changed")


def _changes(request: ReviewRequest) -> list[Object]:
    asked, obj = request.resource, request.object
    resource = _RESOURCES.get((asked.group, asked.version, asked.resource))
    if resource is None or obj is None or request.sub_resource or request.operation not in _OPERATIONS:
        return []
    for one in (obj, request.old_object):
        if one is not None and not isinstance(one.get("metadata"), dict):
            raise UnreadableReview("the object has no metadata")
    by = request.user_info
    review = Review(
        resource=resource,
        operation=request.operation,
        name=request.name or "",
        obj=obj,
        old=request.old_object,
        user=User(name=by.username, groups=by.groups or (), uid=by.uid),
    )
    changed = mutate(review, _READER, _PATCHES)
    validate(replace(review, obj=changed), _READER)
    return difference(obj, changed)


def _answer(request: ReviewRequest, response: Mapping[str, object]) -> Object:
    return {"apiVersion": API_VERSION, "kind": "AdmissionReview", "response": {"uid": request.uid, **response}}
