"""Define admission policies that change framework jobs and serving workloads (Deployments, StatefulSets,
LeaderWorkerSets) that name a LocalQueue, as Kueue's webhooks do.

Most framework jobs have a field that suspends them. A policy sets this field when a user creates the job. The policy
also suspends a job that names no LocalQueue, if its namespace has the LocalQueue `default` or if Kueue's Configuration
manages such jobs. Serving workloads have no such field, so their pods are queued: a policy adds the queue label and
Phalanx's scheduler name to their pod templates. Each pod of a Deployment is then a job of its own. The pods of a
StatefulSet form one gang, and so do the pods of each group of a LeaderWorkerSet.


Sources: pkg/controller/jobs/{jobset,mpijob,trainjob,raycluster,rayjob,rayservice,sparkapplication,kubeflow,deployment,
statefulset,leaderworkerset}/*_webhook.go of v0.20.

Further policies set the default of `managedBy`. If a LocalQueue sends its jobs to other clusters, its new jobs get a
value of `managedBy` with which the job's own controller ignores the job. The scheduler keeps the list of these
LocalQueues in a ConfigMap, which is the parameter of the policies. A Volcano Job has no field `managedBy`, so a policy
writes the value into its `schedulerName`.


Source: pkg/controller/jobframework/defaults.go of v0.20 (ApplyDefaultForManagedBy)."""

from __future__ import annotations

from typing import Final

from phalanx.client.kind import JOB_SETS, JOBS, Kind
from phalanx.client.policies import rule
from phalanx.dialects.frame.dialect import Object
from phalanx.dialects.job_kinds.appwrapper.job_form import APP_WRAPPER, IBM_APP_WRAPPER
from phalanx.dialects.job_kinds.ray import RAY_CLUSTER, RAY_JOB, RAY_SERVICE
from phalanx.dialects.job_kinds.replica_types import MPI_JOB, TRAINING
from phalanx.dialects.job_kinds.sent_volcano_job import VOLCANO_JOB
from phalanx.dialects.job_kinds.spark import SPARK
from phalanx.dialects.job_kinds.supported import FRAMEWORKS
from phalanx.dialects.kueue import kinds
from phalanx.dialects.kueue.gangs import GROUP_COUNT, GROUP_NAME, ROLE_HASH
from phalanx.dialects.kueue.gangs import UNQUEUED as UNQUEUED_MARK
from phalanx.dialects.kueue.policies.job_rules import (
    ALIVE,
    IS_MANAGED,
    LABELS,
    NOT_OWNED,
    QUEUED,
    QUEUED_BEFORE,
    UNQUEUED,
    if_managed,
    in_default_queue,
    label_checks,
    mutating,
    validating,
)
from phalanx.dialects.kueue.tree.checks import CONTROLLER, SENDING

_CONDITIONS = {"queued": QUEUED, "own": NOT_OWNED}
_SUSPEND = (
    '!has(object.spec) ? [JSONPatch{op: "add", path: "/spec", value: {"suspend": true}}] : '
    'type(object.spec) == map ? [JSONPatch{op: "add", path: "/spec/suspend", value: true}] : []'
)
_SUSPEND_POLICY = (
    "!has(object.spec.runPolicy) || object.spec.runPolicy == null ? "
    '[JSONPatch{op: "add", path: "/spec/runPolicy", value: {"suspend": true}}] : '
    "type(object.spec.runPolicy) == map ? "
    '[JSONPatch{op: "add", path: "/spec/runPolicy/suspend", value: true}] : []'
)
_SUSPEND_CLUSTER = _SUSPEND_POLICY.replace("runPolicy", "rayClusterConfig")


def _are_objects(path: str) -> str:
    """Return a CEL expression that is true if the value at `path` and the values above it are JSON objects. An
    expression that reads a field of any other value has an error, and the API server shows this error to the user
    instead of the errors of the schema."""
    names = path.split(".")
    paths = [".".join(names[: end + 1]) for end in range(1, len(names))]
    return " && ".join(f"has({one}) && type({one}) == map" for one in paths)


