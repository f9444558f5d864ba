"""The default of `managedBy`: a new job of a LocalQueue that sends its jobs to other clusters is left alone by its own
controller. The scheduler keeps the list of these LocalQueues in a ConfigMap, which is the parameter of the policies. A
Volcano Job, which has no such field, gets the value as its `schedulerName`.


Source: pkg/controller/jobframework/defaults.go of v0.20 (ApplyDefaultForManagedBy).
"""

from __future__ import annotations

from typing import Final

from phalanx.client.kind import JOB_SETS, JOBS, Kind
from phalanx.client.policies import rule
from phalanx.dialects.frame.dialect import Object
from phalanx.dialects.job_kinds.appwrapper.job_form import APP_WRAPPER
from phalanx.dialects.job_kinds.ray import RAY_CLUSTER, RAY_JOB, RAY_SERVICE
from phalanx.dialects.job_kinds.replica_types import MPI_JOB, TRAINING
from phalanx.dialects.job_kinds.volcano_job import VOLCANO_JOB
from phalanx.dialects.kueue import kinds
from phalanx.dialects.kueue.policies.policy import LABELS, NOT_OWNED, QUEUED, mutating
from phalanx.dialects.kueue.tree.multi import CONTROLLER, SENDING

_OPERATORS = (
    *("kubernetes.io/job-controller", "jobset.sigs.k8s.io/jobset-controller", "ray.io/kuberay-operator"),
    *("workload.codeflare.dev/appwrapper", "kubeflow.org/training-operator", "kubeflow.org/mpi-operator"),
)
_SCHEDULERS = ("volcano", "phalanx", "default-scheduler")
_IN_SPEC = (JOBS, JOB_SETS, APP_WRAPPER.kind, RAY_JOB.kind, RAY_CLUSTER.kind, RAY_SERVICE.kind)
_IN_POLICY = tuple(each.kind for each in (*TRAINING, MPI_JOB))
_SENDS = {
    "sends-jobs": (
        'has(params.data) && "queues" in params.data && params.data["queues"].contains("," + '
        f'object.metadata.namespace + "/" + {LABELS}["{kinds.QUEUE_LABEL}"] + ",")'
    )
}


def _defaulted(
    name: str, of: tuple[Kind, ...], parent: str, field: str = "managedBy", usual: tuple[str, ...] = _OPERATORS
) -> list[tuple[Kind, Object]]:
    """Return a policy and its binding. `parent`: the object that has the field. `usual`: the values of jobs that stay
    in this cluster."""
    path = parent.removeprefix("object").replace(".", "/")
    own = ", ".join(f'"{one}"' for one in usual)
    unset = f"!has({parent}) || !has({parent}.{field}) || {parent}.{field} in [{own}]"
    conditions = {"queued": QUEUED, "own": NOT_OWNED, "of-its-own-controller": unset, **_SENDS}
    change = (
        f'has({parent}) ? [JSONPatch{{op: "add", path: "{path}/{field}", value: "{CONTROLLER}"}}] : '
        f'[JSONPatch{{op: "add", path: "{path}", value: {{"{field}": "{CONTROLLER}"}}}}]'
    )
    rules = [rule(kind.group, kind.plural, "CREATE", versions=(kind.version,)) for kind in of]
    (kind, policy), (bound, binding) = mutating(name, rules, conditions, change, patch=True)
    policy["spec"] |= {"failurePolicy": "Ignore", "paramKind": {"apiVersion": "v1", "kind": "ConfigMap"}}
    binding["spec"]["paramRef"] = {
        "name": SENDING,
        "namespace": "kueue-system",
        "parameterNotFoundAction": "Allow",
    }
    return [(kind, policy), (bound, binding)]


# Policies act in the order of their names: after the default queue is set, and before `jobs` chooses a scheduler name.
SENDING_POLICIES: Final[tuple[tuple[Kind, Object], ...]] = (
    *_defaulted("elsewhere", _IN_SPEC, "object.spec"),
    *_defaulted("elsewhere-run-policy", _IN_POLICY, "object.spec.runPolicy"),
    *_defaulted("elsewhere-volcano", (VOLCANO_JOB.kind,), "object.spec", "schedulerName", _SCHEDULERS),
)
