"""Apply the body of a PATCH request. Its media type determines the kind of patch.

`current` is never changed. The result shares unchanged values with `current`, so the cost depends on the patch and not
on the size of the object. A caller must copy the result before editing it. Server-side apply is in `apply.py`, because
it merges the configurations of managers instead of patching the stored object.
"""

from __future__ import annotations

from phalanx.embedded.apimachinery.meta.status import StatusError
from phalanx.embedded.apimachinery.patch.json_patch import json_patch, merge_patch
from phalanx.embedded.apimachinery.patch.strategic import strategic_merge
from phalanx.embedded.apimachinery.schema.schema import type_of

JSON_PATCH = "application/json-patch+json"
MERGE_PATCH = "application/merge-patch+json"
STRATEGIC_MERGE_PATCH = "application/strategic-merge-patch+json"
APPLY_PATCH = "application/apply-patch+yaml"


def apply_patch(
    media_type: str, current: dict[str, object], patch: object, schema_name: str | None
) -> dict[str, object]:
    """Return the object after the patch, before defaulting and validation. `schema_name`: the definition of a built-in
    kind; None for a custom resource. Raises StatusError: 400 (malformed), 415 (unsupported media type), 422, 500."""
    result: object
    match media_type:
        case "application/json-patch+json":
            result = json_patch(current, patch)
        case "application/merge-patch+json":
            result = merge_patch(current, patch)
        case "application/strategic-merge-patch+json" if schema_name:
            result = strategic_merge(current, patch, type_of(schema_name))
        case _:
            raise unsupported_media_type(custom=not schema_name)
    if not isinstance(result, dict):
        raise StatusError(422, "Invalid", "the server rejected our request due to an error in our request", details={})
    return result


def unsupported_media_type(*, custom: bool) -> StatusError:
    """Return the error 415 for the body of a PATCH. For built-in kinds and for custom resources, kube-apiserver has
    different messages."""
    if not custom:
        return StatusError(415, "UnsupportedMediaType", "415: Unsupported Media Type", details={})
    accepted = f"{JSON_PATCH}, {MERGE_PATCH}, {APPLY_PATCH}"
    message = "the body of the request was in an unknown format - accepted media types include: " + accepted
    return StatusError(415, "UnsupportedMediaType", message)
