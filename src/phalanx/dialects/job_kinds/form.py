"""Define the protocol that each framework's job kind implements. An implementation presents each *role* of a job as a
batch/v1 Job. A role is a set of equal pods, such as the workers.

Therefore all code for Jobs (which resumes, suspends, preempts and counts them) also works for these kinds. `view`
presents a role as a Job. `edit` does the inverse: it translates a change of that Job into a change of the object's
spec. One field suspends the whole object.

A framework's job need not own its pods directly (the pods of a JobSet belong to Jobs of the JobSet). So Phalanx finds
the role of a pod by the pod's labels (`role_of`).


Sources: the API references of each kind; docs/dialects/frameworks.md for the fields that their operators write.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol, TypeAlias

from phalanx.client.kind import Kind

Object: TypeAlias = dict[str, Any]
_OURS = "phalanx.dev/"
BY_ROLE = (f"{_OURS}parallelism", f"{_OURS}template")  # annotations that may differ between the roles of one object
LATER = f"{_OURS}starts-later"


class Framework(Protocol):
    """A framework's job kind. `suspend`: the path of its suspend field in the spec. For some kinds, the operator
    creates another object that defines the roles (a TrainJob's operator creates a JobSet). The parameter `made` of
    `view` and `roles` is this other object; None if it does not exist yet or is not needed."""

    @property
    def kind(self) -> Kind: ...
    @property
    def suspend(self) -> tuple[str, ...]: ...

    def roles(self, obj: Object, made: Object | None) -> Sequence[str]:
        """Return the object's roles that have at least one pod, in the order in which reasons and statuses list
        them."""

    def view(self, obj: Object, role: str, made: Object | None) -> Object:
        """Return a role as a Job with the uid `UID/role`."""

    def edit(self, spec: Object, role: str, patch: Object) -> Object:
        """Return the object's spec after a change of one role. `patch`: the change, as a merge patch of the spec of the
        Job that `view` returns."""

    def role_of(self, labels: Mapping[str, str]) -> str:
        """Return the role of a pod with these labels; empty if the labels name no role."""


def as_job(
    obj: Object,
    role: str,
    *,
    roles: Sequence[str],
    count: int,
    template: Object,
    suspended: object,
    words: Mapping[str, str] | None = None,
    status: Object | None = None,
    **spec: object,
) -> Object:
    """Return a role as a batch/v1 Job. `obj`: the framework's job. `count`: the number of pods of the role. `words`:
    annotations for properties that have no field in a Job. An annotation of the object itself takes precedence over the
    same annotation in `words`."""
    meta, labels = obj["metadata"], dict(obj["metadata"].get("labels") or {})
    annotations = _of_role(meta.get("annotations") or {}, role)
    said = {**annotations, **labels}
    own = {f"{_OURS}job-roles": str(len(roles)), f"{_OURS}role": role.lower(), f"{_OURS}size": "fixed-at-start"}
    own |= words or {}
    labels = {key: text for key, text in own.items() if key == f"{_OURS}queue"} | labels
    own = {key: text for key, text in own.items() if key not in said and key != f"{_OURS}queue"}
    uid = f"{meta['uid']}/{role.lower()}"
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {**meta, "uid": uid, "labels": labels, "annotations": {**annotations, **own}},
        "spec": {"suspend": bool(suspended), "parallelism": count, "completions": count, "template": template, **spec},
        "status": status or {},
    }


def words_of_role(role: str, words: Mapping[str, str | None]) -> dict[str, str | None]:
    """Return annotations for the whole object that set options for one of its roles only. `words`: the options."""
    return {f"{key}.{role.lower()}" if key in BY_ROLE else key: text for key, text in words.items()}


def _of_role(annotations: Mapping[str, str], role: str) -> dict[str, str]:
    """Return the annotations of a role's Job. If the key of an annotation ends with the name of a role, the annotation
    applies to this role only. The role's Job gets the annotation without this ending."""
    found = dict(annotations)
    for key in BY_ROLE:
        if (text := found.pop(f"{key}.{role.lower()}", None)) is not None:
            found[key] = text
    return found


def ended(status: Object, **words: str) -> Object:
    """Return the status of a role's Job. The status has those conditions of the object that have an equivalent in a
    Job. `words`: the condition types of the object, each with the type of the Job's equivalent condition."""
    conditions = [{**one, "type": words[one["type"]]} for one in status.get("conditions") or () if one["type"] in words]
    return {"conditions": conditions}


def manager(name: str | None, own: str) -> str | None:
    """Return the value of `managedBy` for the Job: the controller that manages the object in place of the kind's own
    operator; None if the operator manages it. `name`: the object's field `managedBy`. `own`: the operator's name."""
    return None if name == own else name


# --- merge patches (RFC 7396) ---------------------------------------------------------------------------------------


def patched(value: Object, patch: Object) -> Object:
    """Return the value after the merge patch `patch` was applied to it."""
    found = dict(value)
    for key, new in patch.items():
        if new is None:
            found.pop(key, None)
        elif isinstance(new, dict):
            old = found.get(key)
            found[key] = patched(old if isinstance(old, dict) else {}, new)
        else:
            found[key] = new
    return found


def difference(old: Object, new: Object) -> Object:
    """Return the merge patch that changes `old` to `new`."""
    found: Object = {key: None for key in old if key not in new}
    for key, value in new.items():
        before = old.get(key)
        if isinstance(value, dict) and isinstance(before, dict):
            if inner := difference(before, value):
                found[key] = inner
        elif key not in old or value != before:
            found[key] = value
    return found


def nested(path: Sequence[str], value: Any) -> Object:
    """Return the merge patch that sets one field."""
    for name in reversed(path):
        value = {name: value}
    return dict(value)


def at(obj: Object, path: Sequence[str]) -> Any:
    """Return the value at a path; None if there is no value at this path."""
    found: Any = obj
    for name in path:
        found = (found or {}).get(name)
    return found
