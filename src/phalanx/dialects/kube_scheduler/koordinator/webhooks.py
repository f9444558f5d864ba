"""Replace Koordinator's webhooks by admission policies, whose rules are CEL expressions. The API server itself
evaluates the policies. So, unlike webhooks, they are always available.

The first part translates each ClusterColocationProfile into a mutating admission policy, which changes new pods like
Koordinator's webhook. All profiles that match a pod change it, in the order of their names. The selectors of a profile
become selectors of its policy. If a profile has a probability, its policy applies only to admission requests whose uid
is below a bound. (The uid of an admission request is random.) Two parts of a profile are left out: the field `patch`,
and the translation of cpu and memory requests of mid and batch pods, because this translation needs node resources that
only Koordinator's node agent writes.

The second part contains the checks of the other webhooks, and the PriorityClasses of Koordinator's installation. The
policies for quotas check that `min` is at most `max`, and that no update moves a quota to another tree. For pods with
Koordinator's labels they check that the QoS class is allowed for the priority, and that the cpu request of a pod with
exclusive cpus is a whole number. A policy cannot check errors that involve other objects, such as a missing parent, or
children whose `min` exceeds the parent's `min` in total. The status of the queue shows these errors instead. A user
with the right to delete a quota may always do so.

Sources: pkg/webhook/pod/mutating/cluster_colocation_profile.go and pkg/webhook/{elasticquota,pod/validating} of v1.8.0.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from phalanx.client.kind import PRIORITY_CLASSES, Kind
from phalanx.client.policies import MUTATING, MUTATING_BINDINGS, Made, bound, made, refusing, rule
from phalanx.dialects.frame.dialect import BROUGHT_BY, Object
from phalanx.dialects.kube_scheduler.koordinator import kinds

_QOS = kinds.QOS
_PRIORITY = kinds.PRIORITY
_PERCENT = re.compile(r"(\d{1,3})%?")
_ALL: Final = 100


class ColocationProfiles:
    """Koordinator's implementation of `Profiles`, for the controller of ClusterColocationProfiles."""

    kind: Final[Kind] = kinds.COLOCATION_PROFILES
    classes: Final[Kind] = PRIORITY_CLASSES
    made: Final[tuple[Kind, Kind]] = (MUTATING, MUTATING_BINDINGS)

    def objects(self, profile: Object, classes: Mapping[str, Object]) -> Sequence[tuple[Kind, Object]]:
        """Return the policy of a profile and its binding; empty if the profile changes nothing. `classes`: the
        PriorityClasses by name."""
        spec, name = profile.get("spec") or {}, f"colocation.{profile['metadata']['name']}.koordinator.phalanx.dev"
        share = percent(spec.get("probability"))
        mutations = [_mutation(text) for text in _changes(spec, classes)]
        if not share or not mutations:
            return ()
        selectors = {"namespaceSelector": spec.get("namespaceSelector"), "objectSelector": spec.get("selector")}
        policy: Object = {
            "failurePolicy": "Ignore",
            "reinvocationPolicy": "Never",
            "matchConstraints": {
                "resourceRules": [rule("", "pods", "CREATE")],
                **{key: each for key, each in selectors.items() if each},
            },
            "mutations": mutations,
        }
        if share < _ALL:  # `dyn`, because CEL's type of `request` declares no field uid
            limit = f"{share * 2**32 // _ALL:08x}"
            policy["matchConditions"] = [{"name": "probability", "expression": f'dyn(request).uid < "{limit}"'}]
        return made(MUTATING, name, policy), bound(MUTATING, name)


COLOCATION: Final = ColocationProfiles()


def percent(said: object) -> int:
    """Return the probability of a profile, from 0 to 100; 100 if it is absent or invalid."""
    found = _PERCENT.fullmatch(str(said)) if said is not None else None
    return min(_ALL, int(found[1])) if found else _ALL


def _mutation(expression: str) -> Object:
    return {"patchType": "ApplyConfiguration", "applyConfiguration": {"expression": expression}}


def _changes(spec: Mapping[str, Any], classes: Mapping[str, Object]) -> Iterator[str]:
    """Yield a CEL expression for each change, in the order of Koordinator's webhook."""
    labels = {str(key): str(text) for key, text in (spec.get("labels") or {}).items()}
    if labels:
        yield _metadata("labels", labels)
    yield from _mapped("labels", spec.get("labelKeysMapping") or {})
    if annotations := {str(key): str(text) for key, text in (spec.get("annotations") or {}).items()}:
        yield _metadata("annotations", annotations)
    yield from _mapped("annotations", spec.get("annotationKeysMapping") or {})
    for key, suffix in (spec.get("labelSuffixes") or {}).items():
        yield _copied("labels", str(key), str(key), f" + {json.dumps(str(suffix))}")
    if scheduler := spec.get("schedulerName"):
        yield f"Object{{spec: Object.spec{{schedulerName: {json.dumps(str(scheduler))}}}}}"
    if qos := spec.get("qosClass"):
        yield _metadata("labels", {_QOS: str(qos)})
    if found := classes.get(str(spec.get("priorityClassName") or "")):
        preempts = str(found.get("preemptionPolicy") or "PreemptLowerPriority")
        name = json.dumps(found["metadata"]["name"])
        fields = f"priorityClassName: {name}, priority: {int(found.get('value') or 0)}"
        yield f"Object{{spec: Object.spec{{{fields}, preemptionPolicy: {json.dumps(preempts)}}}}}"
    if (priority := spec.get("koordinatorPriority")) is not None:
        yield _metadata("labels", {_PRIORITY: str(int(priority))})


