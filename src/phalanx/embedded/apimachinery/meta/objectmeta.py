"""Set the metadata fields that only the server may set, and restore the fields that an update cannot change.

The rules are those of k8s.io/apiserver/pkg/registry/rest (FillObjectMetaSystemFields, BeforeCreate, BeforeUpdate).
`metadata.py` validates metadata.
"""

from __future__ import annotations

import datetime as dt
import random
import time
from functools import lru_cache
from typing import Any

import msgspec

from phalanx.embedded.apimachinery.meta.resource import Resource
from phalanx.embedded.apimachinery.meta.status import bad_request

Object = dict[str, Any]
Meta = dict[str, Any]

# The letters and digits of generated suffixes. Vowels are left out, so that no suffix is a word. Digits that look like
# letters are left out as well (k8s.io/apimachinery/pkg/util/rand).
_SUFFIX_LETTERS = "bcdfghjklmnpqrstvwxz2456789"
DELETED_BY = "phalanx.dev/deleted-by"  # the annotation with the user who deletes the object; only the server writes it
TEMPLATE_GENERATION = "deprecated.daemonset.template.generation"  # annotation of daemon sets
_SUFFIX_LENGTH, _GENERATED_LENGTH = 5, 63


def now_text() -> str:
    """Return the present time as a `metav1.Time`: whole seconds, UTC."""
    return _second_text(int(time.time()))


@lru_cache(maxsize=4)
def _second_text(at_s: int) -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(at_s))


def time_text(at: dt.datetime) -> str:
    return at.astimezone(dt.UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def later_text(at: dt.datetime, seconds: int) -> str:
    """Return the time `seconds` after `at`, or the latest time that the format allows."""
    try:
        return time_text(at + dt.timedelta(seconds=seconds))
    except OverflowError:
        return "9999-12-31T23:59:59Z"


def new_uid() -> str:
    """Return a random UUID (version 4). This function is faster than uuid.uuid4, which creates an object for each UUID.
    A UUID must be unique but not secret, so a generator that the kernel seeded is enough. A system call for each UUID
    would release the interpreter lock. Under load, the journal's thread would then take the lock and hold it for a long
    time."""
    raw = bytearray(random.getrandbits(128).to_bytes(16))
    raw[6] = raw[6] & 0x0F | 0x40
    raw[8] = raw[8] & 0x3F | 0x80
    text = raw.hex()
    return f"{text[:8]}-{text[8:12]}-{text[12:16]}-{text[16:20]}-{text[20:]}"


def generated(prefix: str) -> str:
    """Return a name for `generateName`."""
    return prefix[: _GENERATED_LENGTH - _SUFFIX_LENGTH] + "".join(random.choices(_SUFFIX_LETTERS, k=_SUFFIX_LENGTH))


def metadata_of(obj: Object) -> Meta:
    """Return the metadata of the object. Add an empty one if there is none."""
    meta = obj.get("metadata")
    if not isinstance(meta, dict):
        meta = obj["metadata"] = {}
    return meta


# --- fields that the server sets --------------------------------------------------------------------------------


def place(meta: Meta, resource: Resource, namespace: str) -> None:
    """Set the namespace of an object to the namespace of the request's path. Raises `StatusError` 400 if the object
    names another namespace."""
    if not resource.namespaced:
        meta.pop("namespace", None)
        return
    if (meta.get("namespace") or namespace) != namespace:
        raise bad_request("the namespace of the provided object does not match the namespace sent on the request")
    meta["namespace"] = namespace


def fill_new(meta: Meta) -> None:
    """Set uid, creation time and other fields of a new object. Fields that only the server may set are dropped."""
    for name in ("deletionTimestamp", "deletionGracePeriodSeconds", "selfLink", "resourceVersion"):
        meta.pop(name, None)
    _keep_deleter(meta, {})
    meta["uid"] = new_uid()
    meta["creationTimestamp"] = now_text()


def without_double_owners(meta: Meta, when: str = "") -> list[str]:
    """Drop identical duplicates of owner references, and return the warning about them."""
    owners = meta.get("ownerReferences")
    if not owners or len(owners) < 2:
        return []
    # JSON of a reference -> the reference. The dictionary is fast even for a hundred thousand references.
    kept: dict[bytes, Object] = {}
    double = []
    for owner in owners:
        if kept.setdefault(msgspec.json.encode(owner, order="sorted"), owner) is not owner:
            double.append(owner.get("uid", ""))
    if not double:
        return []
    meta["ownerReferences"] = list(kept.values())
    text = f".metadata.ownerReferences contains duplicate entries{when}; {_DOUBLE_OWNERS}"
    return [text + ", ".join(double)]


_DOUBLE_OWNERS = (
    "API server dedups owner references in 1.20+, and may reject such requests as early as 1.24; please fix your "
    "requests; duplicate UID(s) observed: "
)


def keep_system_fields(meta: Meta, old: Meta) -> None:
    """Restore the old values of the fields whose changes Kubernetes ignores on an update, instead of refusing the
    update (`rest.BeforeUpdate`)."""
    for name in ("creationTimestamp", "deletionTimestamp"):
        if old.get(name):
            meta[name] = old[name]
    for name in ("uid", "deletionTimestamp", "deletionGracePeriodSeconds"):
        if not meta.get(name):
            take(meta, old, name)
    take(meta, old, "generation")
    _keep_deleter(meta, old)
    meta.pop("selfLink", None)


def _keep_deleter(meta: Meta, old: Meta) -> None:
    """Keep the server's record of the user who deleted the object; clients cannot change it."""
    said, kept = ((one.get("annotations") or {}).get(DELETED_BY) for one in (meta, old))
    if said == kept:
        return
    notes = {name: text for name, text in (meta.get("annotations") or {}).items() if name != DELETED_BY}
    if kept is not None:
        notes[DELETED_BY] = kept
    if notes:
        meta["annotations"] = notes
    else:
        meta.pop("annotations", None)


def take(meta: Meta, old: Meta, name: str) -> None:
    if name in old:
        meta[name] = old[name]
    else:
        meta.pop(name, None)
