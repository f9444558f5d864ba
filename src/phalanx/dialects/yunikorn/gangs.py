"""Translate YuniKorn's labels and annotations on pods to Phalanx's *options*, which are Phalanx's own labels and
annotations for the same settings.

A pod with `schedulerName: yunikorn` belongs to an application, which its labels or annotations name. If the first pod
of the application has task groups, all pods of the application form one gang. The first pod starts only when the
resources of all task groups fit, and the resources for pods that are created later are reserved. Without task groups,
the pods of an application form one job. The job starts with the oldest pod and grows with each later pod. A pod that
names no application is a job of its own. The oldest pod of an application sets the queue and the user of the
application.

The user for placement rules, ACLs and limits comes from the annotation of YuniKorn's admission controller, or else from
the label.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Final

import msgspec

from phalanx.client.kind import PODS
from phalanx.client.quantity import QuantityError, amount, parse
from phalanx.dialects.frame.fields import Becomes, Use
from phalanx.model.pod import MAX_AMOUNT

SCHEDULER_NAME = "yunikorn"
QUEUE_PREFIX = "yunikorn/"
# The separator between the name of a leaf queue that sorts by share and the name of one of its applications. The name
# of a queue cannot contain this character.
OF_APPLICATION: Final = "|"
_OURS = "phalanx.dev/"
QUEUE_OPTION: Final = f"{_OURS}queue"
_QUEUE, _JOB, _ROLE = QUEUE_OPTION, f"{_OURS}job", f"{_OURS}role"
_MIN, _RESOURCES = f"{_OURS}min-available", f"{_OURS}min-resources"
_THEIRS = "yunikorn.apache.org/"
TASK_GROUPS, TASK_GROUP = f"{_THEIRS}task-groups", f"{_THEIRS}task-group-name"
USER, GROUPS, _USER_INFO = f"{_THEIRS}username", f"{_THEIRS}groups", f"{_THEIRS}user.info"
# Two options of a pod. Only the options of an application's oldest pod are used. The first option has the pod's queue.
# The second option has the value of the annotation `allow-preemption` or, without the annotation, a colon and the pod's
# PriorityClass.
OLDEST_QUEUE, OLDEST_WISH = "yunikorn/queue", "yunikorn/wish"
# An annotation on the pods of a gang that has waited for too long: the pods start one by one (`SOFT`), or fail
# (`HARD`).
GIVEN_UP: Final = f"{_OURS}gang-given-up"
SOFT, HARD = "soft", "hard"
_PARAMETERS, _UNWILLING = f"{_THEIRS}schedulingPolicyParameters", f"{_THEIRS}allow-preemption"
_STYLE, _TIMEOUT, _GIVEN_UP = (f"yunikorn/{word}" for word in ("style", "timeout", "given-up"))
_DEFAULT_TIMEOUT_S: Final = 900.0
_PARAMETER = re.compile(r"(\w+)=(\w+)")
_APPLICATION = "application:"  # a prefix that the name of a Job or a pod cannot have
_NOTHING: Mapping[str, Any] = {}

POD: Mapping[str, Use] = {
    f"{_THEIRS}app-id": Becomes("Job.id", "the application; a pod without an application id is a job of its own"),
    f"{_THEIRS}queue": Becomes(
        "Job.queue", "the label or the annotation of this name, or the label `queue`; the placement rules may use it"
    ),
    TASK_GROUPS: Becomes("Role.minimum", "the first pod starts only if there is capacity for the whole gang"),
    TASK_GROUP: Becomes(
        "Role.name", "the task group of the pod; pods of the application without a task group start one by one"
    ),
    _PARAMETERS: Becomes(
        "Claim.group",
        "how long a gang may wait for its start; after this time the pods of a `Soft` gang start one "
        "by one, and the pods of a `Hard` gang fail",
    ),
    USER: Becomes("Job.user", "the user for placement rules, ACLs and limits, if the annotation user.info is absent"),
    _USER_INFO: Becomes(
        "Job.user", "the user and the groups; the application is charged to one of these groups (Job.group)"
    ),
    _UNWILLING: Becomes(
        "Job.last_victim",
        "`false` on the oldest pod, or else on the PriorityClass of this pod: the pods of the "
        "application are preempted last",
    ),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskGroup:
    """A task group: the number of its pods, and the resource requests of each pod."""

    name: str
    members: int
    resources: Mapping[str, str]


def options_of(meta: Mapping[str, Any], scheduler: str) -> Mapping[str, str]:
    """Return the labels and annotations of a pod, translated to Phalanx's options. The result is empty if the pod is
    not for YuniKorn or if it names a Phalanx Queue."""
    labels, notes = meta.get("labels") or _NOTHING, meta.get("annotations") or _NOTHING
    if scheduler != SCHEDULER_NAME or _QUEUE in labels:
        return _NOTHING
    queue = _first(labels.get(f"{_THEIRS}queue"), notes.get(f"{_THEIRS}queue"), labels.get("queue"))
    user, groups = _user(labels, notes)
    found = {_QUEUE: QUEUE_PREFIX + queue, USER: user, GROUPS: groups}
    groups_said = task_groups(notes)
    member = "" if has_invalid_groups(notes) else str(notes.get(TASK_GROUP, ""))
    class_name, value = meta.get("priority") or ("", 0)
    if member or groups_said:
        found |= {_JOB: application_id(meta), _ROLE: member} | _whole(groups_said) | _parameters(notes)
    elif named := _application(labels, notes):
        found |= {_JOB: f"{_APPLICATION}{named}", _ROLE: f"priority-{value}" if value else ""}
    if _JOB in found:  # the oldest pod sets the queue; the pods of one job must not name different queues
        found |= {_QUEUE: QUEUE_PREFIX, OLDEST_QUEUE: f":{queue}"}
    found[OLDEST_WISH] = str(notes.get(_UNWILLING) or (f":{class_name}" if class_name else ""))
    return {key: text for key, text in found.items() if text}


def task_groups(notes: Mapping[str, object]) -> tuple[TaskGroup, ...]:
    """Return the task groups of the annotation. If they are invalid, return no task groups, because YuniKorn then runs
    the pods without a gang."""
    try:
        said = msgspec.json.decode(str(notes.get(TASK_GROUPS, "[]")), type=list[dict[str, Any]])
        return tuple(_task_group({str(key).lower(): value for key, value in one.items()}) for one in said)
    except (msgspec.MsgspecError, ValueError, RecursionError):
        return ()


def has_invalid_groups(notes: Mapping[str, object]) -> bool:
    """Return whether a pod has an annotation with task groups that cannot be read."""
    return TASK_GROUPS in notes and not task_groups(notes)


def notes(kind: str, obj: Mapping[str, Any]) -> Iterator[str]:
    """Yield a sentence if a pod's task groups are invalid."""
    if kind == PODS.name and has_invalid_groups(obj["metadata"].get("annotations") or _NOTHING):
        example = '[{"name": "workers", "minMember": 4, "minResource": {"cpu": "1"}}]'
        yield f"{TASK_GROUPS} has no valid task group, so the pods start one by one; write for instance {example}"


