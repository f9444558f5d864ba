"""Errors of the API server. Each refusal is raised as a `StatusError`, which becomes a `Status` object in the response.

The HTTP layer catches every `StatusError` in one place, and sends its `status()` with its `code`. Reasons, codes and
the formats of messages are those of k8s.io/apimachinery/pkg/api/errors and
k8s.io/apimachinery/pkg/util/validation/field, so that a client which parses them sees no difference."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec

from phalanx.embedded.apimachinery.limits import CAUSES
from phalanx.embedded.apimachinery.schema.scalars import go_quoted

NO_FIELD = "<nil>"  # the value of `field` for a cause that concerns no field or the whole object


@dataclass(frozen=True, slots=True)
class Cause:
    """An entry of `status.details.causes`. `reason`: one of the constants FieldValue*. `field`: the path of the field,
    such as `spec.x[0]`."""

    reason: str
    message: str
    field: str

    def line(self) -> str:
        """Return the text of the cause in the message of the Status: `spec.x: Required value`."""
        return f"{self.field}: {self.message}"


class StatusError(Exception):
    """A refusal with the message of kube-apiserver. `details`: copied into the Status."""

    def __init__(
        self,
        code: int,
        reason: str,
        message: str,
        *,
        details: Mapping[str, object] | None = None,
        retry_after_s: int | None = None,
        metadata: Mapping[str, object] | None = None,
    ) -> None:
        super().__init__(message)
        self.code, self.reason, self.message = code, reason, message
        # If `details` is None, the Status has no field `details`. If it is an empty mapping, the field is `{}`, as for
        # an unknown path.
        self.details = None if details is None else dict(details)
        self.retry_after_s = retry_after_s
        # the metadata of the Status; after an expired list, it has the token `continue` for the next page
        self.metadata = dict(metadata or {})

    def status(self) -> dict[str, Any]:
        """Return the `v1.Status` object."""
        body: dict[str, Any] = {
            "kind": "Status",
            "apiVersion": "v1",
            "metadata": self.metadata,
            "status": "Failure",
            "message": self.message,
        }
        if self.reason:
            body["reason"] = self.reason
        details = self.details
        if self.retry_after_s is not None:
            details = {**(details or {}), "retryAfterSeconds": self.retry_after_s}
        if details is not None:
            body["details"] = details
        body["code"] = self.code
        return body


def _details(group: str, kind: str, name: str = "") -> dict[str, object]:
    found = {"name": name, "group": group, "kind": kind}
    return {key: value for key, value in found.items() if value}


def qualified(plural: str, group: str) -> str:
    """Return the name of a resource as messages show it: `pods`, `jobs.batch`."""
    return f"{plural}.{group}" if group else plural


def not_found(group: str, plural: str, name: str) -> StatusError:
    message = f'{qualified(plural, group)} "{name}" not found'
    return StatusError(404, "NotFound", message, details=_details(group, plural, name))


def already_exists(group: str, plural: str, name: str, *, is_terminating: bool = False) -> StatusError:
    """Return the error 409 for a name that another object has. `is_terminating`: True if that object is being
    deleted."""
    message = f'{qualified(plural, group)} "{name}" already exists'
    message = f"object is being deleted: {message}" if is_terminating else message
    return StatusError(409, "AlreadyExists", message, details=_details(group, plural, name))


def conflict(group: str, plural: str, name: str, why: str) -> StatusError:
    message = f'Operation cannot be fulfilled on {qualified(plural, group)} "{name}": {why}'
    return StatusError(409, "Conflict", message, details=_details(group, plural, name))


def forbidden(group: str, plural: str, name: str, why: str) -> StatusError:
    subject = f'{qualified(plural, group)} "{name}"' if name else qualified(plural, group)
    return StatusError(403, "Forbidden", f"{subject} is forbidden: {why}", details=_details(group, plural, name))


def bad_request(why: str) -> StatusError:
    return StatusError(400, "BadRequest", why)


def invalid(group: str, kind: str, name: str, causes: Sequence[Cause]) -> StatusError:
    """Return an error 422. The message contains the text of the cause. If there are several causes, the message
    contains all their texts in brackets, like `field.ErrorList.ToAggregate`. If there are very many causes, the message
    lists only the first ones."""
    told, more = causes[:CAUSES], len(causes) - CAUSES
    lines = list(dict.fromkeys(cause.line() for cause in told))
    if more > 0:
        lines.append(f"and {more} more")
    text = lines[0] if len(lines) == 1 else "[" + ", ".join(lines) + "]"
    details = _details(group, kind, name) | {
        "causes": [{"reason": c.reason, "message": c.message, "field": c.field} for c in told]
    }
    subject = f"{kind}.{group}" if group else kind
    return StatusError(422, "Invalid", f'{subject} "{name}" is invalid: {text}', details=details)


# --- causes, with the messages of k8s.io/apimachinery/pkg/util/validation/field -------------------------------------


def shown(value: object) -> str:
    """Return a value as messages show it: strings in quotes, numbers and booleans without quotes, and other values as
    Go prints them in JSON."""
    match value:
        case None:
            return "null"
        case bool() | int() | float():
            return msgspec.json.encode(value).decode()
        case str():
            return go_quoted(value)
        case _:
            text = msgspec.json.encode(value).decode()
            return text.replace("&", "\\u0026").replace("<", "\\u003c").replace(">", "\\u003e")


def _worded(kind: str, detail: str) -> str:
    return f"{kind}: {detail}" if detail else kind


def required(field: str, detail: str = "") -> Cause:
    return Cause("FieldValueRequired", _worded("Required value", detail), field)


def invalid_value(field: str, value: object, detail: str) -> Cause:
    return Cause("FieldValueInvalid", _worded(f"Invalid value: {shown(value)}", detail), field)


def forbidden_field(field: str, detail: str) -> Cause:
    return Cause("FieldValueForbidden", _worded("Forbidden", detail), field)


def not_supported(field: str, value: object, valid: Iterable[str]) -> Cause:
    detail = "supported values: " + ", ".join(f'"{one}"' for one in valid)
    return Cause("FieldValueNotSupported", _worded(f"Unsupported value: {shown(value)}", detail), field)


def duplicate(field: str, value: object) -> Cause:
    return Cause("FieldValueDuplicate", f"Duplicate value: {shown(value)}", field)


def not_found_value(field: str, value: object) -> Cause:
    return Cause("FieldValueNotFound", f"Not found: {shown(value)}", field)


def too_long(field: str, max_bytes: int) -> Cause:
    return Cause("FieldValueTooLong", f"Too long: may not be more than {max_bytes} bytes", field)


def too_many(field: str, actual: int, maximum: int) -> Cause:
    return Cause(
        "FieldValueTooMany", f"Too many: {actual}: must have at most {maximum} item{'' if maximum == 1 else 's'}", field
    )
