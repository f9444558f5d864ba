"""The server's view of a kind: a `Resource` (its names) and a `ResourceStrategy` (its rules).

All kinds share one write pipeline (`write.py`); the differences between kinds are in their `ResourceStrategy`.
k8s.io/apiserver has the same separation (rest.RESTCreateStrategy). So the rules of each kind are in one file, without
HTTP, storage or watches.

Steps of a create: decode, schema (unknown fields, types), `default`, `prepare_create`, admission, `validate`, store.
Steps of an update or patch: decode or patch, schema, `default`, `prepare_update`, admission, `validate` +
`validate_update`, store. Objects are plain JSON values (dicts as decoded by msgspec). Every hook edits `obj` in place
or returns the causes of a refusal. A hook keeps no reference to its arguments, and does not change `old`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from phalanx.embedded.apimachinery.meta.status import Cause

Object = dict[str, Any]

ALL_VERBS = ("create", "delete", "deletecollection", "get", "list", "patch", "update", "watch")


@dataclass(frozen=True, slots=True, kw_only=True)
class User:
    """The user who makes a request."""

    name: str
    groups: tuple[str, ...] = ()
    uid: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Subresource:
    """A subresource, such as `pods/status` or `pods/binding`. `kind`: the kind of the subresource, which may differ
    from the kind of the parent (Binding, Eviction, Scale)."""

    name: str
    kind: str
    group: str = ""
    version: str = ""
    verbs: tuple[str, ...] = ("get", "patch", "update")


class ResourceStrategy:
    """The rules of one kind. A kind without rules of its own uses this base class unchanged. All methods must be
    pure."""

    # True if a PUT or PATCH to a name that does not exist creates the object, as for Leases. For most kinds the
    # response is 404.
    allow_create_on_update: bool = False
    # True if a PUT without metadata.resourceVersion is accepted. Such a PUT replaces the object unconditionally.
    allow_unconditional_update: bool = True
    # True if the response to DELETE is the object (Pod, Service …), False if it is a Status (ConfigMap, Secret, Node,
    # Job …).
    delete_returns_object: bool = False
    # True if a DELETE of an object with finalizers sets deletionGracePeriodSeconds and increments the generation.
    deletion_counts: bool = True
    # The policy for the dependents if a DELETE names no propagationPolicy: "background", or "orphan" (batch/v1 Job).
    default_propagation: str = "background"
    delete_warning: str = ""  # the warning for a DELETE without a propagation policy

    def default(self, obj: Object) -> None:
        """Set the defaults of fields that the user left out (SetDefaults_*). This method runs on every decoded or
        patched object, so it must be idempotent."""

    def prepare_create(self, obj: Object) -> None:
        """Drop the fields that a client may not set when it creates an object, such as the status, and set the
        generation."""

    def prepare_update(self, obj: Object, old: Object) -> None:
        """Restore the fields that a write to the object itself may not change, such as the status. Increment the
        generation if the spec has changed."""

    def prepare_status_update(self, obj: Object, old: Object) -> None:
        """Restore all fields that a write to `/status` may not change: everything except the status and, for some
        kinds, labels and annotations."""

    def validate(self, obj: Object) -> list[Cause]:
        """Return the errors in a new object."""
        return []

    def validate_update(self, obj: Object, old: Object) -> list[Cause]:
        """Return an error for each forbidden change, for example of an immutable field. For an update, the server also
        calls `validate`."""
        return []

    def validate_status_update(self, obj: Object, old: Object) -> list[Cause]:
        return []

    def warnings(self, obj: Object, old: Object | None) -> list[str]:
        """Return the warnings for the `Warning:` headers of the response."""
        return []

    def selectable_fields(self, obj: Object) -> Mapping[str, str]:
        """Return the values that field selectors can select: name of a field -> value in this object, in addition to
        metadata.name and metadata.namespace."""
        return {}

    def selectable_names(self) -> Iterable[str]:
        """Return the names that `selectable_fields` may have as keys. A field selector with another name is refused
        with 400."""
        return ()

    def begin_deletion(self, obj: Object, now: str) -> None:
        """Edit an object whose deletion begins: for example, add a finalizer of the server, or set a condition."""

    def deletion_grace_s(self, obj: Object, asked_s: int | None) -> int:
        """Return the grace period in seconds between DELETE and the removal; 0 if the object is removed at once. Only a
        Pod that has a node and has not ended has a grace period."""
        return 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Resource:
    """The names of a kind, and how it is served. `schema_name`: the name of the kind's OpenAPI definition
    (`io.k8s.api.core.v1.Pod`). A custom resource has a structural `schema` instead."""

    group: str
    version: str
    kind: str
    plural: str
    namespaced: bool
    singular: str = ""
    list_kind: str = ""
    short_names: tuple[str, ...] = ()
    categories: tuple[str, ...] = ()
    verbs: tuple[str, ...] = ALL_VERBS
    subresources: tuple[Subresource, ...] = ()
    schema_name: str = ""
    schema: Mapping[str, Any] | None = None
    strategy: ResourceStrategy = field(default_factory=ResourceStrategy)
    custom: bool = False  # True if a CustomResourceDefinition defines the kind
    deprecation: str = ""  # the warning in each response about this deprecated version; "" for none
    # Some kinds are stored in the form of another API group: an Event of events.k8s.io/v1 is stored as an Event of core
    # v1. For these kinds: the group and version of the stored form, and the functions that convert to and from this
    # form. Strategies get the stored form.
    storage: tuple[str, str] | None = None
    to_stored: Callable[[Object], Object] | None = None
    from_stored: Callable[[Object], Object] | None = None
    # For a custom resource: the additionalPrinterColumns and the three JSON paths of subresources.scale in its
    # CustomResourceDefinition.
    printer_columns: tuple[Mapping[str, object], ...] = ()
    scale: Mapping[str, str] | None = None

    @property
    def api_version(self) -> str:
        """Return the API version, such as `v1` or `batch/v1`."""
        return f"{self.group}/{self.version}" if self.group else self.version

    @property
    def key(self) -> tuple[str, str]:
        """Return (group, plural), the key by which the store finds the objects. All versions of a kind share this
        key."""
        return self.storage or (self.group, self.plural)

    def subresource(self, name: str) -> Subresource | None:
        return next((one for one in self.subresources if one.name == name), None)


def type_package(resource: Resource) -> str:
    """Return the Go package of the kind's type, as messages name it: `core`, `batch`."""
    return "unstructured" if resource.custom else resource.group.partition(".")[0] or "core"


def stored_form(resource: Resource, obj: Object) -> Object:
    """Return an object in the stored form. `obj`: the object in the version in which a client wrote it."""
    return obj if resource.to_stored is None else resource.to_stored(obj)


def converted(resource: Resource, obj: Object) -> Object:
    """Return a stored object in the version of `resource`. The versions of a custom resource differ only in
    `apiVersion`."""
    if resource.from_stored is not None:
        return resource.from_stored(obj)
    return {"kind": resource.kind, "apiVersion": resource.api_version} | {
        key: value for key, value in obj.items() if key not in ("kind", "apiVersion")
    }
