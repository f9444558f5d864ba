"""The server's view of a kind: a `Resource` (its names) and a `ResourceStrategy` (its rules).

All kinds share the pipeline of writes (`write.py`); the differences between kinds are in their `ResourceStrategy`.
k8s.io/apiserver has the same separation (rest.RESTCreateStrategy). So the rules of each kind are in one file, without
HTTP, storage or watches.

Order of a create: decode, schema (unknown fields, types), `default`, `prepare_create`, admission, `validate`, store.
Order of an update or patch: decode or patch, schema, `default`, `prepare_update`, admission, `validate` +
`validate_update`, store. Objects are plain JSON values (dicts as decoded by msgspec). Every hook edits `obj` in place
or returns causes. A hook keeps no reference to its arguments, and does not change `old`.
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
    """A subresource, such as `pods/status` or `pods/binding`. `kind`: its kind, which may differ from the parent's
    (Binding, Eviction, Scale)."""

    name: str
    kind: str
    group: str = ""
    version: str = ""
    verbs: tuple[str, ...] = ("get", "patch", "update")


class ResourceStrategy:
    """The rules of one kind; the defaults here are those of a kind without any. All methods must be pure."""

    # PUT/PATCH to a name that does not exist creates it (Lease does; most kinds answer 404).
    allow_create_on_update: bool = False
    # PUT without metadata.resourceVersion is accepted, and replaces the object.
    allow_unconditional_update: bool = True
    # DELETE answers the object (True: Pod, Service …) or a Status (False: ConfigMap, Secret, Node, Job …).
    delete_returns_object: bool = False
    # The mark of a deletion that waits for finalizers has a grace period, and raises the generation.
    deletion_counts: bool = True
    # What DELETE without propagationPolicy does with dependents: "background" or "orphan" (batch/v1 Job).
    default_propagation: str = "background"
    delete_warning: str = ""  # the warning for a request without a propagation policy

    def default(self, obj: Object) -> None:
        """Set the defaults of fields that the user left out (SetDefaults_*). It runs on every decoded or patched
        object, so it must be idempotent."""

    def prepare_create(self, obj: Object) -> None:
        """Drop fields that a client may not set on create (status), and set the generation."""

    def prepare_update(self, obj: Object, old: Object) -> None:
        """Restore fields that a client may not change through the main resource (status). Raise the generation if the
        spec changes."""

    def prepare_status_update(self, obj: Object, old: Object) -> None:
        """For a write to `/status`: restore everything except the status (and labels and annotations, for some
        kinds)."""

    def validate(self, obj: Object) -> list[Cause]:
        """Return the errors in a new object."""
        return []

    def validate_update(self, obj: Object, old: Object) -> list[Cause]:
        """Return the forbidden changes (of immutable fields). `validate` runs as well."""
        return []

    def validate_status_update(self, obj: Object, old: Object) -> list[Cause]:
        return []

    def warnings(self, obj: Object, old: Object | None) -> list[str]:
        """Return the texts of `Warning:` headers."""
        return []

    def selectable_fields(self, obj: Object) -> Mapping[str, str]:
        """Return label of a field selector -> value, in addition to metadata.name and metadata.namespace."""
        return {}

    def selectable_names(self) -> Iterable[str]:
        """Return the labels that `selectable_fields` may have. A query with another label is refused with 400."""
        return ()

    def begin_deletion(self, obj: Object, now: str) -> None:
        """Edit an object whose deletion begins: for example, add a finalizer of the server, or set a condition."""

    def deletion_grace_s(self, obj: Object, asked_s: int | None) -> int:
        """Return the seconds between DELETE and the removal; 0: the object is removed at once. Only a bound Pod that
        has not ended has such a time."""
        return 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Resource:
    """The names of a kind, and how it is served. `schema_name` is its key in the OpenAPI definitions
    (`io.k8s.api.core.v1.Pod`); a custom resource has its own structural `schema` instead."""

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
    custom: bool = False  # defined by a CustomResourceDefinition
    deprecation: str = ""  # the warning that comes with each answer
    # For a kind that is another kind's objects in another shape (events.k8s.io/v1 shows core v1 events): where they
    # are stored, and the translations. Strategies get the stored shape.
    storage: tuple[str, str] | None = None
    to_stored: Callable[[Object], Object] | None = None
    from_stored: Callable[[Object], Object] | None = None
    # For a custom resource: its additionalPrinterColumns, and subresources.scale with its three JSON paths.
    printer_columns: tuple[Mapping[str, Any], ...] = ()
    scale: Mapping[str, str] | None = None

    @property
    def api_version(self) -> str:
        """Return the API version, such as `v1` or `batch/v1`."""
        return f"{self.group}/{self.version}" if self.group else self.version

    @property
    def key(self) -> tuple[str, str]:
        """Return (group, plural), the key of the storage, which all versions share."""
        return self.storage or (self.group, self.plural)

    def subresource(self, name: str) -> Subresource | None:
        return next((one for one in self.subresources if one.name == name), None)


def type_package(resource: Resource) -> str:
    """Return the Go package of the kind's type, as messages name it: `core`, `batch`."""
    return "unstructured" if resource.custom else resource.group.partition(".")[0] or "core"


def stored_form(resource: Resource, obj: Object) -> Object:
    """Return an object in the stored form. `obj`: in the form of the version in which a client wrote it."""
    return obj if resource.to_stored is None else resource.to_stored(obj)


def converted(resource: Resource, obj: Object) -> Object:
    """Return a stored object as another version of its kind shows it: versions of custom resources differ in name
    only."""
    if resource.from_stored is not None:
        return resource.from_stored(obj)
    return {"kind": resource.kind, "apiVersion": resource.api_version} | {
        key: value for key, value in obj.items() if key not in ("kind", "apiVersion")
    }
