"""The group of controllers for workloads, for Services, and for volumes."""

from __future__ import annotations

from pathlib import Path

from phalanx.embedded.controllers.groups.group import ControllerGroup
from phalanx.embedded.controllers.runtime.reconciler import ControllerContext
from phalanx.embedded.controllers.workloads.cron_job import CronJobController
from phalanx.embedded.controllers.workloads.deployment import DeploymentController
from phalanx.embedded.controllers.workloads.endpoints import ServiceController
from phalanx.embedded.controllers.workloads.replica_set import ReplicaSetController, ReplicationControllerController
from phalanx.embedded.controllers.workloads.stateful_set import StatefulSetController
from phalanx.embedded.controllers.workloads.volume_binding import VolumeBinding


def workload_group(context: ControllerContext, volumes_dir: Path | None) -> ControllerGroup:
    """Return the controllers. `volumes_dir`: see `Settings`."""
    return ControllerGroup(
        loops=(
            CronJobController(context),
            ReplicaSetController(context),
            ReplicationControllerController(context),
            DeploymentController(context),
            StatefulSetController(context),
            ServiceController(context),
            VolumeBinding(context.calls, context.recorder, volumes_dir, retry=context.retry),
        )
    )
