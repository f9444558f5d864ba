"""List all supported frameworks by job kind. Only this module must change if a framework is added."""

from __future__ import annotations

from collections.abc import Mapping

from phalanx.client.kind import Kind
from phalanx.dialects.job_kinds.appwrapper.job_form import APP_WRAPPER, IBM_APP_WRAPPER
from phalanx.dialects.job_kinds.form import Framework
from phalanx.dialects.job_kinds.job_set import JOB_SET
from phalanx.dialects.job_kinds.ray import RAY_CLUSTER, RAY_JOB, RAY_SERVICE
from phalanx.dialects.job_kinds.replica_types import MPI_JOB, TRAINING
from phalanx.dialects.job_kinds.sent_volcano_job import VOLCANO_JOB
from phalanx.dialects.job_kinds.spark import SPARK
from phalanx.dialects.job_kinds.train_job import TRAIN_JOB

_WRAPPERS = (APP_WRAPPER, IBM_APP_WRAPPER)
_ALL: tuple[Framework, ...] = (
    *TRAINING,
    MPI_JOB,
    JOB_SET,
    TRAIN_JOB,
    RAY_CLUSTER,
    RAY_JOB,
    RAY_SERVICE,
    SPARK,
    *_WRAPPERS,
    VOLCANO_JOB,
)
FRAMEWORKS: Mapping[Kind, Framework] = {each.kind: each for each in _ALL}
# For objects of these kinds, policies of the AppWrapper dialect record the creator in annotations that no user can
# change.
SIGNED_BY_THEIR_DIALECT = frozenset(each.kind for each in _WRAPPERS)
