"""Events of core v1 and of events.k8s.io/v1. Both show the same objects, which are stored in the form of core v1.

`to_core` and `from_core` convert between the two forms. There is one strategy for each API version. The rules of
events.k8s.io/v1 are stricter than the rules of core v1. Source: pkg/apis/events/v1/conversion.go,
pkg/apis/core/validation/events.go.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from phalanx.embedded.apimachinery.meta.resource import Object, ResourceStrategy
from phalanx.embedded.apimachinery.meta.status import Cause, invalid_value, required
from phalanx.embedded.apimachinery.schema import formats
from phalanx.embedded.apimachinery.schema.gotypes.internal import internal
from phalanx.embedded.apiserver.registry.kinds.checks import Found, formatted, unchanged

# name of a field in core v1 -> name in events.k8s.io/v1
NAMES = {
    "involvedObject": "regarding",
    "message": "note",
    "source": "deprecatedSource",
    "firstTimestamp": "deprecatedFirstTimestamp",
    "lastTimestamp": "deprecatedLastTimestamp",
    "count": "deprecatedCount",
    "reportingComponent": "reportingController",
}
CORE_NAMES = {new: old for old, new in NAMES.items()}
ALWAYS_IN_CORE: Mapping[str, object] = {
    "source": {},
    "firstTimestamp": None,
    "lastTimestamp": None,
    "eventTime": None,
    "reportingComponent": "",
    "reportingInstance": "",
}
IMMUTABLE = {
    "involvedObject": "core.ObjectReference",
    "source": "core.EventSource",
    "related": "*core.ObjectReference",
    "count": "i",
    **dict.fromkeys(("firstTimestamp", "lastTimestamp", "eventTime"), "t"),
    **dict.fromkeys(("reason", "message", "action", "reportingComponent", "reportingInstance", "type"), "s"),
}
SYSTEM_NAMESPACES = ("default", "kube-system")


def to_core(event: Object) -> Object:
    """Return an events.k8s.io/v1 Event in the stored form."""
    core = {CORE_NAMES.get(key, key): value for key, value in event.items()}
    core["apiVersion"] = "v1"
    for key, value in ALWAYS_IN_CORE.items():
        if core.get(key) is None:
            core[key] = {} if isinstance(value, dict) else value
    return core


def from_core(core: Object) -> Object:
    """Return a stored Event in the form of events.k8s.io/v1."""
    event = {NAMES.get(key, key): value for key, value in core.items()}
    event["apiVersion"] = "events.k8s.io/v1"
    for key in ("reportingController", "reportingInstance"):
        if not event.get(key):
            event.pop(key, None)
    return event


class CoreEventStrategy(ResourceStrategy):
    """The strategy of `events` of core v1. It does not validate most fields."""

    def validate(self, obj: Object) -> list[Cause]:
        found: Found = []
        _legacy(found, obj, "reportingComponent")
        return found

    def selectable_names(self) -> Iterable[str]:
        parts = ("kind", "namespace", "name", "uid", "apiVersion", "resourceVersion", "fieldPath")
        return (*(f"involvedObject.{part}" for part in parts), "reason", "reportingComponent", "source", "type")

    def selectable_fields(self, obj: Object) -> Mapping[str, str]:
        about = obj.get("involvedObject") or {}
        component = obj.get("reportingComponent", "")
        return {
            **{name: about.get(name.partition(".")[2], "") for name in self.selectable_names() if "." in name},
            "reason": obj.get("reason", ""),
            "reportingComponent": component,
            "source": (obj.get("source") or {}).get("component", "") or component,
            "type": obj.get("type", ""),
        }


class EventStrategy(CoreEventStrategy):
    """The strategy of `events` of events.k8s.io/v1. Its hooks get objects in the stored form, that of core v1."""

    def validate(self, obj: Object) -> list[Cause]:
        found: Found = []
        _legacy(found, obj, "reportingController")
        if not obj["metadata"].get("resourceVersion"):
            _strict(found, obj)
        return found

    def validate_update(self, obj: Object, old: Object) -> list[Cause]:
        found: Found = []
        if obj.get("series") != old.get("series"):
            _series(found, obj)
        for key, kind in IMMUTABLE.items():
            shown = "reportingController" if key == "reportingComponent" else key
            unchanged(found, shown, internal(obj.get(key), kind), internal(old.get(key), kind))
        return found

    def selectable_names(self) -> Iterable[str]:
        """Yield the names of the selectable fields of both API versions. In events.k8s.io/v1 some of them begin with
        `regarding`."""
        core = tuple(super().selectable_names())
        return (
            *core,
            *(name.replace("involvedObject", "regarding") for name in core if "." in name),
            "reportingController",
        )

    def selectable_fields(self, obj: Object) -> Mapping[str, str]:
        core = super().selectable_fields(obj)
        about = obj.get("involvedObject") or {}
        names = (name for name in self.selectable_names() if name.startswith("regarding."))
        return {
            **core,
            **{name: about.get(name.partition(".")[2], "") for name in names},
            "reportingController": core["reportingComponent"],
        }


def _legacy(found: Found, event: Object, controller: str) -> None:
    namespace = event["metadata"].get("namespace", "")
    about = (event.get("involvedObject") or {}).get("namespace", "")
    mismatch = "does not match event.namespace"
    if not event.get("eventTime"):
        if (about and about != namespace) or (not about and namespace not in ("", "default")):
            found.append(invalid_value("involvedObject.namespace", about, mismatch))
        return
    if not about and namespace not in SYSTEM_NAMESPACES:
        found.append(invalid_value("involvedObject.namespace", about, mismatch))
    reporter = event.get("reportingComponent", "")
    if not reporter:
        found.append(required(controller))
    formatted(found, controller, reporter, formats.qualified_name)
    for key in ("reportingInstance", "action", "reason"):
        value = event.get(key, "")
        if not value:
            found.append(required(key))
        elif len(value) > 128:
            found.append(invalid_value(key, "", "can have at most 128 characters"))
    if len(event.get("message", "")) > 1024:
        found.append(invalid_value("message", "", "can have at most 1024 characters"))


def _strict(found: Found, event: Object) -> None:
    """Check the rules that apply only to a new events.k8s.io/v1 Event."""
    if not event.get("eventTime"):
        found.append(required("eventTime"))
    _series(found, event)
    if event.get("type") not in ("Normal", "Warning"):
        found.append(invalid_value("type", "", f"has invalid value: {event.get('type', '')}"))
    for key in ("firstTimestamp", "lastTimestamp", "count", "source"):
        if event.get(key):
            found.append(invalid_value(key, "", "needs to be unset"))


def _series(found: Found, event: Object) -> None:
    series = event.get("series")
    if series is None:
        return
    if series.get("count", 0) < 2:
        found.append(invalid_value("series.count", "", "should be at least 2"))
    if not series.get("lastObservedTime"):
        found.append(required("series.lastObservedTime"))
