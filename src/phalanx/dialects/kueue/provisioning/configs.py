"""Read ProvisioningRequestConfigs and the AdmissionChecks that name them.


Source: apis/kueue/v1beta2/provisioningrequestconfig_types.go of v0.19.2.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from phalanx.dialects.frame.dialect import Object, PodSet
from phalanx.dialects.kueue import kinds

CONTROLLER = "kueue.x-k8s.io/provisioning-request"
ATTEMPTS, BASE_S, MOST_S = 3, 60, 1800  # the defaults of retryStrategy


@dataclass(frozen=True, slots=True, kw_only=True)
class Config:
    """A ProvisioningRequestConfig.

    `managed`: nodes are requested only for pod sets that request one of these resources; empty: for all pod sets.
    `attempts`: how often a failed ProvisioningRequest of a job is replaced by a new request. The pause after the first
    failure is `base_s` seconds; it doubles with each further failure, up to `most_s` seconds. `selectors`: a map from a
    key that is added to the pods' node selector to the key in the request's `status.provisioningClassDetails` whose
    value is copied. `merges`: True if identical pod sets of the job become one pod set of the request. `by_needs`: True
    if pod sets with equal scheduling requirements count as identical, even if other fields differ."""

    class_name: str
    parameters: Mapping[str, str] = field(default_factory=dict)
    managed: tuple[str, ...] = ()
    attempts: int = ATTEMPTS
    base_s: int = BASE_S
    most_s: int = MOST_S
    selectors: Mapping[str, str] = field(default_factory=dict)
    merges: bool = False
    by_needs: bool = False

    def wanted(self, sets: tuple[PodSet, ...]) -> tuple[PodSet, ...]:
        """Return the pod sets for which the request asks for nodes."""
        return tuple(each for each in sets if not self.managed or any(name in self.managed for name, _ in each.request))

    def pause_s(self, attempt: int) -> int:
        """Return the pause in seconds after the failed attempt with this number. The first attempt has the number 1."""
        return int(min(self.base_s * 2.0 ** min(attempt - 1, 32), self.most_s))


def config_of(check: Object, configs: Mapping[str, Object]) -> Config | None:
    """Return the config of an AdmissionCheck that creates ProvisioningRequests. Return None if the check belongs to
    another controller, or if the config that it names does not exist."""
    spec: Mapping[str, Any] = check.get("spec") or {}
    named = spec.get("parameters") or {}
    if spec.get("controllerName") != CONTROLLER or named.get("kind") != kinds.PROVISIONING_CONFIGS.name:
        return None
    found = configs.get(str(named.get("name")))
    return None if found is None else _config(found.get("spec") or {})


def _config(spec: Mapping[str, Any]) -> Config:
    retry = spec.get("retryStrategy") or {}
    policy = spec.get("podSetMergePolicy")
    return Config(
        class_name=str(spec.get("provisioningClassName") or ""),
        parameters={str(key): str(text) for key, text in (spec.get("parameters") or {}).items()},
        managed=tuple(map(str, spec.get("managedResources") or ())),
        attempts=int(retry.get("backoffLimitCount", ATTEMPTS)),
        base_s=int(retry.get("backoffBaseSeconds", BASE_S)),
        most_s=int(retry.get("backoffMaxSeconds", MOST_S)),
        selectors={
            str(one.get("key")): str(one.get("valueFromProvisioningClassDetail"))
            for one in (spec.get("podSetUpdates") or {}).get("nodeSelector") or ()
        },
        merges=policy is not None,
        by_needs=policy == "IdenticalWorkloadSchedulingRequirements",
    )
