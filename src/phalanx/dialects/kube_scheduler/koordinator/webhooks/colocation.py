"""Translates each ClusterColocationProfile into a mutating admission policy, which changes new pods like Koordinator's
webhook.

All profiles that match a pod change it, in the order of their names. The selectors of a profile become selectors of its
policy. The probability becomes a bound for the uid of the request, which is random. Two parts are left out: the field
`patch`, and the translation of cpu and memory requests of mid and batch pods, because it needs node resources that only
Koordinator's node agent writes.

Source: pkg/webhook/pod/mutating/cluster_colocation_profile.go of v1.8.0.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from phalanx.client.kind import PRIORITY_CLASSES, Kind
from phalanx.client.policies import MUTATING, MUTATING_BINDINGS, bound, made, rule
from phalanx.dialects.frame.dialect import Object
from phalanx.dialects.kube_scheduler.koordinator import kinds

_QOS, _PRIORITY = kinds.QOS, kinds.PRIORITY
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
        if share < _ALL:  # the type of `request` has no uid: its value has one, on `phalanx up`, where this is used
            limit = f"{share * 2**32 // _ALL:08x}"
            policy["matchConditions"] = [{"name": "probability", "expression": f'dyn(request).uid < "{limit}"'}]
        return made(MUTATING, name, policy), bound(MUTATING, name)


COLOCATION: Final = ColocationProfiles()


def percent(said: Any) -> int:
    """Return the probability of a profile, from 0 to 100; 100 if it is absent or invalid."""
    found = _PERCENT.fullmatch(str(said)) if said is not None else None
    return min(_ALL, int(found[1])) if found else _ALL


# --- inside -----------------------------------------------------------------------------------------------------------


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


def _mapped(field: str, keys: Mapping[str, Any]) -> Iterator[str]:
    """Yield CEL expressions that copy the value of one key to another, on pods that have the first."""
    for source, target in sorted(keys.items()):
        yield _copied(field, str(source), str(target))


def _copied(field: str, source: str, target: str, suffix: str = "") -> str:
    here = f"object.metadata.{field}"
    there = f"has({here}) && {json.dumps(source)} in {here}"
    entry = f"{json.dumps(target)}: {here}[{json.dumps(source)}]{suffix}"
    return f"{there} ? Object{{metadata: Object.metadata{{{field}: {{{entry}}}}}}} : Object{{}}"