def application_id(meta: Mapping[str, Any]) -> str:
    """Return the id of a pod's application."""
    labels, notes = meta.get("labels") or _NOTHING, meta.get("annotations") or _NOTHING
    return _application(labels, notes) or f"yunikorn-{meta.get('namespace', 'default')}-autogen"


def is_application(options: Mapping[str, str]) -> bool:
    """Return whether these options belong to an application without task groups."""
    return options.get(_JOB, "").startswith(_APPLICATION)


def is_given_up(options: Mapping[str, str]) -> bool:
    """Return whether these options belong to a gang that waited for too long, so that its pods start one by one."""
    return options.get(_GIVEN_UP) == SOFT


def has_failed(options: Mapping[str, str]) -> bool:
    """Return whether these options belong to a gang that waited for too long, so that its pods must fail."""
    return options.get(_GIVEN_UP) == HARD


def opts_out(options: Mapping[str, str], classes: Collection[str]) -> bool:
    """Return whether the oldest pod of the application asks not to be preempted. `classes`: the PriorityClasses whose
    pods ask not to be preempted."""
    said, _, class_name = options.get(OLDEST_WISH, "").partition(":")
    return said == "false" or class_name in classes


def classes_that_opt_out(classes: Mapping[str, Any]) -> frozenset[str]:
    """Return the names of those PriorityClasses whose pods ask not to be preempted. `classes`: the PriorityClasses by
    name."""
    notes = {name: one["metadata"].get("annotations") or _NOTHING for name, one in classes.items()}
    return frozenset(name for name, said in notes.items() if said.get(_UNWILLING) == "false")


def hold_s(options: Mapping[str, str]) -> float | None:
    """Return for how many seconds a started gang with task groups keeps capacity for its later pods; None if it has no
    task groups."""
    return (timeout_s(options) or _DEFAULT_TIMEOUT_S) if has_task_groups(options) else None