_HAS_SPEC = {"has-spec": _are_objects("object.spec")}
# The schema of a project may accept a job without a spec. No policy could suspend this job.
_NEEDS_SPEC = {"spec: Required value": 'request.operation != "CREATE" || has(object.spec)'}
# The fields of the spec that define the pods. The projects' schemas require them, and Kueue's webhook requires them of
# a RayJob. But `phalanx up --kinds` defines these kinds without a schema.
_POD_FIELDS: dict[Kind, tuple[str, ...]] = {
    RAY_CLUSTER.kind: ("headGroupSpec",),
    RAY_JOB.kind: ("rayClusterSpec",),
    RAY_SERVICE.kind: ("rayClusterConfig.headGroupSpec",),
    SPARK.kind: ("driver", "executor"),
    **{each.kind: (each.specs,) for each in TRAINING},
}
_OTHER_CLUSTER = "has(object.spec.clusterSelector) && object.spec.clusterSelector != null"


def _pod_fields() -> list[tuple[Kind, Object]]:
    """Return a policy that refuses new jobs whose spec defines no pods. A RayJob that uses an existing RayCluster needs
    no pods."""
    checks = {}
    for kind, fields in _POD_FIELDS.items():
        others = f'request.resource.resource != "{kind.plural}"'
        if kind == RAY_JOB.kind:
            others = f"{others} || ({_HAS_SPEC['has-spec']} && {_OTHER_CLUSTER})"
        for field in fields:
            checks[f"spec.{field}: Required value: an object"] = f"{others} || ({_are_objects(f'object.spec.{field}')})"
    rules = [rule(kind.group, kind.plural, "CREATE", versions=(kind.version,)) for kind in _POD_FIELDS]
    return validating("required-fields", rules, _CONDITIONS, checks)


def _typed(suspend: tuple[str, ...]) -> dict[str, str]:
    """Return the check that the part of the spec that contains the suspend field is a JSON object, if it is set. The
    policies do not change a value of another type, so that the schema names it. But a kind may have no schema."""
    if len(suspend) < 2:
        return {}
    path = f"object.spec.{suspend[0]}"
    absent = f"!({_HAS_SPEC['has-spec']}) || !has({path}) || {path} == null"
    return {f"spec.{suspend[0]}: Invalid value: must be an object": f"{absent} || type({path}) == map"}


def _rules(suspend: tuple[str, ...], *operations: str) -> list[Object]:
    found = (kind for kind, framework in FRAMEWORKS.items() if framework.suspend == suspend)
    return [rule(kind.group, kind.plural, *operations, versions=(kind.version,)) for kind in found]


def _added(where: str, key: str, text: str) -> str:
    """Return a CEL expression for a list of JSON patches that add a label or an annotation."""
    path, escaped = f"/metadata/{where}", key.replace("/", "~1")
    return (
        f'(has(object.metadata.{where}) ? [JSONPatch{{op: "add", path: "{path}/{escaped}", value: "{text}"}}] : '
        f'[JSONPatch{{op: "add", path: "{path}", value: {{"{key}": "{text}"}}}}])'
    )


def _suspended(name: str, suspend: tuple[str, ...], change: str) -> list[tuple[Kind, Object]]:
    """Return the policies for jobs with the field `suspend`. They suspend new jobs and protect the labels of running
    jobs. Jobs without a queue get the LocalQueue `default`, or a mark if Kueue's Configuration manages jobs without a
    queue. If the field is in a part of the spec, the policies do not change a job without a spec, so that the schema
    names the missing spec."""
    created = _rules(suspend, "CREATE")
    condition, needs = (_HAS_SPEC, _NEEDS_SPEC) if len(suspend) > 1 else ({}, {})
    of_kueue = [each for each in created if IBM_APP_WRAPPER.kind.group not in each["apiGroups"]]
    in_default = f"{_added('labels', kinds.QUEUE_LABEL, 'default')} + ({change})"
    marked = f"{_added('annotations', UNQUEUED_MARK, 'true')} + ({change})"
    found = in_default_queue(
        mutating(f"default-queue-{name}", of_kueue, {**UNQUEUED, **condition}, in_default, patch=True)
    )
    found += if_managed(
        mutating(f"managed-{name}", of_kueue, {**UNQUEUED, **IS_MANAGED, **condition}, marked, patch=True)
    )
    found += mutating(name, created, {**_CONDITIONS, **condition}, change, patch=True)
    checks = {**needs, **_typed(suspend), **label_checks(suspend, "job")}
    return found + validating(
        f"checked-{name}",
        _rules(suspend, "CREATE", "UPDATE"),
        {**_CONDITIONS, "queued": QUEUED_BEFORE, **ALIVE},
        checks,
    )


