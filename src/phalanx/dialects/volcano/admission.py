"""Define admission policies, whose rules are CEL expressions, that replace Volcano's webhooks.

Volcano's webhooks write defaults into objects. Phalanx's own controller of Volcano Jobs applies the defaults when it
reads a Job, so an object stays as its user wrote it. A policy cannot read other objects. So the policies do not refuse
a job whose queue is closed, does not exist, or has child queues. The job then waits, and its reason names the problem.

A policy finds a cycle of dependencies between tasks in rounds. The first round has the tasks without dependencies, and
each further round adds the tasks that depend only on tasks of the round before. If a round adds no task although some
tasks are left, these tasks contain a cycle. A chain of dependencies that is longer than the number of rounds is
accepted unchecked.


Source: pkg/webhooks/admission of Volcano v1.15.1.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from phalanx.client.policies import Made, refusing, rule
from phalanx.dialects.volcano.kinds import NAME

_PLUGINS = ("env", "svc", "ssh", "tensorflow", "pytorch", "mpi", "ray", "hcclrank")
_EVENTS = ("*", "PodFailed", "PodEvicted", "PodPending", "Unknown", "TaskCompleted", "TaskFailed", "JobUpdated")
_ACTIONS = (
    *("AbortJob", "RestartJob", "RestartTask", "RestartPod", "RestartPartition"),
    *("TerminateJob", "CompleteJob", "ResumeJob"),
)


def _listed(words: tuple[str, ...]) -> str:
    return "[" + ", ".join(f"'{word}'" for word in words) + "]"


_ROUNDS: Final = 16


def _rounds(listed: str, names: str) -> list[dict[str, str]]:
    """Return the rounds as variables of a policy. Each round has the names of those items whose dependencies are all in
    the round before it. `listed`: a CEL expression for all items. `names`: a CEL expression for the dependencies of one
    item (`t`)."""
    first = f"{listed}.filter(t, size({names}) == 0).map(t, has(t.name) ? t.name : '')"
    found = [{"name": "round0", "expression": first}]
    for number in range(1, _ROUNDS):
        before = f"variables.round{number - 1}"
        rule = f"{listed}.filter(t, {names}.all(d, d in {before})).map(t, has(t.name) ? t.name : '')"
        found.append({"name": f"round{number}", "expression": rule})
    return found


def _no_circle(listed: str) -> str:
    """Return a CEL expression that is true if no cycle was found: the last round has all items, or it added an item."""
    last, before = (f"size(variables.round{number})" for number in (_ROUNDS - 1, _ROUNDS - 2))
    return f"{last} == size({listed}) || {last} != {before}"


def _policies(of: str) -> dict[str, str]:
    """Return the checks for the lifecycle policies of a job or a task (`of`): for each error message, the CEL
    expression that must be true."""
    said = "(has(p.event) ? [p.event] : []) + (has(p.events) ? p.events : [])"
    each = f"!has({of}.policies) || {of}.policies.all(p, "
    others = said.replace("p.", "o.")
    return {
        "must not specify event and exitCode simultaneously, and must specify one of them": (
            f"{each}has(p.exitCode) != (size({said}) > 0))"
        ),
        "0 is not a valid error code": f"{each}!has(p.exitCode) || p.exitCode != 0)",
        f"invalid policy event: there are {', '.join(_EVENTS)}": (f"{each}({said}).all(e, e in {_listed(_EVENTS)}))"),
        f"invalid policy action: there are {', '.join(_ACTIONS)}": (
            f"{each}has(p.action) && p.action in {_listed(_ACTIONS)})"
        ),
        "duplicate event in different policy": (
            f"{each}({said}).all(e, {of}.policies.filter(o, e in ({others})).size() == 1))"
        ),
        "if there's * here, no other policy should be here": (
            f"{each}!('*' in ({said})) || {of}.policies.filter(o, size({others}) > 0).size() == 1)"
        ),
    }


def _of_tasks(checks: dict[str, str]) -> dict[str, str]:
    return {f"a task: {text}": f"{_TASKS}.all(t, {rule})" for text, rule in checks.items()}


_TASKS = "object.spec.tasks"
_LISTED_TASKS = f"(has({_TASKS}) ? {_TASKS} : [])"
_CIRCLE = "{}, but doesn't form a directed acyclic graph(DAG)"
_REPLICAS = "(has(t.replicas) ? t.replicas : 0)"
_FEWEST = f"(has(t.minAvailable) ? t.minAvailable : {_REPLICAS})"
_JOB = {
    "No task specified in job spec": f"has({_TASKS}) && size({_TASKS}) > 0",
    "the template of a task must have containers": (
        f"{_TASKS}.all(t, has(t.template) && has(t.template.spec) && has(t.template.spec.containers) && "
        "size(t.template.spec.containers) > 0)"
    ),
    "duplicated task name": (
        f"!has({_TASKS}) || {_TASKS}.all(t, !has(t.name) || "
        f"{_TASKS}.filter(o, has(o.name) && o.name == t.name).size() == 1)"
    ),
    "job 'minAvailable' should not be greater than total replicas in tasks": (
        f"!has(object.spec.minAvailable) || object.spec.minAvailable <= {_TASKS}.map(t, {_REPLICAS}).sum()"
    ),
    "'minAvailable' is greater than 'replicas' in a task": f"{_TASKS}.all(t, {_FEWEST} <= {_REPLICAS})",
    "'totalPartitions' times 'partitionSize' is not 'replicas' in a task": (
        f"{_TASKS}.all(t, !has(t.partitionPolicy) || "
        f"t.partitionPolicy.totalPartitions * t.partitionPolicy.partitionSize == {_REPLICAS})"
    ),
    f"unable to find job plugin: there are {', '.join(_PLUGINS)}": (
        f"!has(object.spec.plugins) || object.spec.plugins.all(p, p in {_listed(_PLUGINS)})"
    ),
    "the plugin mpi requires a task 'master', or the argument --master=<task name>": (
        "!has(object.spec.plugins) || !('mpi' in object.spec.plugins) || "
        f"object.spec.plugins.mpi.exists(a, a.contains('-master')) || {_TASKS}.exists(t, has(t.name) && "
        "t.name == 'master')"
    ),
    "can not submit job to root queue": "!has(object.spec.queue) || object.spec.queue != 'root'",
    "a volume must have exactly one of volumeClaim and volumeClaimName, and a unique mountPath": (
        "!has(object.spec.volumes) || object.spec.volumes.all(v, has(v.mountPath) && "
        "(has(v.volumeClaim) || has(v.volumeClaimName)) && "
        "object.spec.volumes.filter(o, has(o.mountPath) && o.mountPath == v.mountPath).size() == 1)"
    ),
    "a task depends on a task that does not exist, or on itself": (
        f"{_TASKS}.all(t, !has(t.dependsOn) || !has(t.dependsOn.name) || t.dependsOn.name.all(d, "
        f"{_TASKS}.exists(o, has(o.name) && o.name == d) && !(has(t.name) && t.name == d)))"
    ),
    _CIRCLE.format("job has dependencies between tasks"): _no_circle(_LISTED_TASKS),
    **_policies("object.spec"),
    **_of_tasks(_policies("t")),
}


def _same(field: str) -> str:
    """Return a CEL expression that is true if a field of the spec did not change."""
    new, old = f"object.spec.{field}", f"oldObject.spec.{field}"
    return f"has({new}) == has({old}) && (!has({new}) || {new} == {old})"


_JOB_CHANGES = {
    "job updates may not change fields other than `minAvailable`, `tasks[*].replicas under spec` and "
    "`PriorityClassName`": (
        f"size({_TASKS}) == size(oldObject.spec.tasks) && {_TASKS}.all(t, oldObject.spec.tasks.exists(o, "
        "has(o.name) == has(t.name) && (!has(o.name) || o.name == t.name) && o.template == t.template)) && "
        + " && ".join(_same(field) for field in ("queue", "plugins", "policies", "schedulerName"))
    ),
}
_QUEUE = "object.spec"


def _at_most(less: str, more: str, where: str) -> str:
    """Return a CEL expression that is true if `less` is at most `more` for each resource that both name."""
    return (
        f"!({where}) || {less}.all(r, !(r in {more}) || "
        f"quantity(string({less}[r])).compareTo(quantity(string({more}[r]))) <= 0)"
    )


_GUARANTEE = f"{_QUEUE}.guarantee.resource"
_HAS_GUARANTEE = f"has({_QUEUE}.guarantee) && has({_GUARANTEE})"
_QUEUES = {
    "deserved should be less equal than capability": _at_most(
        f"{_QUEUE}.deserved", f"{_QUEUE}.capability", f"has({_QUEUE}.deserved) && has({_QUEUE}.capability)"
    ),
    "guarantee should be less equal than deserved": _at_most(
        _GUARANTEE, f"{_QUEUE}.deserved", f"{_HAS_GUARANTEE} && has({_QUEUE}.deserved)"
    ),
    "guarantee should be less equal than capability": _at_most(
        _GUARANTEE, f"{_QUEUE}.capability", f"{_HAS_GUARANTEE} && has({_QUEUE}.capability)"
    ),
    "a queue must not be its own parent": f"!has({_QUEUE}.parent) || {_QUEUE}.parent != object.metadata.name",
    "volcano.sh/hierarchy and volcano.sh/hierarchy-weights must have the same length": (
        "!has(object.metadata.annotations) || !('volcano.sh/hierarchy' in object.metadata.annotations) || "
        "('volcano.sh/hierarchy-weights' in object.metadata.annotations && "
        "size(object.metadata.annotations['volcano.sh/hierarchy'].split('/')) == "
        "size(object.metadata.annotations['volcano.sh/hierarchy-weights'].split('/')))"
    ),
}
_LISTED_FLOWS = "(has(object.spec.flows) ? object.spec.flows : [])"
_FLOWS = {
    "a flow depends on a flow that does not exist, or is listed twice": (
        "!has(object.spec.flows) || object.spec.flows.all(f, "
        "object.spec.flows.filter(o, o.name == f.name).size() == 1 && (!has(f.dependsOn) || "
        "!has(f.dependsOn.targets) || f.dependsOn.targets.all(d, d != f.name && "
        "object.spec.flows.exists(o, o.name == d))))"
    ),
    _CIRCLE.format("jobflow has dependencies between flows"): _no_circle(_LISTED_FLOWS),
}
_CRONS = {
    "TZ and CRON_TZ are not allowed in schedule: write timeZone": "!object.spec.schedule.contains('TZ=')",
    "the name of a cron job must have at most 52 characters": "size(object.metadata.name) <= 52",
}


def _checked(
    name: str,
    group: str,
    plural: str,
    version: str,
    operations: tuple[str, ...],
    checks: dict[str, str],
    variables: Sequence[dict[str, str]] = (),
) -> list[Made]:
    """Return a policy and its binding. `checks`: for each error message, the CEL expression that must be true."""
    more: dict[str, Any] = {"variables": list(variables)} if variables else {}
    alive = {"alive": "has(object.spec) && !has(object.metadata.deletionTimestamp)"}
    rules = [rule(group, plural, *operations, versions=(version,))]
    return refusing(f"{name}.{NAME}.phalanx.dev", rules, alive, checks, reason="", **more)


_BATCH, _SCHEDULING, _FLOW = "batch.volcano.sh", "scheduling.volcano.sh", "flow.volcano.sh"
_DEPENDED = "(has(t.dependsOn) && has(t.dependsOn.name) ? t.dependsOn.name : [])"
_TARGETS = "(has(t.dependsOn) && has(t.dependsOn.targets) ? t.dependsOn.targets : [])"
POLICIES: Final[tuple[Made, ...]] = (
    *_checked("checked-jobs", _BATCH, "jobs", "v1alpha1", ("CREATE",), _JOB, _rounds(_LISTED_TASKS, _DEPENDED)),
    *_checked("changed-jobs", _BATCH, "jobs", "v1alpha1", ("UPDATE",), _JOB_CHANGES),
    *_checked("checked-cronjobs", _BATCH, "cronjobs", "v1alpha1", ("CREATE",), _CRONS),
    *_checked("checked-jobflows", _FLOW, "jobflows", "v1alpha1", ("CREATE",), _FLOWS, _rounds(_LISTED_FLOWS, _TARGETS)),
    *_checked("checked-queues", _SCHEDULING, "queues", "v1beta1", ("CREATE", "UPDATE"), _QUEUES),
)
