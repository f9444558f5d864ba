"""Patches of an object, and the ownership of its fields."""

from __future__ import annotations

from typing import Any

from phalanx.embedded.apimachinery.meta.objectmeta import now_text
from phalanx.embedded.apimachinery.meta.resource import Object, Resource
from phalanx.embedded.apimachinery.meta.status import bad_request
from phalanx.embedded.apimachinery.patch import managed_fields
from phalanx.embedded.apimachinery.patch import patch as patches
from phalanx.embedded.apimachinery.patch.apply import apply
from phalanx.embedded.apimachinery.patch.json_patch import go_kind, unknown_fields, wrong_operation
from phalanx.embedded.apimachinery.patch.patch import APPLY_PATCH
from phalanx.embedded.apiserver.transport import negotiation
from phalanx.embedded.apiserver.transport.go_json import duplicates


def check_patch_media(resource: Resource, media: str) -> None:
    """Check that the kind accepts the patch format of a PATCH. Raises `StatusError` 415."""
    if media == APPLY_PATCH:
        return
    known = media in (patches.JSON_PATCH, patches.MERGE_PATCH, patches.STRATEGIC_MERGE_PATCH)
    if not known or (resource.custom and media == patches.STRATEGIC_MERGE_PATCH):
        raise patches.unsupported_media_type(custom=resource.custom)


def patch_body(media: str, body: bytes, validation: str) -> tuple[Any, list[str]]:
    """Return the patch in the body of a PATCH, and messages about duplicate fields and about unknown fields in the
    operations of a JSON patch. Raises `StatusError` 400."""
    if media == APPLY_PATCH:
        return negotiation.decode_apply(body), []
    prefix = "" if validation == "Ignore" or media == patches.STRATEGIC_MERGE_PATCH else "error decoding patch: "
    patch = negotiation.decode_patch(body, prefix)
    if validation == "Ignore":
        return _or_empty(media, patch), []
    found = [f'duplicate field "{path}"' for path in duplicates(body, patch)]
    if media == patches.JSON_PATCH:
        if why := wrong_operation(patch):
            raise bad_request(f"{prefix}json: cannot unmarshal {why}")
        found += [f'unknown field "{path}"' for path in unknown_fields(patch or ())]
        return patch or [], [f"json patch {one}" for one in found]
    if patch is not None and not isinstance(patch, dict):
        go_type = "map[string]interface {}"
        raise bad_request(f"{prefix}json: cannot unmarshal {go_kind(patch)} into Go value of type {go_type}")
    return _or_empty(media, patch), found


def _or_empty(media: str, patch: object) -> Any:
    """Return the patch; for `null`, return an empty patch, without operations or fields. `null` as a merge patch is an
    error, so it is returned unchanged."""
    if patch is not None or media == patches.MERGE_PATCH:
        return patch
    return [] if media == patches.JSON_PATCH else {}


def touched_fields(media: str, patch: object, current: Object) -> set[str]:
    """Return the top-level fields of an object that a patch can change. `metadata` is always one of them."""
    found = {"metadata"}
    match media, patch:
        case ((patches.MERGE_PATCH | patches.STRATEGIC_MERGE_PATCH), dict()) if (
            media == patches.MERGE_PATCH or not {"$patch", "$retainKeys"} & patch.keys()
        ):
            return found | {key for key in patch if key not in ("kind", "apiVersion")}
        case patches.JSON_PATCH, list():
            pointers = [one.get(key) for one in patch if isinstance(one, dict) for key in ("path", "from")]
            first = {text.split("/")[1] for text in pointers if isinstance(text, str) and text.startswith("/")}
            if len(patch) and all(isinstance(one, dict) and str(one.get("path")).startswith("/") for one in patch):
                return found | {key for key in first if key not in ("kind", "apiVersion")}
    return found | {key for key in current if key not in ("kind", "apiVersion")}


def record_fields(resource: Resource, obj: Object, old: Object | None, manager: str, subresource: str) -> None:
    """Record in managedFields which fields this write has set."""
    if old is not None:
        managed_fields.track_update(resource, obj, old, manager, subresource, now_text())
    elif managed_fields.is_tracked_from_birth(resource, obj):
        managed_fields.track_create(resource, obj, manager, now_text())
    else:
        obj["metadata"].pop("managedFields", None)


def apply_patch(resource: Resource, media: str, current: Object, patch: object) -> Object:
    """Return `current` after a patch. The result shares with `current` the parts that the patch does not touch.
    Raises `StatusError`."""
    return patches.apply_patch(media, current, patch, resource.schema_name or None)


def apply_intent(
    resource: Resource, current: Object | None, intent: object, manager: str, force: bool, subresource: str
) -> Object:
    """Return the object after a server-side apply of `intent`. Raises `StatusError` 409 for conflicts."""
    return apply(resource, current, intent, manager, force=force, subresource=subresource, now=now_text())
