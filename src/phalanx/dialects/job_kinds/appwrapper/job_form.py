"""Present an AppWrapper to the scheduler as one batch/v1 Job for each of its pod sets. All these Jobs are in one gang.

An AppWrapper waits while its field `suspend` is true. An admission policy sets `suspend` to true when the AppWrapper is
created. The scheduler (or Kueue) sets it to false to start the AppWrapper, and then the controller creates the wrapped
objects. A label of the AppWrapper names its queue. An AppWrapper without this label is in the default queue. A flavor
may add labels and tolerations to pod templates; the scheduler writes them into `podSetInfos`, as Kueue does.

An AppWrapper of the first generation is presented in the form of the second (`generic_items`). Its labels name a node
of a quota tree, and this node is its queue. Its priority is in a field of its spec. It releases its capacity when its
pods have ended.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from phalanx.client.kind import Kind
from phalanx.dialects.job_kinds.appwrapper import kinds
from phalanx.dialects.job_kinds.appwrapper.generic_items import is_mcad, pod_sets_of, read
from phalanx.dialects.job_kinds.appwrapper.pod_sets import (
    AppWrapperPodSet,
    WrapError,
    avoid_unhealthy,
    inject,
    pod_sets,
)
from phalanx.dialects.job_kinds.form import Object, as_job, manager, patched

_QUEUES: Final = ("phalanx.dev/queue", "kueue.x-k8s.io/queue-name")
_DEFAULT_QUEUE: Final = "default"


@dataclass(frozen=True, slots=True)
class AppWrappers:
    """The implementation of `job_kinds.form.Framework` for AppWrapper."""

    kind: Kind
    suspend: tuple[str, ...] = field(default=("suspend",), init=False)

    def roles(self, obj: Object, made: Object | None = None) -> list[str]:
        return [one.role for one in _sets(obj) if one.replicas]

    def role_of(self, labels: Mapping[str, str]) -> str:
        return str(labels.get(kinds.POD_SET) or ("0-0" if kinds.LABEL in labels else ""))

    def view(self, obj: Object, role: str, made: Object | None = None) -> Object:
        own, spec = obj["spec"], read(obj)["spec"]
        one = next(one for one in _sets(obj) if one.role == role)
        labels = obj["metadata"].get("labels") or {}
        named = any(queue in labels for queue in _QUEUES)
        mcad = is_mcad(own)
        queue = kinds.labels_queue(labels) if mcad else _DEFAULT_QUEUE
        template = _with_info(spec, one)
        if mcad and own.get("priority") is not None:
            pod = {key: value for key, value in (template.get("spec") or {}).items() if key != "priorityClassName"}
            template["spec"] = {**pod, "priority": own["priority"]}
        return as_job(
            obj,
            role,
            roles=self.roles(obj),
            count=one.replicas,
            template=template,
            suspended=own.get("suspend"),
            words={} if named else {_QUEUES[0]: queue},
            status={"conditions": _ended_mcad(obj) if mcad else _ended(obj.get("status") or {})},
            managedBy=manager(own.get("managedBy"), kinds.MANAGER),
        )

    def edit(self, spec: Object, role: str, patch: Object) -> Object:
        found = dict(spec)
        if "suspend" in patch:
            found["suspend"] = patch["suspend"]
        # Labels and tolerations of flavors are not written into an AppWrapper of the first generation: its pods get
        # them when they are bound.
        if "template" in patch and not is_mcad(spec):
            one = next(one for one in pod_sets(spec) if one.role == role)
            wanted = patched(_with_info(spec, one), patch["template"])
            found["components"] = _informed(spec, one, wanted)
        return found


APP_WRAPPER: Final = AppWrappers(kinds.APP_WRAPPERS)
IBM_APP_WRAPPER: Final = AppWrappers(kinds.IBM_APP_WRAPPERS)  # always of the first generation


# --- internal ---------------------------------------------------------------------------------------------------------


def _sets(obj: Object) -> tuple[AppWrapperPodSet, ...]:
    try:
        return pod_sets_of(obj)
    except (WrapError, TypeError, ValueError, AttributeError, KeyError):
        return ()  # the AppWrapper's controller reports the error


def _with_info(spec: Object, one: AppWrapperPodSet) -> Object:
    infos = spec["components"][one.component].get("podSetInfos") or ()
    template = copy.deepcopy(one.template)
    for info in infos[one.index : one.index + 1]:
        try:
            inject(template, info)
        except WrapError:
            break  # the AppWrapper's controller reports the error
    avoid_unhealthy(template)
    return template


def _informed(spec: Object, one: AppWrapperPodSet, wanted: Object) -> list[Object]:
    """Return the components of an AppWrapper with a changed `podSetInfos` of the pod set `one`, so that its pod
    template gets the labels, tolerations and other fields of `wanted`."""
    own, meta = one.template.get("spec") or {}, one.template.get("metadata") or {}
    said = wanted.get("metadata") or {}
    words = {
        field: {key: text for key, text in (said.get(field) or {}).items() if (meta.get(field) or {}).get(key) != text}
        for field in ("labels", "annotations")
    }
    wanted = wanted.get("spec") or {}
    selector = {
        k: v for k, v in (wanted.get("nodeSelector") or {}).items() if (own.get("nodeSelector") or {}).get(k) != v
    }
    tolerations = [each for each in wanted.get("tolerations") or () if each not in (own.get("tolerations") or ())]
    more: dict[str, Any] = {"nodeSelector": selector, "tolerations": tolerations, **words}
    components = [dict(each) for each in spec["components"]]
    here = components[one.component]
    infos = [dict(info) for info in here.get("podSetInfos") or ()]
    infos += [{} for _ in range(one.index + 1 - len(infos))]
    kept = {key: value for key, value in infos[one.index].items() if key not in more}
    infos[one.index] = {**kept, **{key: value for key, value in more.items() if value}}
    here.pop("podSetInfos", None)
    if any(infos):
        here["podSetInfos"] = infos
    return components


def _ended(status: Mapping[str, Any]) -> list[Object]:
    """Return the condition Complete or Failed that the Jobs of an AppWrapper have; empty while the AppWrapper has not
    ended. A failed AppWrapper has ended when its wrapped objects are deleted. `status`: the AppWrapper's status."""
    conditions = {one["type"]: one for one in status.get("conditions") or ()}
    deployed = conditions.get("ResourcesDeployed", {})
    since = {key: deployed[key] for key in ("lastTransitionTime",) if key in deployed}
    if status.get("phase") == "Succeeded":
        return [{"type": "Complete", "status": "True", **since}]
    if status.get("phase") == "Failed" and deployed.get("status") != "True":
        return [{"type": "Failed", "status": "True", **since}]
    return []


def _ended_mcad(obj: Object) -> list[Object]:
    """Return the condition Complete or Failed that the Jobs of an AppWrapper of the first generation have; empty while
    it has not ended. An AppWrapper without `completionstatus` never gets the state Completed. So it is also complete
    when all its pods have succeeded."""
    status = obj.get("status") or {}
    pods = sum(one.replicas for one in _sets(obj))
    done = int(status.get("Succeeded") or 0) >= pods and not any(status.get(key) for key in ("running", "pending"))
    match status.get("state"):
        case "Completed":
            return [{"type": "Complete", "status": "True"}]
        case "Failed" | "Deleted":
            return [{"type": "Failed", "status": "True"}]
        case "Running" if done:
            return [{"type": "Complete", "status": "True"}]
        case _:
            return []
