"""The cells of what drivers of volumes and devices publish."""

from __future__ import annotations

from typing import Any

from phalanx.embedded.apiserver.transport.tables.printer import Object, age


def driver_cells(driver: Object, now_s: float) -> list[Any]:
    spec, requests = driver["spec"], driver["spec"].get("tokenRequests")
    return [
        driver["metadata"]["name"],
        spec.get("attachRequired", True),
        spec.get("podInfoOnMount", False),
        spec.get("storageCapacity", False),
        "<unset>" if requests is None else ",".join(one.get("audience", "") for one in requests),
        spec.get("requiresRepublish", False),
        ",".join(spec.get("volumeLifecycleModes") or ()) or "<none>",
        age(driver, now_s),
    ]


def attachment_cells(attachment: Object, now_s: float) -> list[Any]:
    spec = attachment["spec"]
    return [
        attachment["metadata"]["name"],
        spec.get("attacher", ""),
        (spec.get("source") or {}).get("persistentVolumeName", ""),
        spec.get("nodeName", ""),
        (attachment.get("status") or {}).get("attached", False),
        age(attachment, now_s),
    ]


def claim_state(claim: Object) -> str:
    """Return the state of a ResourceClaim: `pending`, `allocated`, `allocated,reserved`, `deleted` …"""
    is_deleted, status = bool(claim["metadata"].get("deletionTimestamp")), claim.get("status") or {}
    states = ["deleted"] if is_deleted else []
    if status.get("allocation") is None:
        return ",".join(states or ["pending"])
    return ",".join([*states, "allocated", *(["reserved"] if status.get("reservedFor") else [])])
