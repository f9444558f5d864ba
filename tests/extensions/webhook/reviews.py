"""Jobs, and the AdmissionReviews by which an API server asks about them."""

from __future__ import annotations

import base64
import json
from dataclasses import dataclass
from typing import Any

from phalanx.embedded.apimachinery.patch.json_patch import json_patch

Object = dict[str, Any]
QUEUE = {"phalanx.dev/queue": "default"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """A write of a Job: its labels and annotations (None: none), and the old ones for an update."""

    name: str
    labels: dict[str, str] | None = None
    annotations: dict[str, str] | None = None
    spec: Object | None = None
    scheduler: str | None = "default-scheduler"
    old: Case | None = None

    def job(self) -> Object:
        words = {"labels": self.labels, "annotations": self.annotations}
        meta = {"name": self.name, **{key: value for key, value in words.items() if value is not None}}
        named = {} if self.scheduler is None else {"schedulerName": self.scheduler}
        containers = [{"name": "main", "image": "host"}]
        template = {"spec": {"restartPolicy": "Never", "containers": containers, **named}}
        return {
            "apiVersion": "batch/v1",
            "kind": "Job",
            "metadata": meta,
            "spec": {**(self.spec or {}), "template": template},
        }


def signed(user: str) -> dict[str, str]:
    return {"phalanx.dev/user": user}


# All kinds of Jobs that the two policies distinguish. The expected results are in tests/embedded/apiserver/admission.
CREATED = (
    Case(name="queued", labels=QUEUE),
    Case(name="of-a-gang", labels={"phalanx.dev/job": "training"}),
    Case(name="both", labels={**QUEUE, "phalanx.dev/job": "training"}),
    Case(name="wants-to-run", labels=QUEUE, spec={"suspend": False}),
    Case(name="suspended-already", labels=QUEUE, spec={"suspend": True}),
    Case(name="says-all", labels=QUEUE, spec={"suspend": True}, scheduler="phalanx"),
    Case(name="anothers-scheduler", labels=QUEUE, scheduler="volcano"),
    Case(name="no-scheduler", labels=QUEUE, scheduler=None),
    Case(name="of-another-manager", labels=QUEUE, spec={"managedBy": "kueue.x-k8s.io/multikueue"}),
    Case(name="of-the-job-controller", labels=QUEUE, spec={"managedBy": "kubernetes.io/job-controller"}),
    Case(name="not-ours"),
    Case(name="anothers-label", labels={"app": "web"}),
    Case(name="signed-by-himself", labels=QUEUE, annotations=signed("admin")),
    Case(name="forged", labels=QUEUE, annotations=signed("root")),
    Case(name="forged-without-label", annotations=signed("root")),
    Case(name="other-words-stay", labels={**QUEUE, "app": "x"}, annotations={"a.test/b": "d", "team": "y"}),
)
QUEUED = Case(name="queued", labels=QUEUE, annotations=signed("alice"))
UPDATED = (
    Case(name="untouched", labels=QUEUE, annotations=signed("alice"), old=QUEUED),
    Case(name="resigned", labels=QUEUE, annotations=signed("bob"), old=QUEUED),
    Case(name="signature-removed", labels=QUEUE, old=QUEUED),
    Case(name="label-removed", labels={}, annotations=signed("alice"), old=QUEUED),
    Case(name="gets-our-label", labels=QUEUE, old=Case(name="not-ours")),
    Case(name="gets-label-and-name", labels=QUEUE, annotations=signed("root"), old=Case(name="not-ours")),
    Case(name="forged-later", annotations=signed("root"), old=Case(name="not-ours")),
    Case(name="never-signed", labels=QUEUE, old=Case(name="never-signed", labels=QUEUE)),
    Case(name="resumed", labels=QUEUE, annotations=signed("alice"), spec={"suspend": False}, old=QUEUED),
)


def review(
    obj: Any, old: Any = None, *, user: str = "admin", plural: str = "jobs", group: str = "batch", version: str = "v1"
) -> Object:
    """As kube-apiserver asks."""
    kind = {"group": group, "version": version}
    return {
        "apiVersion": "admission.k8s.io/v1",
        "kind": "AdmissionReview",
        "request": {
            "uid": "705ab4f5-6393-11e8-b7cc-42010a800002",
            "kind": {**kind, "kind": "Job"},
            "resource": {**kind, "resource": plural},
            "requestKind": {**kind, "kind": "Job"},
            "requestResource": {**kind, "resource": plural},
            "name": "train",
            "namespace": "default",
            "operation": "CREATE" if old is None else "UPDATE",
            "userInfo": {"username": user, "groups": ["system:authenticated"], "extra": {"scopes": ["all"]}},
            "object": obj,
            "oldObject": old,
            "dryRun": False,
            "options": {"kind": "CreateOptions", "apiVersion": "meta.k8s.io/v1"},
        },
    }


def patched(obj: Object, answer: Any) -> Object:
    """What an API server makes of the answer."""
    response = answer["response"]
    assert answer["apiVersion"] == "admission.k8s.io/v1"
    assert answer["kind"] == "AdmissionReview"
    assert response["allowed"] is True
    assert ("patch" in response) == ("patchType" in response)
    if "patch" not in response:
        return obj
    assert response["patchType"] == "JSONPatch"
    found: Object = json_patch(obj, json.loads(base64.b64decode(response["patch"])))
    return found
