"""Check the changes of a pod: an update of its spec, an update of its status, a resize, and new ephemeral containers.

A forbidden change is refused with a message that shows the lines in which the two specs differ. Source:
ValidatePodUpdate, ValidatePodStatusUpdate, ValidatePodResize and ValidatePodEphemeralContainersUpdate of
pkg/apis/core/validation.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from phalanx.embedded.apimachinery.meta.status import forbidden_field, invalid_value, required
from phalanx.embedded.apimachinery.schema import formats
from phalanx.embedded.apimachinery.schema.gotypes.internal import changes, internal
from phalanx.embedded.apiserver.registry.kinds.checks import Found, complain, formatted, unchanged
from phalanx.embedded.apiserver.registry.kinds.nodes import scheduling
from phalanx.embedded.apiserver.registry.kinds.nodes.fields import TolerationFields
from phalanx.embedded.apiserver.registry.kinds.pods.qos import qos_class
from phalanx.embedded.apiserver.registry.kinds.pods.spec import MAX_INT32

Object = Mapping[str, Any]

UPDATABLE = ",".join(
    (
        "`spec.containers[*].image`",
        "`spec.initContainers[*].image`",
        "`spec.activeDeadlineSeconds`",
        "`spec.tolerations` (only additions to existing tolerations)",
        "`spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was previously negative)",
    )
)
SYSTEM_CONDITIONS = frozenset({"PodScheduled", "Ready", "Initialized"})
CHECKED_APART = ("containers", "initContainers", "activeDeadlineSeconds", "tolerations", "schedulingGates")


def update(found: Found, pod: Object, old: Object) -> None:
    """Check a write to `pods/NAME`. It may change images, shorten the deadline, add tolerations and remove scheduling
    gates."""
    spec, before = pod["spec"], old["spec"]
    for key in ("containers", "initContainers"):
        if not _images(found, spec.get(key) or (), before.get(key) or (), f"spec.{key}"):
            return
    if not _deadline(found, spec.get("activeDeadlineSeconds"), before.get("activeDeadlineSeconds")):
        return
    now, then = spec.get("tolerations", ()), before.get("tolerations", ())
    if now != then:
        _tolerations(found, now, then)
    _gates(found, spec.get("schedulingGates", ()), before.get("schedulingGates", ()))
    if spec != before:
        _rest(found, spec, before)


def _images(found: Found, now: Sequence[Object], then: Sequence[Object], path: str) -> bool:
    """Check the images of containers. Return False if containers were added or removed, because the later checks then
    make no sense."""
    if len(now) != len(then):
        found.append(forbidden_field(path, "pod updates may not add or remove containers"))
        return False
    for index, one in enumerate(now):
        image = one.get("image", "")
        if not image:
            found.append(required(f"{path}[{index}].image"))
        if image != image.strip():
            text = "must not have leading or trailing whitespace"
            found.append(invalid_value(f"{path}[{index}].image", image, text))
    return True


def _deadline(found: Found, now_s: int | None, then_s: int | None) -> bool:
    path = "spec.activeDeadlineSeconds"
    if now_s is None:
        if then_s is not None:
            found.append(invalid_value(path, None, "must not update from a positive integer to nil value"))
        return True
    if not 0 <= now_s <= MAX_INT32:
        found.append(invalid_value(path, now_s, formats.range_error(0, MAX_INT32)))
        return False
    if then_s is not None and then_s < now_s:
        found.append(invalid_value(path, now_s, "must be less than or equal to previous value"))
        return False
    return True


def _tolerations(found: Found, now: Sequence[TolerationFields], then: Sequence[TolerationFields]) -> None:
    """Check that every old toleration still exists. Only its `tolerationSeconds` may have changed."""
    left = [_without(one, "tolerationSeconds") for one in now]
    if any(_without(one, "tolerationSeconds") not in left for one in then):
        text = "existing toleration can not be modified except its tolerationSeconds"
        found.append(forbidden_field("spec.tolerations", text))
    else:
        scheduling.tolerations(found, now, "spec.tolerations")


def _without(one: Object, *keys: str) -> dict[str, object]:
    return {name: value for name, value in one.items() if name not in keys}


def _gates(found: Found, now: Sequence[Object], then: Sequence[Object]) -> None:
    old = {gate["name"] for gate in then}
    for index, gate in enumerate(now):
        if gate["name"] not in old:
            text = f"only deletion is allowed, but found new scheduling gate '{gate['name']}'"
            found.append(forbidden_field(f"spec.schedulingGates[{index}].name", text))


def _rest(found: Found, spec: Object, before: Object) -> None:
    """Find forbidden changes in all other fields. In a pod with scheduling gates, some of these fields may change."""
    munged = {**_without(spec, *CHECKED_APART), **{key: before[key] for key in CHECKED_APART if key in before}}
    for key in ("containers", "initContainers"):
        pairs = zip(spec.get(key) or (), before.get(key) or (), strict=True)
        if images := [{**one, "image": old.get("image")} for one, old in pairs]:
            munged[key] = images
    if before.get("terminationGracePeriodSeconds", 0) < 0 and spec.get("terminationGracePeriodSeconds") == 1:
        munged["terminationGracePeriodSeconds"] = before["terminationGracePeriodSeconds"]
    if before.get("schedulingGates"):
        _gated(found, munged, before)
    if munged != before:
        text = f"pod updates may not change fields other than {UPDATABLE}\n"
        found.append(forbidden_field("spec", text + changes(before, munged, "core.PodSpec")))


def _gated(found: Found, spec: dict[str, Any], before: Object) -> None:
    """Check the scheduling constraints of a pod with scheduling gates: its node selector may get more keys, and its
    required node affinity may become narrower. Then set both fields in `spec` to their old values. The caller compares
    the other fields afterwards, and must find no difference in these two."""
    selector, former = spec.pop("nodeSelector", None) or {}, before.get("nodeSelector") or {}
    if any(selector.get(key) != value for key, value in former.items()):
        text = "only additions to spec.nodeSelector are allowed (no mutations or deletions)"
        found.append(invalid_value("spec.nodeSelector", dict(sorted(selector.items())) or None, text))
    if former:
        spec["nodeSelector"] = former
    now, then = spec.get("affinity") or {}, before.get("affinity") or {}
    if now.get("nodeAffinity") == then.get("nodeAffinity"):
        return
    _node_affinity(found, now.get("nodeAffinity") or {}, then.get("nodeAffinity") or {})
    kept = {"nodeAffinity": then["nodeAffinity"]} if "nodeAffinity" in then else {}
    rest = {**_without(now, "nodeAffinity"), **kept}
    if rest or "affinity" in before:
        spec["affinity"] = rest
    else:
        spec.pop("affinity", None)


def _node_affinity(found: Found, now: Object, then: Object) -> None:
    path = f"spec.affinity.nodeAffinity.{scheduling.REQUIRED}.nodeSelectorTerms"
    terms = (now.get(scheduling.REQUIRED) or {}).get("nodeSelectorTerms") or []
    old_terms = (then.get(scheduling.REQUIRED) or {}).get("nodeSelectorTerms") or []
    if not old_terms:
        return
    if len(terms) != len(old_terms):
        text = "no additions/deletions to non-empty NodeSelectorTerms list are allowed"
        found.append(invalid_value(path, internal(terms, "[]core.NodeSelectorTerm"), text))
        return
    for index, (term, old) in enumerate(zip(terms, old_terms, strict=True)):
        kept = all(
            (term.get(key) or [])[: len(old.get(key) or [])] == (old.get(key) or [])
            for key in ("matchExpressions", "matchFields")
        )
        if not kept or (not old and term):
            text = "only additions are allowed (no mutations or deletions)"
            found.append(invalid_value(f"{path}[{index}]", internal(term, "core.NodeSelectorTerm"), text))


# --- status ----------------------------------------------------------------------------------------------------------


def status_update(found: Found, pod: Object, old: Object) -> None:
    """Check a write to `pods/NAME/status`."""
    status, before = pod["status"], old["status"]
    for index, condition in enumerate(status.get("conditions") or ()):
        if (sort := condition.get("type", "")) not in SYSTEM_CONDITIONS:
            formatted(found, f"metadata.conditions[{index}].Type", sort, formats.qualified_name)
    nominated = status.get("nominatedNodeName", "")
    if nominated and nominated != before.get("nominatedNodeName"):
        formatted(found, "status.nominatedNodeName", nominated, formats.dns_subdomain)
    unchanged(found, "status.qosClass", status.get("qosClass", ""), before.get("qosClass", ""))
    restart = old["spec"].get("restartPolicy", "")
    sidecars = {one["name"] for one in old["spec"].get("initContainers", ()) if one.get("restartPolicy") == "Always"}
    for key, policy, free in (
        ("containerStatuses", restart, frozenset[str]()),
        ("initContainerStatuses", restart, sidecars),
        ("ephemeralContainerStatuses", "Never", frozenset[str]()),
    ):
        if key in before and policy != "Always":
            _no_revival(found, status.get(key) or (), before[key] or (), policy, free, f"status.{key}")
    _addresses(found, status.get("podIPs") or (), "status.podIPs")
    hosts = status.get("hostIPs") or ()
    if hosts and status.get("hostIP", "") != hosts[0].get("ip"):
        found.append(invalid_value("status.hostIPs[0].ip", hosts[0].get("ip", ""), "must be equal to `hostIP`"))
    _addresses(found, hosts, "status.hostIPs")


def _no_revival(
    found: Found, now: Sequence[Object], then: Sequence[Object], policy: str, free: set[str] | frozenset[str], path: str
) -> None:
    """Check that the state of a container which has ended and will not be restarted stays `terminated`."""
    for index, old in enumerate(then):
        ended = (old.get("state") or {}).get("terminated")
        if not ended or (ended.get("exitCode") and policy == "OnFailure") or old.get("name") in free:
            continue
        for new in now:
            if new.get("name") == old.get("name") and not (new.get("state") or {}).get("terminated"):
                text = "may not be transitioned to non-terminated state"
                found.append(forbidden_field(f"{path}[{index}].state", text))


def _addresses(found: Found, given: Sequence[Object], path: str) -> None:
    for index, one in enumerate(given):
        complain(found, f"{path}[{index}]", one.get("ip", ""), formats.ip(one.get("ip", "")))
    families = [":" in one.get("ip", "") for one in given]
    if len(families) != len(set(families)):
        shown = [{"IP": one.get("ip", "")} for one in given]
        found.append(invalid_value(path, shown, "may specify no more than one IP for each IP family"))


# --- resize ----------------------------------------------------------------------------------------------------------


def resize(found: Found, pod: Object, old: Object) -> None:
    """Check a write to `pods/NAME/resize`. It may change the cpu and memory of containers, but must not remove a
    request or limit, and must not change the QoS class."""
    if "kubernetes.io/config.mirror" in (old["metadata"].get("annotations") or {}):
        found.append(forbidden_field("", "static pods cannot be resized"))
        return
    if (old["spec"].get("os") or {}).get("name") == "windows":
        found.append(forbidden_field("", "windows pods cannot be resized"))
        return
    if qos_class(pod["spec"]) != (old["status"].get("qosClass") or qos_class(old["spec"])):
        text = "Pod QOS Class may not change as a result of resizing"
        found.append(invalid_value("spec", pod["status"].get("qosClass", ""), text))
    for key in ("initContainers", "containers"):
        for index, (one, before) in enumerate(zip(pod["spec"].get(key) or (), old["spec"].get(key) or (), strict=True)):
            if key == "initContainers" and one.get("restartPolicy") != "Always":
                if one.get("resources") != before.get("resources"):
                    text = "resources for non-sidecar init containers are immutable"
                    found.append(forbidden_field("spec", text))
                continue
            _resized(found, one, before, f"spec.{key}[{index}].resources")


def _resized(found: Found, one: Object, before: Object, path: str) -> None:
    now, then = one.get("resources") or {}, before.get("resources") or {}
    for which in ("requests", "limits"):
        new, old = now.get(which) or {}, then.get(which) or {}
        if old.keys() - new.keys():
            found.append(forbidden_field(f"{path}.{which}", f"resource {which} cannot be removed"))
        others = {name for name in {*new, *old} - {"cpu", "memory"} if new.get(name) != old.get(name)}
        if others:
            found.append(forbidden_field("spec", "only cpu and memory resources are mutable"))


def ephemeral_update(found: Found, pod: Object, old: Object) -> None:
    """Check a write to `pods/NAME/ephemeralcontainers`, which may only add containers."""
    now = {one.get("name"): one for one in pod["spec"].get("ephemeralContainers") or ()}
    for one in old["spec"].get("ephemeralContainers") or ():
        name = one["name"]
        if name not in now:
            text = f'existing ephemeral containers "{name}" may not be removed\n'
            found.append(forbidden_field("spec.ephemeralContainers", text))
        elif now[name] != one:
            text = f'existing ephemeral containers "{name}" may not be changed\n'
            found.append(forbidden_field("spec.ephemeralContainers", text))
