"""Define admission policies that refuse the definitions (ClusterQueues and ResourceFlavors) that Kueue's webhooks would
refuse. A policy refuses with 403 Forbidden; a schema refuses with 422 Invalid.


Source: pkg/webhooks of v0.19.2.

This module also lists all admission policies of the dialect. The API server itself evaluates the policies. So, unlike
webhooks, they are always available."""

from __future__ import annotations

from typing import Final

from phalanx.client.kind import Kind
from phalanx.client.policies import rule
from phalanx.dialects.frame.dialect import Object
from phalanx.dialects.kueue import kinds
from phalanx.dialects.kueue.policies.framework_rules import FRAMEWORK_POLICIES, SENDING_POLICIES
from phalanx.dialects.kueue.policies.job_rules import ALIVE, JOB_POLICIES, SIGNATURE_POLICIES, validating

_GROUPS = "has(object.spec.resourceGroups)"
_SELECTOR = "object.spec.namespaceSelector"
_SELECTOR_CHECKS = {
    "namespaceSelector: an operator must be In or NotIn with values, or Exists or DoesNotExist without values": (
        f"!has({_SELECTOR}) || !has({_SELECTOR}.matchExpressions) || {_SELECTOR}.matchExpressions.all(e, "
        '(e.operator in ["In", "NotIn"] && has(e.values) && size(e.values) > 0) || '
        '(e.operator in ["Exists", "DoesNotExist"] && (!has(e.values) || size(e.values) == 0)))'
    ),
}
_WEIGHT = "quantity(string(object.spec.fairSharing.weight))"
_QUOTA_CHECKS = {
    "fairSharing.weight must be 0 or above 1e-9": (
        "!has(object.spec.fairSharing) || !has(object.spec.fairSharing.weight) || "
        f'{_WEIGHT}.compareTo(quantity("0")) == 0 || {_WEIGHT}.compareTo(quantity("1n")) > 0'
    ),
    "a resource must be in only one resource group": (
        f"!{_GROUPS} || object.spec.resourceGroups.all(g, g.coveredResources.all(r, "
        "object.spec.resourceGroups.filter(h, r in h.coveredResources).size() == 1))"
    ),
    "a flavor must be in only one resource group, and only once": (
        f"!{_GROUPS} || object.spec.resourceGroups.all(g, g.flavors.all(f, "
        "object.spec.resourceGroups.map(h, h.flavors.filter(k, k.name == f.name).size()).filter(n, n > 0) == [1]))"
    ),
    "a flavor must list the covered resources in their order": (
        f"!{_GROUPS} || object.spec.resourceGroups.all(g, g.flavors.all(f, "
        "f.resources.map(r, r.name) == g.coveredResources))"
    ),
    "a quota must not be below 0": (
        f"!{_GROUPS} || object.spec.resourceGroups.all(g, g.flavors.all(f, f.resources.all(r, "
        'quantity(string(r.nominalQuota)).compareTo(quantity("0")) >= 0 && '
        '(!has(r.borrowingLimit) || quantity(string(r.borrowingLimit)).compareTo(quantity("0")) >= 0) && '
        '(!has(r.lendingLimit) || quantity(string(r.lendingLimit)).compareTo(quantity("0")) >= 0))))'
    ),
}
_IN_COHORT = "has(object.spec.cohortName) && object.spec.cohortName != '' || has(object.spec.cohort)"
_LENDING_CHECKS = {
    "lendingLimit requires a cohort": (
        f"!{_GROUPS} || {_IN_COHORT} || object.spec.resourceGroups.all(g, g.flavors.all(f, "
        "f.resources.all(r, !has(r.lendingLimit))))"
    ),
    "lendingLimit must not exceed nominalQuota": (
        f"!{_GROUPS} || object.spec.resourceGroups.all(g, g.flavors.all(f, f.resources.all(r, !has(r.lendingLimit) || "
        "quantity(string(r.lendingLimit)).compareTo(quantity(string(r.nominalQuota))) <= 0)))"
    ),
}
_COHORT_CHECKS = {
    f"{limit} requires a parent": (
        f"!{_GROUPS} || has(object.spec.parentName) && object.spec.parentName != '' || "
        f"object.spec.resourceGroups.all(g, g.flavors.all(f, f.resources.all(r, !has(r.{limit}))))"
    )
    for limit in ("borrowingLimit", "lendingLimit")
}
_FLAVOR_CHECKS = {
    "a taint must be listed only once": (
        "!has(object.spec.nodeTaints) || object.spec.nodeTaints.all(t, object.spec.nodeTaints.filter(o, "
        "o.key == t.key && o.effect == t.effect).size() == 1)"
    ),
}
_VERSIONS = ("v1beta1", "v1beta2")


def _definition_rule(plural: str) -> list[Object]:
    return [rule(kinds.GROUP, plural, "CREATE", "UPDATE", versions=_VERSIONS)]


_SPEC = {**ALIVE, "has-spec": "has(object.spec)"}
DEFINITION_POLICIES: Final[tuple[tuple[Kind, Object], ...]] = (
    *validating(
        "checked-clusterqueues",
        _definition_rule("clusterqueues"),
        _SPEC,
        {**_SELECTOR_CHECKS, **_QUOTA_CHECKS, **_LENDING_CHECKS},
    ),
    *validating("checked-cohorts", _definition_rule("cohorts"), _SPEC, {**_QUOTA_CHECKS, **_COHORT_CHECKS}),
    *validating("checked-resourceflavors", _definition_rule("resourceflavors"), _SPEC, _FLAVOR_CHECKS),
)


POLICIES: Final[tuple[tuple[Kind, Object], ...]] = (
    *JOB_POLICIES,
    *FRAMEWORK_POLICIES,
    *SENDING_POLICIES,
    *SIGNATURE_POLICIES,
    *DEFINITION_POLICIES,
)
