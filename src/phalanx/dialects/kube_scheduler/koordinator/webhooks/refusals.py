"""The checks of Koordinator's webhooks, as admission policies of the API server (CEL), which cannot be down like a
webhook; and the PriorityClasses of Koordinator's installation.

For quotas the policies check that `min` is within `max`, and that a quota stays in its tree. For pods with
Koordinator's labels they check that the QoS class goes with the priority, and that the cpu request of a pod with cpus
for itself is a whole number. Errors that involve other objects (a missing parent, more `min` below than above) appear
in the status of the queue instead. A user with the right to delete a quota may always do so.

Sources: pkg/webhook/{elasticquota,pod/validating} of v1.8.0.
"""

from __future__ import annotations

from typing import Final

from phalanx.client.kind import PRIORITY_CLASSES
from phalanx.client.policies import Made, refusing, rule
from phalanx.dialects.frame.dialect import BROUGHT_BY, Object
from phalanx.dialects.kube_scheduler.koordinator import kinds

_LABELS, _OLD_LABELS = "object.metadata.labels", "oldObject.metadata.labels"
_QOS, _PRIORITY_CLASS, _BANDS = kinds.QOS, kinds.PRIORITY_CLASS, kinds.BANDS


def _has(key: str, of: str = _LABELS) -> str:
    return f'has({of}) && "{key}" in {of}'


def _same(key: str) -> str:
    """Return a CEL expression: both objects have the label with the same value, or neither has it."""
    before, after = f"({_has(key, _OLD_LABELS)})", f"({_has(key)})"
    return f'{before} == {after} && (!{after} || {_LABELS}["{key}"] == {_OLD_LABELS}["{key}"])'


def _in_band(*bands: str) -> str:
    """Return a CEL expression: the pod's priority is in one of these bands. The label with the priority class takes
    precedence over the number in the spec."""
    named = ", ".join(f'"koord-{band}"' for band in bands)
    ranges = " || ".join(
        f"(object.spec.priority >= {low} && object.spec.priority <= {high})"
        for low, high in (_BANDS[band] for band in bands)
    )
    label = f'{_LABELS}["{_PRIORITY_CLASS}"]'
    return f"(({_has(_PRIORITY_CLASS)}) ? {label} in [{named}] : (has(object.spec.priority) && ({ranges})))"


def _none() -> str:
    """Return a CEL expression: the pod's priority is in no band."""
    return f"!{_in_band(*_BANDS)}"


def _qos(name: str) -> str:
    return f'{_LABELS}["{_QOS}"] == "{name}"'


def _policy(name: str, rule: Object, conditions: dict[str, str], checks: dict[str, str]) -> list[Made]:
    return refusing(f"{name}.koordinator.phalanx.dev", [rule], conditions, checks)


_MIN, _MAX = "object.spec.min", "object.spec.max"
_NAMES_MIN = f"!has(object.spec) || !has({_MIN})"
_QUOTAS = {
    "every resource of spec.min is one of spec.max": f"{_NAMES_MIN} || (has({_MAX}) && {_MIN}.all(k, k in {_MAX}))",
    "spec.min is at most spec.max": (
        f"{_NAMES_MIN} || !has({_MAX}) || {_MIN}.all(k, !(k in {_MAX}) || "
        f"quantity(string({_MIN}[k])).compareTo(quantity(string({_MAX}[k]))) <= 0)"
    ),
    "a quota's tree may not change": f"oldObject == null || ({_same(f'{kinds.QUOTA}tree-id')})",
}
_PODS = {
    "the qosClass is one of LSE, LSR, LS, BE and SYSTEM": (
        f'{_LABELS}["{_QOS}"] in ["LSE", "LSR", "LS", "BE", "SYSTEM"]'
    ),
    "the qosClass BE does not go with no priority class, or with koord-prod": (
        f"!({_qos('BE')}) || !({_in_band('prod')} || {_none()})"
    ),
    "the qosClass LSR goes with the priority class koord-prod alone": f"!({_qos('LSR')}) || {_in_band('prod')}",
    "pods of the qosClass LSR or LSE ask for a whole number of cpus": (
        f"!({_qos('LSR')} || {_qos('LSE')}) || object.spec.containers.all(c, has(c.resources) && "
        'has(c.resources.requests) && "cpu" in c.resources.requests && '
        'string(c.resources.requests.cpu).matches("^([0-9]+|[0-9]+000m)$"))'
    ),
    "the qosClass may not change": f"oldObject == null || ({_same(_QOS)})",
}
_BATCH = {
    "batch resources go with the qosClass BE": f"({_has(_QOS)}) && {_qos('BE')}",
}
_ASKS_BATCH = (
    "object.spec.containers.exists(c, has(c.resources) && has(c.resources.requests) && "
    'c.resources.requests.exists(k, k in ["kubernetes.io/batch-cpu", "kubernetes.io/batch-memory"]))'
)
_OURS = f'has(object.spec.schedulerName) && object.spec.schedulerName == "{kinds.SCHEDULER_NAME}"'

_CLASSES = tuple(
    (
        PRIORITY_CLASSES,
        {
            "apiVersion": PRIORITY_CLASSES.api_version,
            "kind": PRIORITY_CLASSES.name,
            "metadata": {"name": f"koord-{band}", "labels": {BROUGHT_BY: kinds.NAME}},
            "value": low,
            "preemptionPolicy": "PreemptLowerPriority",
        },
    )
    for band, (low, _) in _BANDS.items()
)

POLICIES: Final[tuple[Made, ...]] = (
    *_CLASSES,
    *_policy(
        "checked-quotas", rule(kinds.SIGS, "elasticquotas", "CREATE", "UPDATE", versions=("v1alpha1",)), {}, _QUOTAS
    ),
    *_policy("checked-pods", rule("", "pods", "CREATE", "UPDATE"), {"with-a-class": _has(_QOS), "its": _OURS}, _PODS),
    *_policy("batch-pods", rule("", "pods", "CREATE"), {"its": _OURS, "asks-batch-resources": _ASKS_BATCH}, _BATCH),
)
