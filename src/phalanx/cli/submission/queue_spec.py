"""Change the spec of a queue as command-line options request, and check the result. The functions have no side
effects."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from copy import deepcopy
from typing import Any

from phalanx.client.connection import Object
from phalanx.core.fold.fold import fold
from phalanx.dialects.schema.fields import Misread
from phalanx.dialects.schema.policy import read_flavor
from phalanx.dialects.schema.queue import read_queue
from phalanx.errors import PhalanxError
from phalanx.kube.read import queue
from phalanx.model.event import Event, FlavorSeen, PolicySeen, QueueSeen
from phalanx.model.policy import Policy
from phalanx.report.status import queue_statuses
from phalanx.state.cluster import Cluster

Spec = dict[str, Any]
BOUNDS = ("guaranteed", "limit", "lend")


def changed(
    spec: Mapping[str, Any], fields: Mapping[str, object], bounds: Mapping[str, Sequence[str]], flavor: str
) -> Spec:
    """Return the spec with these changes. `fields`: path of a field in the spec (with dots) -> value; None keeps the
    field, "" removes it. `bounds`: guaranteed, limit or lend -> texts RESOURCE=AMOUNT; an empty amount removes the
    bound. `flavor`: the flavor whose quota has these bounds; "" for all nodes. Raises PhalanxError if a bound is not
    RESOURCE=AMOUNT."""
    found = deepcopy(dict(spec))
    for path, value in fields.items():
        if value is not None:
            _set(found, path.split("."), value)
    pairs = [(name, resource, text) for name in BOUNDS for resource, text in _pairs(name, bounds.get(name, ()))]
    for name, resource, text in pairs:
        _set(_quota(found, flavor), [name, resource], text)
    quotas = [one for one in found.get("quotas") or () if any(one.get(name) for name in BOUNDS)]
    found.pop("quotas", None)
    return {**found, "quotas": quotas} if quotas else found


def require_valid(name: str, spec: Mapping[str, object]) -> None:
    """Raise PhalanxError if the spec of the queue is invalid."""
    try:
        read_queue(name, spec)
    except Misread as error:
        raise PhalanxError(f"queue {name}: {error}. Nothing was changed.") from None


def tree_faults(name: str, queues: Iterable[Object], flavors: Iterable[Object]) -> list[str]:
    """Return the configuration errors that would prevent the queue from starting jobs, in a cluster with these Queue
    and Flavor objects. The errors may be in other queues of the tree."""
    events: list[Event] = [PolicySeen(Policy())]
    for obj in flavors:
        events.append(FlavorSeen(read_flavor(obj["metadata"]["name"], obj.get("spec") or {})))
    for obj in queues:
        try:
            events.append(QueueSeen(queue.read_queue(obj)))
        except Misread:  # the status of another queue reports this fault
            continue
    cluster = Cluster()
    fold(cluster, events)
    found = [one for one in queue_statuses(cluster, places=0) if one.queue == name and one.fault]
    return [f"queue {one.queue} will start no jobs: {one.fault}" for one in found]


def differences(before: Mapping[str, object], after: Mapping[str, object]) -> list[str]:
    """Return a text for each field that differs between the two specs: `quotas.cpu.limit: 8 -> 4`."""
    old, new = dict(_leaves(before)), dict(_leaves(after))
    return [
        f"{path}: {old.get(path, 'not set')} -> {new.get(path, 'not set')}"
        for path in sorted({*old, *new})
        if old.get(path) != new.get(path)
    ]


def _set(spec: Spec, path: Sequence[str], value: object) -> None:
    *above, last = path
    for step in above:
        spec = spec.setdefault(step, {})
    if value == "":
        spec.pop(last, None)
    else:
        spec[last] = value


def _quota(spec: Spec, flavor: str) -> Spec:
    """Return the quota of this flavor in the spec. If there is none, add an empty quota."""
    quotas: list[Spec] = spec.setdefault("quotas", [])
    found = next((one for one in quotas if (one.get("flavor") or "") == flavor), None)
    if found is None:
        found = {"flavor": flavor} if flavor else {}
        quotas.append(found)
    return found


def _pairs(option: str, texts: Sequence[str]) -> Iterator[tuple[str, str]]:
    for text in (part for each in texts for part in each.split(",")):
        resource, equals, amount = text.partition("=")
        if not resource or not equals:
            raise PhalanxError(
                f"--{option} {text!r} is not RESOURCE=AMOUNT. Write for example --{option} cpu=64,nvidia.com/gpu=8, "
                f"or --{option} cpu= for no bound. Nothing was changed."
            )
        yield resource, amount


def _leaves(value: object, path: str = "") -> Iterator[tuple[str, str]]:
    match value:
        case Mapping():
            for key, inner in value.items():
                yield from _leaves(inner, f"{path}.{key}" if path else str(key))
        case list():
            for number, inner in enumerate(value):
                if isinstance(inner, Mapping):  # the path names the flavor of the item instead of its index
                    own = {key: one for key, one in inner.items() if key != "flavor"}
                    yield from _leaves(own, f"{path}[{inner.get('flavor') or 'all nodes'}]")
                else:
                    yield from _leaves(inner, f"{path}[{number}]")
        case bool():
            yield path, str(value).lower()
        case _:
            yield path, str(value)
