"""The group of controllers that run the job kinds of other projects."""

from __future__ import annotations

from phalanx.embedded.controllers.groups.group import ControllerGroup
from phalanx.embedded.controllers.groups.settings import Settings
from phalanx.embedded.controllers.operators.appwrapper.controller import AppWrapperController
from phalanx.embedded.controllers.operators.job_set.controller import JobSetController
from phalanx.embedded.controllers.operators.mpi_job.controller import MPIJobController
from phalanx.embedded.controllers.operators.profiles import ProfileController
from phalanx.embedded.controllers.operators.train_job.controller import TrainJobController
from phalanx.embedded.controllers.operators.training.controller import TrainingController
from phalanx.embedded.controllers.operators.volcano.commands import CommandController, QueueController
from phalanx.embedded.controllers.operators.volcano.controller import VolcanoJobController
from phalanx.embedded.controllers.operators.volcano.flows import CRONS, JobFlowController
from phalanx.embedded.controllers.operators.volcano.pod_groups import PodGroupController
from phalanx.embedded.controllers.runtime.reconciler import ControllerContext
from phalanx.embedded.controllers.workloads.cron_job import CronJobController


def operator_group(context: ControllerContext, settings: Settings) -> ControllerGroup:
    """Return the controllers. A kind that is not served yet does not delay the others."""
    volcano = VolcanoJobController(context)
    profiles = () if settings.profiles is None else (ProfileController(context, settings.profiles),)
    return ControllerGroup(
        loops=(
            TrainingController(context),
            volcano,
            CommandController(context, volcano.command),
            JobSetController(context),
            MPIJobController(context),
            TrainJobController(context),
            QueueController(context),
            PodGroupController(context),
            JobFlowController(context),
            CronJobController(context, CRONS),
            *(AppWrapperController(context, wrapping) for wrapping in settings.wrappings),
            *profiles,
        )
    )