def _template(path: str, annotations: str = "") -> str:
    """Return a CEL expression that adds the queue name and the scheduler name to the pod template at `path`.
    `annotations`: further annotations to add, written as the content of a CEL map."""
    named = f"has({path}.spec) && type({path}.spec) == map && has({path}.spec.schedulerName)"
    scheduler = f'{named} && {path}.spec.schedulerName != "default-scheduler"'
    inner = path.replace("object", "Object", 1)
    labels = f'labels: {{"{kinds.QUEUE_LABEL}": {LABELS}["{kinds.QUEUE_LABEL}"]}}'
    metadata = f"{labels}, annotations: {{{annotations}}}" if annotations else labels
    pod = f'schedulerName: {scheduler} ? {path}.spec.schedulerName : "phalanx"'
    return f"{inner}{{metadata: {inner}.metadata{{{metadata}}}, spec: {inner}.spec{{{pod}}}}}"


def _inside(path: str, change: str) -> str:
    """Return an apply configuration that contains `change` at `path`."""
    names = path.split(".")
    for number in range(len(names) - 1, 0, -1):
        outer = ".".join(("Object", *names[1:number]))
        change = f"{outer}{{{names[number]}: {change}}}"
    return change


def _group(size: str) -> str:
    return f'"{GROUP_COUNT}": {size}'


_POD_TEMPLATE = "object.spec.template"
# Unless its podManagementPolicy is Parallel, a StatefulSet creates a pod only when the pod before is ready. So the
# first pod starts alone, and the other pods join the gang later.
_REPLICAS = (
    'has(object.spec.podManagementPolicy) && object.spec.podManagementPolicy == "Parallel" && '
    'has(object.spec.replicas) ? string(object.spec.replicas) : "1"'
)
# All values of a map in CEL must have one type. Without the conversion by `string`, the type of the name would be
# `dyn`.
_NAMED = f'"{GROUP_NAME}": string(object.metadata.name), {_group(_REPLICAS)}'
_LWS = "object.spec.leaderWorkerTemplate"
# With LeaderReady, the workers are created when the leader is ready. So the leader starts alone, and the workers join
# the gang later.
_LWS_SIZE = (
    'has(object.spec.startupPolicy) && object.spec.startupPolicy == "LeaderReady" ? "1" : '
    f"string(has({_LWS}.size) ? {_LWS}.size : 1)"
)
_LWS_ROLE = {
    "leaderTemplate": '"leader"',
    "workerTemplate": f'has({_LWS}.leaderTemplate) ? "worker" : "main"',
}


def _serving() -> list[tuple[Kind, Object]]:
    rules = [rule("apps", "deployments", "CREATE", "UPDATE")]
    found = mutating("deployments", rules, _CONDITIONS, _inside(_POD_TEMPLATE, _template(_POD_TEMPLATE)))
    change = _inside(_POD_TEMPLATE, _template(_POD_TEMPLATE, _NAMED))
    found += mutating("statefulsets", [rule("apps", "statefulsets", "CREATE")], _CONDITIONS, change)
    for part in ("workerTemplate", "leaderTemplate"):
        path = f"{_LWS}.{part}"
        rules = [rule("leaderworkerset.x-k8s.io", "leaderworkersets", "CREATE")]
        change = _inside(path, _template(path, f'{_group(_LWS_SIZE)}, "{ROLE_HASH}": {_LWS_ROLE[part]}'))
        conditions = {**_CONDITIONS, "has-template": _are_objects(path)}
        found += mutating(f"leaderworkersets-{part.lower()}", rules, conditions, change)
    return found


FRAMEWORK_POLICIES: Final[tuple[tuple[Kind, Object], ...]] = (
    *_suspended("suspended", ("suspend",), _SUSPEND),
    *_suspended("suspended-run-policy", ("runPolicy", "suspend"), _SUSPEND_POLICY),
    *_suspended("suspended-ray-services", ("rayClusterConfig", "suspend"), _SUSPEND_CLUSTER),
    *_pod_fields(),
    *_serving(),
)


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
    """Return a policy that sets the default of `managedBy`, and its binding. `parent`: the object that contains the
    field. `usual`: the values that the policy replaces. They name the ordinary controllers of jobs in this cluster."""
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


# The API server applies policies in the order of their names. The following policies must come after the policy that
# sets the default queue, and before the policy `jobs`, which chooses the scheduler name.
SENDING_POLICIES: Final[tuple[tuple[Kind, Object], ...]] = (
    *_defaulted("elsewhere", _IN_SPEC, "object.spec"),
    *_defaulted("elsewhere-run-policy", _IN_POLICY, "object.spec.runPolicy"),
    *_defaulted("elsewhere-volcano", (VOLCANO_JOB.kind,), "object.spec", "schedulerName", _SCHEDULERS),
)