def timeout_s(options: Mapping[str, str]) -> float | None:
    """Return for how many seconds a gang with these options may wait for its start; None if it may wait for any
    time."""
    return float(options[_TIMEOUT]) if _TIMEOUT in options and _GIVEN_UP not in options else None


def is_hard(options: Mapping[str, str]) -> bool:
    """Return whether the pods of a gang fail when it has waited for too long."""
    return options.get(_STYLE) == HARD


def gang_asks(options: Mapping[str, str]) -> Mapping[str, int]:
    """Return the amounts of all task groups together (cpu in millicores, others in whole units)."""
    said = msgspec.json.decode(options.get(_RESOURCES, "{}"), type=dict[str, str])
    return {name: amount(name, text) for name, text in said.items()}


def has_task_groups(options: Mapping[str, str]) -> bool:
    """Return whether these options belong to a gang whose first pod has task groups."""
    return _JOB in options and _MIN in options and not is_given_up(options)


def queue_of(queue: str, options: Mapping[str, str]) -> str:
    """Return the YuniKorn queue that the pods of a gang name; empty if they name no queue."""
    said = options.get(OLDEST_QUEUE)
    return queue.removeprefix(QUEUE_PREFIX) if said is None else said[1:]


# --- internal ---------------------------------------------------------------------------------------------------------


def _parameters(notes: Mapping[str, object]) -> dict[str, str]:
    """Return the options with the style (Soft or Hard) and the time-out of a gang, if its pod has scheduling
    parameters. If the gang has waited for too long, the result also has the annotation that marks its pods."""
    found = {_GIVEN_UP: str(notes.get(GIVEN_UP, ""))}
    if text := str(notes.get(_PARAMETERS, "")):
        said = {name.lower(): value for name, value in _PARAMETER.findall(text)}
        seconds = said.get("placeholdertimeoutinseconds", "")
        within_s = float(seconds) if seconds.isdecimal() and len(seconds) < 10 else 0.0
        found |= {_STYLE: said.get("gangschedulingstyle", "").lower(), _TIMEOUT: str(within_s or _DEFAULT_TIMEOUT_S)}
    return found


def _first(*texts: object) -> str:
    return next((str(text) for text in texts if text), "")


def _application(labels: Mapping[str, object], notes: Mapping[str, object]) -> str:
    ids = (labels.get(f"{_THEIRS}app-id"), notes.get(f"{_THEIRS}app-id"), labels.get("applicationId"))
    return _first(*ids, labels.get("spark-app-selector"))


def _user(labels: Mapping[str, object], notes: Mapping[str, object]) -> tuple[str, str]:
    """Return the user, and the groups joined by commas."""
    try:
        said = msgspec.json.decode(str(notes.get(_USER_INFO, "{}")), type=dict[str, Any])
    except (msgspec.MsgspecError, RecursionError):
        said = {}
    groups = said.get("groups")
    named = ",".join(str(group) for group in groups) if isinstance(groups, list) else ""
    return _first(said.get("user"), labels.get(USER)), named


def _task_group(said: Mapping[str, object]) -> TaskGroup:
    """Return the task group that one entry of the annotation describes. Raise ValueError if the entry is invalid."""
    name, members, resources = said.get("name"), said.get("minmember"), said.get("minresource")
    if not isinstance(name, str) or not name or not isinstance(resources, Mapping) or not resources:
        raise ValueError("a task group must have a name and resources")
    if isinstance(members, bool) or not isinstance(members, int) or not 0 < members <= MAX_AMOUNT:
        raise ValueError("a task group must have members")
    return TaskGroup(name=name, members=members, resources={str(key): str(value) for key, value in resources.items()})


def _whole(groups: Iterable[TaskGroup]) -> dict[str, str]:
    """Return the number of pods of all task groups, and the sum of their requests."""
    asks: dict[str, Fraction] = {}
    try:
        for group in groups:
            for resource, text in group.resources.items():
                asks[resource] = asks.get(resource, Fraction(0)) + parse(text) * group.members
    except QuantityError:
        return {}
    if not asks:
        return {}
    return {
        _MIN: str(sum(group.members for group in groups)),
        _RESOURCES: msgspec.json.encode({name: _milli(amount) for name, amount in asks.items()}).decode(),
    }


def _milli(amount: Fraction) -> str:
    return f"{int(amount * 1000)}m"
