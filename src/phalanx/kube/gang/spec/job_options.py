"""Read the scheduling options of a gang's members: convert labels and annotations to fields of `model.Job`.

Each option may be set on any member, and all members that set it must agree. An invalid value raises a GangSpecError
with the object, the option, the value and the allowed values. The gang then waits with the reason `Invalid`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence, Set
from enum import StrEnum
from typing import Any, Protocol, TypeVar

from phalanx.dialects.schema.fields import Fields, Misread, duration_s, moment_s
from phalanx.kube.gang.spec.declared_roles import GangSpecError
from phalanx.kube.read import labels
from phalanx.model.job import Dependency, DependencyType, GangSize, Group
from phalanx.model.node import SliceLayer, TopologyRequest

Value = TypeVar("Value")
Choice = TypeVar("Choice", bound=StrEnum)
_MOST_SUBGROUPS = 256  # the maximum number of subgroups of one job, including nested ones
_TRUE, _FALSE = ("true", "1", "yes"), ("false", "0", "no")


class OptionSource(Protocol):
    """An object from which options are read: all members of a gang together, or a single member."""

    @property
    def id(self) -> str: ...

    @property
    def keys(self) -> Set[str]:
        """Return the keys of all options that a member sets."""

    def options(self, key: str) -> dict[str, str]:
        """Return the values of the option `key`, each with the name of the first member that has this value."""


def single_value(members: OptionSource, key: str, default: str = "") -> str:
    """Return the value of the option `key`; `default` if no member sets it. Raises GangSpecError if members have
    different values."""
    said = members.options(key)
    if len(said) > 1:
        (value, who), (other, whom) = list(said.items())[:2]
        raise GangSpecError(
            f"the members of {members.id} contradict each other: {who} sets {key} to {value}, {whom} to {other}; "
            "set the same value on all"
        )
    return next(iter(said), default)


def job_options(members: OptionSource, namespace: str) -> dict[str, Any]:
    """Return the fields of `Job` that the members' options set. `namespace`: the namespace of jobs that an option names
    without a namespace."""
    keys = members.keys  # checked first to save time: most members set few options
    found = {name: read_option(members, key, read) for name, (key, read) in _READERS.items() if key in keys}
    if labels.AFTER in keys:
        found["after"] = read_option(members, labels.AFTER, lambda text: dependencies(text, namespace))
    if not keys.isdisjoint(_CLOSENESS):
        found["closeness"] = closeness(members, *_CLOSENESS)
    return {name: value for name, value in found.items() if value is not None}


def closeness(
    members: OptionSource, required: str, preferred: str, sliced: str, balanced: str = ""
) -> TopologyRequest | None:
    """Return the topology request that the members' options set; None if they set none. The parameters after `members`
    are the keys of the four options from which the request is built: the required level, the preferred level, the
    slices, and the even spread."""
    must, should = single_value(members, required), single_value(members, preferred)
    if must and should:
        raise GangSpecError(f"{members.id} sets {required} {must} and {preferred} {should}: set only one of them")
    layers, evenly = read_option(members, sliced, slices) or (), read_option(members, balanced, flag)
    if not must and not should and not layers:
        return None
    return TopologyRequest(level=must or should, required=not should, balanced=bool(evenly), slices=layers)


def read_option(members: OptionSource, key: str, read: Callable[[str], Value]) -> Value | None:
    """Return the parsed value of the option `key`; None if no member sets it. Raises GangSpecError."""
    text = single_value(members, key)
    if not text:
        return None
    try:
        return read(text)
    except (Misread, ValueError, ArithmeticError) as error:
        why = error.text if isinstance(error, Misread) else str(error)
        raise GangSpecError(f"{members.options(key)[text]} sets {key} to {text[:60]!r}: {why}") from None


def _length(text: str) -> float:
    seconds = duration_s(text)
    if seconds <= 0.0:
        raise ValueError("it must be longer than 0 seconds")
    return seconds


def flag(text: str) -> bool:
    if text.lower() not in _TRUE + _FALSE:
        raise ValueError("it must be true or false")
    return text.lower() in _TRUE


def whole(text: str, least: int) -> int:
    try:
        number = int(text)
    except ValueError:
        number = least - 1
    if not least <= number < 2**31:
        raise ValueError(f"it is not a whole number from {least} to {2**31 - 1}")
    return number


def choice(text: str, kinds: type[Choice]) -> Choice:
    if text not in list(kinds):
        raise ValueError(f"it must be one of {', '.join(kinds)}")
    return kinds(text)


def slices(text: str) -> tuple[SliceLayer, ...]:
    """Parse the layers of slices. For example, `8@rack,4@host` means that every eight pods share a rack, and that every
    four of these eight pods share a host."""
    return tuple(_layer(part.strip()) for part in text.split(","))


def _layer(text: str) -> SliceLayer:
    pods, at, level = text.partition("@")
    if not at or not level:
        raise ValueError("write PODS@LEVEL, for instance 4@kubernetes.io/hostname")
    return SliceLayer(whole(pods, 1), level)


def dependencies(text: str, namespace: str) -> tuple[Dependency, ...]:
    """Parse dependencies such as `a:ok, other/b:any, c`: names of jobs with conditions. `namespace`: the namespace of
    jobs that are named without one. The condition is `ok` if none is given."""
    return tuple(_dependency(part.strip(), namespace) for part in text.split(",") if part.strip())


def _dependency(text: str, namespace: str) -> Dependency:
    name, colon, kind = text.partition(":")
    if not name:
        raise ValueError("a dependency must name a job: JOB or JOB:ok, for instance prepare:ok")
    after = choice(kind, DependencyType) if colon else DependencyType.OK
    return Dependency(job=name if "/" in name else f"{namespace}/{name}", after=after)


def subgroups(text: str) -> tuple[Group, ...]:
    """Parse a JSON list of groups. Each group is an object with the fields name, parent, minimum, closeness and
    preferredCloseness."""
    try:
        listed: Sequence[Any] = labels.read_json(text, list[Any])
    except ValueError as error:
        raise ValueError(
            f'it is not a JSON list ({error}): write for instance [{{"name": "left", "minimum": 1}}]'
        ) from None
    if len(listed) > _MOST_SUBGROUPS:
        raise ValueError(f"it has {len(listed)} groups; at most {_MOST_SUBGROUPS} are allowed")
    return tuple(subgroup(Fields(entry, (at,))) for at, entry in enumerate(listed))


def subgroup(said: Fields) -> Group:
    """Return the group that a JSON object describes. Raises Misread."""
    name = said.text("name")
    found = Group(
        name=name, parent=said.text("parent"), minimum=said.whole_or_none("minimum"), closeness=group_closeness(said)
    )
    said.done()
    if not name:
        raise Misread(said.path, "a group must have a name")
    return found


def group_closeness(said: Fields) -> TopologyRequest | None:
    """Return the topology request of a group: `closeness` is a required level, `preferredCloseness` a preferred one.
    Raises Misread."""
    must, should = said.text("closeness"), said.text("preferredCloseness")
    if must and should:
        raise Misread((*said.path, "preferredCloseness"), f"closeness is already {must}: set only one of them")
    return TopologyRequest(level=must or should, required=bool(must)) if must or should else None


def options_of(said: Mapping[str, str], id: str) -> OptionSource:
    """Return an `OptionSource` for a single member."""
    return _Alone(said, id)


class _Alone:
    def __init__(self, words: Mapping[str, str], id: str) -> None:
        self.words, self.id = words, id

    @property
    def keys(self) -> Set[str]:
        return self.words.keys()

    def options(self, key: str) -> dict[str, str]:
        return {self.words[key]: self.id} if key in self.words else {}


# field of `Job` -> (the key of its option, the function that parses the option's value)
_READERS: Mapping[str, tuple[str, Callable[[str], Any]]] = {
    "user": (labels.USER, str),
    "group": (labels.GROUP, str),
    "singleton": (labels.SINGLETON, str),
    "array": (labels.ARRAY, str),
    "reservation": (labels.RESERVATION, str),
    "qos": (labels.QOS, str),
    "limit_s": (labels.TIME_LIMIT, _length),
    "estimate_s": (labels.ESTIMATE, _length),
    "checkpoint_s": (labels.CHECKPOINT, _length),
    "begin_s": (labels.BEGIN, moment_s),
    "deadline_s": (labels.DEADLINE, moment_s),
    "requires_any": (labels.AFTER_ANY, flag),
    "array_cap": (labels.ARRAY_CAP, lambda text: whole(text, 1)),
    "nice": (labels.NICE, lambda text: whole(text, -(2**31))),
    "preemptible": (labels.PREEMPTIBLE, flag),
    "nodes_after_s": (labels.NODES_AFTER, _length),
    "movable": (labels.MOVABLE, flag),
    "last_victim": (labels.LAST_VICTIM, flag),
    "size": (labels.SIZE, lambda text: choice(text, GangSize)),
    "groups": (labels.SUBGROUPS, subgroups),
}
_CLOSENESS = (labels.CLOSENESS, labels.PREFERRED_CLOSENESS, labels.SLICE, labels.BALANCED)
