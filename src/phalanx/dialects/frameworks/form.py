"""What a framework's job kind is to us: an object whose roles are each shown as a batch/v1 Job.

Everything that is known of Jobs, how they are resumed, taken back, preempted and counted, then holds for it. `view`
shows a role in the form of a Job; `edit` says in the object's own spec what was meant for that Job. The two are
inverse: what is written is read back. An object is suspended by one field, whatever its roles.

Its pods may be made by objects that it makes itself (Jobs of a JobSet): they are known by their labels (`role_of`).

Sources: the API references of each kind; what their operators write is in docs/dialects/frameworks.md.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol, TypeAlias

from phalanx.client.kind import Kind

Object: TypeAlias = dict[str, Any]
_OURS = "phalanx.dev/"
BY_ROLE = (f"{_OURS}parallelism", f"{_OURS}template")  # annotations that each role has for itself
LATER = f"{_OURS}starts-later"


class Framework(Protocol):
    """`suspend`: the path of the field, in its spec. `made`: of `view` and `roles`, the object that its operator has
    made of it, where its roles stand there (a TrainJob's JobSet); None: there is none yet, or none is needed."""

    @property
    def kind(self) -> Kind: ...
    @property
    def suspend(self) -> tuple[str, ...]: ...

    def roles(self, obj: Object, made: Object | None) -> Sequence[str]:
        """Return its roles that have pods, in the order in which they are told."""

    def view(self, obj: Object, role: str, made: Object | None) -> Object:
        """Return that role as a Job, whose uid is `UID/role`."""

    def edit(self, spec: Object, role: str, patch: Object) -> Object:
        """Return its spec after that merge patch of the spec of the Job that `view` shows."""

    def role_of(self, labels: Mapping[str, str]) -> str:
        """Return the role that a pod with these labels is of; empty: they do not say."""


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
    **spec: Any,
) -> Object:
    """Return a role as a Job. `words`: what its form has no field for, where the object itself says nothing else."""
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
    """Return annotations of the object that say this of one role."""
    return {f"{key}.{role.lower()}" if key in BY_ROLE else key: text for key, text in words.items()}


def _of_role(annotations: Mapping[str, str], role: str) -> dict[str, str]:
    """Return the annotations: what is said of this role counts as said of the Job."""
    found = dict(annotations)
    for key in BY_ROLE:
        if (text := found.pop(f"{key}.{role.lower()}", None)) is not None:
            found[key] = text
    return found


def ended(status: Object, **words: str) -> Object:
    """Return the status of a Job, whose conditions are these of the object's, in a Job's words."""
    conditions = [{**one, "type": words[one["type"]]} for one in status.get("conditions") or () if one["type"] in words]
    return {"conditions": conditions}


def manager(name: str | None, own: str) -> str | None:
    """Return who else manages the object; None: its own operator does."""
    return None if name == own else name


# --- merge patches (RFC 7396) ---------------------------------------------------------------------------------------


def patched(value: Object, patch: Object) -> Object:
    """Return the value after a merge patch."""
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
    """Return the merge patch that makes `new` of `old`."""
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
    """Return what stands there; None: nothing."""
    found: Any = obj
    for name in path:
        found = (found or {}).get(name)
    return found
