"""Changes of Kueue's webhooks to framework jobs and serving workloads that name a LocalQueue.

A framework's job is created suspended with its own field. So is one without a LocalQueue, if its namespace has the
LocalQueue `default` or Kueue's Configuration manages such jobs. Workloads without such a field are queued by their
pods: the queue label and Phalanx's scheduler name are put into their pod templates. Each pod of a Deployment is a job
of its own. The pods of a StatefulSet, and of each group of a LeaderWorkerSet, are one gang.


Sources: pkg/controller/jobs/{jobset,mpijob,trainjob,raycluster,rayjob,rayservice,sparkapplication,kubeflow,deployment,
statefulset,leaderworkerset}/*_webhook.go of v0.20.
"""

from __future__ import annotations

from typing import Final

from phalanx.client.kind import Kind
from phalanx.client.policies import rule
from phalanx.dialects.frame.dialect import Object
from phalanx.dialects.job_kinds.appwrapper.job_form import IBM_APP_WRAPPER
from phalanx.dialects.job_kinds.supported import FRAMEWORKS
from phalanx.dialects.kueue import kinds
from phalanx.dialects.kueue.gangs import GROUP_COUNT, GROUP_NAME, ROLE_HASH
from phalanx.dialects.kueue.gangs import UNQUEUED as UNQUEUED_MARK
from phalanx.dialects.kueue.policies.job_rules import (
    IS_MANAGED,
    UNQUEUED,
    if_managed,
    in_default_queue,
    label_checks,
)
from phalanx.dialects.kueue.policies.policy import ALIVE, LABELS, NOT_OWNED, QUEUED, QUEUED_BEFORE, mutating, validating

_CONDITIONS = {"queued": QUEUED, "own": NOT_OWNED}
_SUSPEND = (
    'has(object.spec) ? [JSONPatch{op: "add", path: "/spec/suspend", value: true}] : '
    '[JSONPatch{op: "add", path: "/spec", value: {"suspend": true}}]'
)
_SUSPEND_POLICY = (
    'has(object.spec.runPolicy) ? [JSONPatch{op: "add", path: "/spec/runPolicy/suspend", value: true}] : '
    '[JSONPatch{op: "add", path: "/spec/runPolicy", value: {"suspend": true}}]'
)
_SUSPEND_CLUSTER = _SUSPEND_POLICY.replace("runPolicy", "rayClusterConfig")


def _rules(suspend: tuple[str, ...], *operations: str) -> list[Object]:
    found = (kind for kind, framework in FRAMEWORKS.items() if framework.suspend == suspend)
    return [rule(kind.group, kind.plural, *operations, versions=(kind.version,)) for kind in found]


def _added(where: str, key: str, text: str) -> str:
    """Return an expression for a list of patches that add a label or an annotation."""
    path, escaped = f"/metadata/{where}", key.replace("/", "~1")
    return (
        f'(has(object.metadata.{where}) ? [JSONPatch{{op: "add", path: "{path}/{escaped}", value: "{text}"}}] : '
        f'[JSONPatch{{op: "add", path: "{path}", value: {{"{key}": "{text}"}}}}])'
    )


def _suspended(name: str, suspend: tuple[str, ...], change: str) -> list[tuple[Kind, Object]]:
    """Return the policies that create jobs with the field `suspend` suspended, and protect the labels of running
    jobs. Jobs without a queue get the LocalQueue `default`, or a mark if Kueue's Configuration manages them."""
    created = _rules(suspend, "CREATE")
    of_kueue = [each for each in created if IBM_APP_WRAPPER.kind.group not in each["apiGroups"]]
    in_default = f"{_added('labels', kinds.QUEUE_LABEL, 'default')} + ({change})"
    marked = f"{_added('annotations', UNQUEUED_MARK, 'true')} + ({change})"
    found = in_default_queue(mutating(f"default-queue-{name}", of_kueue, UNQUEUED, in_default, patch=True))
    found += if_managed(mutating(f"managed-{name}", of_kueue, {**UNQUEUED, **IS_MANAGED}, marked, patch=True))
    found += mutating(name, created, _CONDITIONS, change, patch=True)
    checks = label_checks(suspend, "job")
    return found + validating(
        f"checked-{name}",
        _rules(suspend, "CREATE", "UPDATE"),
        {**_CONDITIONS, "queued": QUEUED_BEFORE, **ALIVE},
        checks,
    )


def _template(path: str, annotations: str = "") -> str:
    """Return an expression that puts queue name and scheduler name into the pod template at `path`. `annotations`:
    further annotations, as the content of a CEL map."""
    scheduler = f'has({path}.spec.schedulerName) && {path}.spec.schedulerName != "default-scheduler"'
    inner = path.replace("object", "Object", 1)
    labels = f'labels: {{"{kinds.QUEUE_LABEL}": {LABELS}["{kinds.QUEUE_LABEL}"]}}'
    metadata = f"{labels}, annotations: {{{annotations}}}" if annotations else labels
    pod = f'schedulerName: {scheduler} ? {path}.spec.schedulerName : "phalanx"'
    return f"{inner}{{metadata: {inner}.metadata{{{metadata}}}, spec: {inner}.spec{{{pod}}}}}"


def _inside(path: str, change: str) -> str:
    """Return an apply configuration with `change` at `path`."""
    names = path.split(".")
    for number in range(len(names) - 1, 0, -1):
        outer = ".".join(("Object", *names[1:number]))
        change = f"{outer}{{{names[number]}: {change}}}"
    return change


def _group(size: str) -> str:
    return f'"{GROUP_COUNT}": {size}'


_POD_TEMPLATE = "object.spec.template"
# Unless its policy is Parallel, a StatefulSet creates each pod when the one before is ready. So the first pod starts
# alone and the others join the gang later.
_REPLICAS = (
    'has(object.spec.podManagementPolicy) && object.spec.podManagementPolicy == "Parallel" && '
    'has(object.spec.replicas) ? string(object.spec.replicas) : "1"'
)
# The values of a map in CEL have one type; without `string` the type of the name is `dyn`.
_NAMED = f'"{GROUP_NAME}": string(object.metadata.name), {_group(_REPLICAS)}'
_LWS = "object.spec.leaderWorkerTemplate"
# With LeaderReady, the workers are created when the leader is ready. So the leader starts alone and the workers join.
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
        conditions = {**_CONDITIONS, "has-template": f"has({path})"}
        found += mutating(f"leaderworkersets-{part.lower()}", rules, conditions, change)
    return found


FRAMEWORK_POLICIES: Final[tuple[tuple[Kind, Object], ...]] = (
    *_suspended("suspended", ("suspend",), _SUSPEND),
    *_suspended("suspended-run-policy", ("runPolicy", "suspend"), _SUSPEND_POLICY),
    *_suspended("suspended-ray-services", ("rayClusterConfig", "suspend"), _SUSPEND_CLUSTER),
    *_serving(),
)