def _metadata(field: str, values: Mapping[str, str]) -> str:
    said = ", ".join(f"{json.dumps(key)}: {json.dumps(text)}" for key, text in sorted(values.items()))
    return f"Object{{metadata: Object.metadata{{{field}: {{{said}}}}}}}"


def _mapped(field: str, keys: Mapping[str, object]) -> Iterator[str]:
    """Yield CEL expressions that copy the value of one key to another, on pods that have the first key."""
    for source, target in sorted(keys.items()):
        yield _copied(field, str(source), str(target))


def _copied(field: str, source: str, target: str, suffix: str = "") -> str:
    here = f"object.metadata.{field}"
    has_source = f"has({here}) && {json.dumps(source)} in {here}"
    entry = f"{json.dumps(target)}: {here}[{json.dumps(source)}]{suffix}"
    return f"{has_source} ? Object{{metadata: Object.metadata{{{field}: {{{entry}}}}}}} : Object{{}}"


# --- checks -----------------------------------------------------------------------------------------------------------

_LABELS, _OLD_LABELS = "object.metadata.labels", "oldObject.metadata.labels"
_PRIORITY_CLASS, _BANDS = kinds.PRIORITY_CLASS, kinds.BANDS


def _has(key: str, of: str = _LABELS) -> str:
    return f'has({of}) && "{key}" in {of}'


def _same(key: str) -> str:
    """Return a CEL expression that is true if an update does not change the label `key`."""
    before, after = f"({_has(key, _OLD_LABELS)})", f"({_has(key)})"
    return f'{before} == {after} && (!{after} || {_LABELS}["{key}"] == {_OLD_LABELS}["{key}"])'


def _in_band(*bands: str) -> str:
    """Return a CEL expression that is true if the pod's priority is in one of these priority bands (for example
    koord-prod). The label with the priority class takes precedence over the number in the spec."""
    named = ", ".join(f'"koord-{band}"' for band in bands)
    ranges = " || ".join(
        f"(object.spec.priority >= {low} && object.spec.priority <= {high})"
        for low, high in (_BANDS[band] for band in bands)
    )
    label = f'{_LABELS}["{_PRIORITY_CLASS}"]'
    return f"(({_has(_PRIORITY_CLASS)}) ? {label} in [{named}] : (has(object.spec.priority) && ({ranges})))"


def _none() -> str:
    """Return a CEL expression that is true if the pod's priority is in none of the priority bands (koord-prod,
    koord-mid and so on)."""
    return f"!{_in_band(*_BANDS)}"


def _qos(name: str) -> str:
    return f'{_LABELS}["{_QOS}"] == "{name}"'


def _policy(name: str, rule: Object, conditions: dict[str, str], checks: dict[str, str]) -> list[Made]:
    return refusing(f"{name}.koordinator.phalanx.dev", [rule], conditions, checks)


_MIN, _MAX = "object.spec.min", "object.spec.max"
_NAMES_MIN = f"!has(object.spec) || !has({_MIN})"
_QUOTAS = {
    "every resource in spec.min must also be in spec.max": f"{_NAMES_MIN} || (has({_MAX}) && {_MIN}.all(k, k in "
    f"{_MAX}))",
    "spec.min must not exceed spec.max": (
        f"{_NAMES_MIN} || !has({_MAX}) || {_MIN}.all(k, !(k in {_MAX}) || "
        f"quantity(string({_MIN}[k])).compareTo(quantity(string({_MAX}[k]))) <= 0)"
    ),
    "the tree of a quota must not change": f"oldObject == null || ({_same(f'{kinds.QUOTA}tree-id')})",
}
_PODS = {
    "the qosClass must be one of LSE, LSR, LS, BE and SYSTEM": (
        f'{_LABELS}["{_QOS}"] in ["LSE", "LSR", "LS", "BE", "SYSTEM"]'
    ),
    "the qosClass BE requires a priority class other than koord-prod": (
        f"!({_qos('BE')}) || !({_in_band('prod')} || {_none()})"
    ),
    "the qosClass LSR requires the priority class koord-prod": f"!({_qos('LSR')}) || {_in_band('prod')}",
    "pods of the qosClass LSR or LSE must request a whole number of cpus": (
        f"!({_qos('LSR')} || {_qos('LSE')}) || object.spec.containers.all(c, has(c.resources) && "
        'has(c.resources.requests) && "cpu" in c.resources.requests && '
        'string(c.resources.requests.cpu).matches("^([0-9]+|[0-9]+000m)$"))'
    ),
    "the qosClass must not change": f"oldObject == null || ({_same(_QOS)})",
}
_BATCH = {
    "batch resources require the qosClass BE": f"({_has(_QOS)}) && {_qos('BE')}",
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
