"""Define admission policies that replace KAI's webhooks, and the PriorityClasses that KAI's installation creates.

The policies do not refuse a PodGroup whose sub-groups form a cycle, because CEL cannot express this check. The pods of
such a PodGroup wait, and have a reason.


Source: pkg/apis/scheduling/{v2,v2alpha2}/*_webhook.go, pkg/admission, deployments/kai-scheduler/templates of v0.17.0.
"""

from __future__ import annotations

from typing import Final

from phalanx.client.kind import PRIORITY_CLASSES
from phalanx.client.policies import Made, refusing, rule
from phalanx.dialects.frame.dialect import BROUGHT_BY, Object
from phalanx.dialects.kai import kinds
from phalanx.dialects.kai.queues import CLASSES, GPU


def _policy(name: str, rule: Object, conditions: dict[str, str], checks: dict[str, str]) -> list[Made]:
    return refusing(f"{name}.kai.phalanx.dev", [rule], conditions, checks)


_SUB, _SPEC = "object.spec.subGroups", "object.spec"
_IS_PARENT = f"{_SUB}.exists(o, has(o.parent) && o.parent == s.name)"
_POD_GROUP = {
    "minMember and minSubGroup are mutually exclusive": f"!has({_SPEC}.minMember) || !has({_SPEC}.minSubGroup)",
    "minSubGroup requires sub-groups": (f"!has({_SPEC}.minSubGroup) || (has({_SUB}) && size({_SUB}) > 0)"),
    "sub-groups must have different names": (
        f"!has({_SUB}) || {_SUB}.all(s, size({_SUB}.filter(o, o.name == s.name)) == 1)"
    ),
    "the parent of a sub-group must be another sub-group": (
        f"!has({_SUB}) || {_SUB}.all(s, !has(s.parent) || (s.parent != s.name && {_SUB}.exists(o, o.name == s.parent)))"
    ),
    "a sub-group with child sub-groups must not set minMember": (
        f"!has({_SUB}) || {_SUB}.all(s, !({_IS_PARENT}) || !has(s.minMember))"
    ),
    "a sub-group without child sub-groups must set minMember, and must not set minSubGroup": (
        f"!has({_SUB}) || {_SUB}.all(s, {_IS_PARENT} || (has(s.minMember) && !has(s.minSubGroup)))"
    ),
}
_NOTES = "object.metadata.annotations"
_WHOLE = f'has(c.resources) && has(c.resources.limits) && "{GPU}" in c.resources.limits'
_POD = {
    "a pod must not request both a part of a GPU and whole GPUs": f"!object.spec.containers.exists(c, {_WHOLE})",
    "gpu-fraction and gpu-memory are mutually exclusive": f'!("gpu-fraction" in {_NOTES} && "gpu-memory" in {_NOTES})',
    "gpu-fraction must be a number between 0 and 1": (
        f'!("gpu-fraction" in {_NOTES}) || {_NOTES}["gpu-fraction"].matches("^0?\\\\.[0-9]*[1-9][0-9]*$")'
    ),
    "gpu-memory must be a whole number of MiB": (
        f'!("gpu-memory" in {_NOTES}) || {_NOTES}["gpu-memory"].matches("^[0-9]*[1-9][0-9]*$")'
    ),
    "gpu-fraction-num-devices must be a whole number above 0": (
        f'!("gpu-fraction-num-devices" in {_NOTES}) || '
        f'{_NOTES}["gpu-fraction-num-devices"].matches("^[0-9]*[1-9][0-9]*$")'
    ),
    "gpu-fraction-container-name must name a container of the pod": (
        f'!("gpu-fraction-container-name" in {_NOTES}) || (object.spec.containers + '
        "(has(object.spec.initContainers) ? object.spec.initContainers : []))"
        f'.exists(c, c.name == {_NOTES}["gpu-fraction-container-name"])'
    ),
}
_SHARES = {
    "for-kai": f'object.spec.schedulerName == "{kinds.SCHEDULER_NAME}"',
    "asks-a-part": f'has({_NOTES}) && ("gpu-fraction" in {_NOTES} || "gpu-memory" in {_NOTES})',
}


def _queues(*operations: str) -> Object:
    return rule(kinds.GROUP, "queues", *operations, versions=(kinds.QUEUES.version,))


def _class(name: str, value: int) -> Object:
    """Return a PriorityClass with a label that names the dialect. Phalanx installs the class together with the dialect,
    before any job uses it."""
    meta = {"name": name, "labels": {BROUGHT_BY: kinds.NAME}}
    return {"apiVersion": PRIORITY_CLASSES.api_version, "kind": PRIORITY_CLASSES.name, "metadata": meta, "value": value}


POLICIES: Final[tuple[Made, ...]] = (
    *_policy(
        "checked-queues",
        _queues("CREATE", "UPDATE"),
        {},
        {"resources must be specified": f"has({_SPEC}) && has({_SPEC}.resources)"},
    ),
    *_policy(
        "deleted-queues",
        _queues("DELETE"),
        {},
        {
            "the queue has child queues: delete the child queues first": (
                "!has(oldObject.status) || !has(oldObject.status.childQueues) || "
                "size(oldObject.status.childQueues) == 0"
            )
        },
    ),
    *_policy(
        "checked-podgroups",
        rule(kinds.GROUP, "podgroups", "CREATE", "UPDATE", versions=(kinds.POD_GROUPS.version,)),
        {"has-a-spec": f"has({_SPEC})"},
        _POD_GROUP,
    ),
    *_policy("checked-pods", rule("", "pods", "CREATE"), _SHARES, _POD),
    *((PRIORITY_CLASSES, _class(name, value)) for name, value in CLASSES.items()),
)
