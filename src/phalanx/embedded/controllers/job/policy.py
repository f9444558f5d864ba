"""podFailurePolicy and successPolicy of a Job: what a failed pod means, and when some successes are enough.

The first rule that matches decides (KEP-3329, KEP-3998). Without a match a failure counts.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from phalanx.client.connection import Object
from phalanx.embedded.controllers.job.indexes import Indexes
from phalanx.embedded.controllers.runtime.pod_state import is_deleting, phase


@dataclass(frozen=True, slots=True, kw_only=True)
class PodFailureEffect:
    """The effect of a failed pod on its Job. `message` is set by FailJob only; `counts` is towards the backoff
    limits."""

    counts: bool = True
    fails_index: bool = False
    message: str | None = None


def replaces_only_failed(spec: Mapping[str, Any]) -> bool:
    """Return True if a terminating pod is replaced only when it has ended (podReplacementPolicy: Failed, KEP-3939)."""
    return spec.get("podReplacementPolicy") == "Failed" or "podFailurePolicy" in spec


def has_failed(pod: Object, spec: Mapping[str, Any]) -> bool:
    """Return True if the pod has failed. A pod that is being deleted and has not succeeded counts as failed if such
    pods are replaced at once."""
    if phase(pod) == "Failed":
        return True
    return not replaces_only_failed(spec) and is_deleting(pod) and phase(pod) != "Succeeded"


def judge(pod: Object, spec: Mapping[str, Any]) -> PodFailureEffect:
    """Return the verdict of podFailurePolicy on a failed pod."""
    for number, rule in enumerate(spec.get("podFailurePolicy", {}).get("rules") or ()):
        reason = _exit_code(pod, rule) if rule.get("onExitCodes") else _pod_condition(pod, rule)
        if reason is None:
            continue
        match rule["action"]:
            case "FailJob":
                return PodFailureEffect(message=f"{reason} matching FailJob rule at index {number}")
            case "Ignore":
                return PodFailureEffect(counts=False)
            case "FailIndex":
                return PodFailureEffect(fails_index=True)
            case "Count":
                return PodFailureEffect()
    return PodFailureEffect()


def success_message(spec: Mapping[str, Any], succeeded: Indexes) -> str | None:
    """Return the message of the first rule of successPolicy that `succeeded` meets."""
    rules: Iterable[Mapping[str, Any]] = spec.get("successPolicy", {}).get("rules") or ()
    for number, rule in enumerate(rules):
        if len(succeeded) and _meets(rule, succeeded, spec["completions"]):
            return f"Matched rules at index {number}"
    return None


def _meets(rule: Mapping[str, Any], succeeded: Indexes, completions: int) -> bool:
    count = rule.get("succeededCount")
    if rule.get("succeededIndexes") is None:
        return count is not None and len(succeeded) >= count
    wanted = Indexes.parse(rule["succeededIndexes"], completions)
    have = wanted.common(succeeded)
    return len(wanted) > 0 and (have == len(wanted) or (count is not None and have >= count))


def _exit_code(pod: Object, rule: Mapping[str, Any]) -> str | None:
    wanted, status = rule["onExitCodes"], pod.get("status", {})
    for container in [*(status.get("containerStatuses") or ()), *(status.get("initContainerStatuses") or ())]:
        code = container.get("state", {}).get("terminated", {}).get("exitCode", 0)
        if code == 0 or wanted.get("containerName") not in {None, container["name"]}:
            continue
        if (code in wanted["values"]) == (wanted["operator"] == "In"):
            return f"Container {container['name']} for pod {_name(pod)} failed with exit code {code}"
    return None


def _pod_condition(pod: Object, rule: Mapping[str, Any]) -> str | None:
    wanted = {(pattern["type"], pattern.get("status", "True")) for pattern in rule.get("onPodConditions") or ()}
    for entry in pod.get("status", {}).get("conditions") or ():
        if (entry["type"], entry.get("status")) in wanted:
            return f"Pod {_name(pod)} has condition {entry['type']}"
    return None


def _name(pod: Object) -> str:
    return f"{pod['metadata']['namespace']}/{pod['metadata']['name']}"
