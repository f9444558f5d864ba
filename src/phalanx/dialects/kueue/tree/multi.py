"""MultiKueue's definitions: AdmissionChecks of its controller, their configs, and the clusters that these name.


Source: pkg/controller/admissionchecks/multikueue/admissioncheck.go of v0.19.2.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from phalanx.dialects.frame.dialect import Object
from phalanx.dialects.kueue import kinds

CONTROLLER = "kueue.x-k8s.io/multikueue"
MANAGED_BY = CONTROLLER  # of jobs that other clusters run


class Activity(NamedTuple):
    """The condition Active of an AdmissionCheck. `truth`: its status is True."""

    truth: bool
    reason: str
    message: str


NOT_SENT = Activity(False, "NoUsableClusters", "its clusters are connected, and jobs are not sent to them yet")


def clusters_of(check: Object, configs: Mapping[str, Object]) -> tuple[str, ...] | None:
    """Return the clusters of a check, in their order; None if the check is of another controller, or names no
    MultiKueueConfig that exists."""
    spec: Mapping[str, Any] = check.get("spec") or {}
    named = spec.get("parameters") or {}
    if spec.get("controllerName") != CONTROLLER or named.get("kind") != kinds.MULTI_CONFIGS.name:
        return None
    found = configs.get(str(named.get("name")))
    return None if found is None else tuple(map(str, (found.get("spec") or {}).get("clusters") or ()))


def activity(check: Object, configs: Mapping[str, Object], clusters: Mapping[str, Object]) -> Activity:
    """Return the condition Active of a check of MultiKueue. `clusters`: the MultiKueueClusters."""
    listed = clusters_of(check, configs)
    if listed is None:
        named = ((check.get("spec") or {}).get("parameters") or {}).get("name") or "none"
        text = f"Cannot load the AdmissionChecks parameters: there is no MultiKueueConfig that they name: {named}"
        return Activity(False, "BadConfig", text)
    missing = [name for name in listed if name not in clusters]
    inactive = [name for name in listed if name in clusters and not is_active(clusters[name])]
    if not missing and not inactive:
        return NOT_SENT
    lists = (("Missing", missing), ("Inactive", inactive))
    text = ", ".join(f"{word} clusters: [{' '.join(names)}]" for word, names in lists if names)
    return Activity(False, "NoUsableClusters", text)


def is_active(obj: Object) -> bool:
    """Return whether the condition Active of an object is True."""
    conditions = (obj.get("status") or {}).get("conditions") or ()
    return any(one.get("type") == "Active" and one.get("status") == "True" for one in conditions)
