"""The list of all supported frameworks by job kind. A new framework is added only here."""

from __future__ import annotations

from collections.abc import Mapping

from phalanx.client.kind import Kind
from phalanx.dialects.appwrapper.job_form import APP_WRAPPER, IBM_APP_WRAPPER
from phalanx.dialects.frameworks.form import Framework
from phalanx.dialects.frameworks.job_set import JOB_SET
from phalanx.dialects.frameworks.ray import RAY_CLUSTER, RAY_JOB, RAY_SERVICE
from phalanx.dialects.frameworks.replica_types import MPI_JOB, TRAINING
from phalanx.dialects.frameworks.spark import SPARK
from phalanx.dialects.frameworks.train_job import TRAIN_JOB
from phalanx.dialects.frameworks.volcano_job import VOLCANO_JOB

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
# Policies of the AppWrapper dialect record the creator of these kinds, and no user may write it, not even unchanged.
SIGNED_BY_THEIR_DIALECT = frozenset(each.kind for each in _WRAPPERS)
