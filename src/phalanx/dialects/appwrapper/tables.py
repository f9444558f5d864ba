"""What becomes of every field of an AppWrapper, and of its annotations.

The page docs/dialects/appwrapper.md is made from these tables; a test walks every field of its definition.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from phalanx.dialects.appwrapper import kinds
from phalanx.dialects.frame import Answered, Becomes, Ignored, Use

_QUEUE = "of Kueue's own controller; here flavors are where pods are bound"
APP_WRAPPER: Mapping[str, Use] = {
    "spec.suspend": Becomes("queued", "true at its creation; false when all of its pods have a place"),
    "spec.managedBy": Becomes("left alone", f"where it names another than {kinds.MANAGER}"),
    "spec.components[].template": Becomes("created", "with the rights of who created the AppWrapper"),
    "spec.components[].podSets[].path": Becomes("Role.shape", "the template of pods there"),
    "spec.components[].podSets[].replicas": Becomes("Role.count", "1 if it is left out"),
    "spec.components[].podSets[].annotations": Ignored("for topologies: write phalanx.dev/closeness on the AppWrapper"),
    "spec.components[].podSetInfos[].labels": Becomes("created", _QUEUE),
    "spec.components[].podSetInfos[].annotations": Becomes("created", _QUEUE),
    "spec.components[].podSetInfos[].nodeSelector": Becomes("created", _QUEUE),
    "spec.components[].podSetInfos[].tolerations": Becomes("created", _QUEUE),
    "spec.components[].podSetInfos[].schedulingGates": Becomes("created", _QUEUE),
    "spec.components[].annotations": Ignored("free text, with its controller as here"),
    "status.phase": Answered(),
    "status.resettingCount": Answered(),
    "status.conditions": Answered("QuotaReserved, ResourcesDeployed, PodsReady, Unhealthy, DeletingResources"),
    "status.componentStatus[].name": Answered(),
    "status.componentStatus[].kind": Answered(),
    "status.componentStatus[].apiVersion": Answered(),
    "status.componentStatus[].podSets": Answered(),
    "status.componentStatus[].conditions": Answered("ResourcesDeployed"),
}
WORDS: Final[Mapping[str, Use]] = {
    f"{kinds.PREFIX}admissionGracePeriodDuration": Becomes("reset", "until all pods exist; 1m"),
    f"{kinds.PREFIX}warmupGracePeriodDuration": Becomes("reset", "until all pods run; 5m"),
    f"{kinds.PREFIX}failureGracePeriodDuration": Becomes("reset", "that pods may have failed for; 1m"),
    f"{kinds.PREFIX}retryPausePeriodDuration": Becomes("reset", "before it is created again; 90s"),
    f"{kinds.PREFIX}retryLimit": Becomes("reset", "so often; 3"),
    f"{kinds.PREFIX}forcefulDeletionGracePeriodDuration": Becomes("reset", "then pods are deleted at once; 10m"),
    f"{kinds.PREFIX}deletionOnFailureGracePeriodDuration": Becomes("failed", "until what it wraps is deleted; 0s"),
    f"{kinds.PREFIX}successTTLDuration": Becomes("succeeded", "until what it wraps is deleted; 7 days, and no more"),
    f"{kinds.PREFIX}terminalExitCodes": Becomes("failed", "no more retries after one of them"),
    f"{kinds.PREFIX}retryableExitCodes": Becomes("failed", "no more retries after any other"),
    f"{kinds.PREFIX}tas-pod-index-label": Ignored("for Kueue's topologies"),
    f"{kinds.PREFIX}tas-sub-group-index-label": Ignored("for Kueue's topologies"),
    f"{kinds.PREFIX}tas-sub-group-count": Ignored("for Kueue's topologies"),
    kinds.USER: Answered("the user who created it, where the name can be a label"),
    kinds.USER_ID: Ignored("phalanx.dev/user and phalanx.dev/user-groups say who created it"),
}
