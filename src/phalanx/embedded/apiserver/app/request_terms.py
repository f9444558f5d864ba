"""Derive from a request the values that its handler needs: the required right, the body, the options and the media
types."""

from __future__ import annotations

from phalanx.embedded.apimachinery.meta.resource import User
from phalanx.embedded.apimachinery.meta.status import StatusError
from phalanx.embedded.apiserver.auth.rbac import AccessRequest
from phalanx.embedded.apiserver.endpoints import answers
from phalanx.embedded.apiserver.endpoints.decoding import Intent
from phalanx.embedded.apiserver.endpoints.write import WrittenObject
from phalanx.embedded.apiserver.registry.routing import RouteTarget
from phalanx.embedded.apiserver.transport import negotiation
from phalanx.embedded.apiserver.transport.go_json import duplicates
from phalanx.embedded.apiserver.transport.http import RawRequest
from phalanx.embedded.apiserver.transport.negotiation import Accept, accepted, decode_body, media_type
from phalanx.embedded.apiserver.transport.options import dry_run, field_manager, field_validation
from phalanx.embedded.apiserver.transport.request import HttpRequest, Response

_ACCOUNT = "system:serviceaccount:"


def payer_of(user: User) -> str:
    """Return the name under which the fair queue counts the requests of a user. All service accounts of a namespace
    share one name, because a user who can create one account can create a thousand."""
    return user.name.rpartition(":")[0] if user.name.startswith(_ACCOUNT) else user.name


def scope_of(target: RouteTarget) -> str:
    """Return the namespace in which roles must allow the request. For a Namespace object it is the namespace itself:
    the roles in the namespace may grant rights to the Namespace object."""
    return target.name if target.resource.key == ("", "namespaces") else target.namespace


def access_of(target: RouteTarget, verb: str, request: HttpRequest) -> AccessRequest:
    """Return the right that the request needs, in the terms of RBAC rules. If a field selector requires a name
    (`metadata.name=NAME`), the right is limited to the object of this name."""
    resource, name = target.resource, target.name
    if not name and verb in ("list", "watch", "deletecollection"):
        fields = request.text("fieldSelector").split(",")
        name = next((one.partition("=")[2].lstrip("=") for one in fields if one.startswith("metadata.name=")), "")
    plural = f"{resource.plural}/{target.sub}" if target.sub else resource.plural
    return AccessRequest(verb, resource.group, plural, name)


def body_of(target: RouteTarget, request: HttpRequest) -> object:
    """Return the decoded body of a write. Raises `StatusError`."""
    kind = target.subresource.kind if target.subresource else target.resource.kind
    return decode_body(request.body, request.content_type, kind)


def intent_of(request: HttpRequest, options: str, body: object) -> Intent:
    """Return the options of a write, such as its user, its field manager and the messages about duplicate fields.
    `options`: the kind of the options (such as CreateOptions), which error messages name."""
    validation = field_validation(request, options)
    is_json = body is not None and media_type(request.content_type).endswith("json")
    twice = duplicates(request.body, body) if is_json and validation != "Ignore" else ()
    findings = [f'duplicate field "{path}"' for path in twice]
    if body is not None and validation != "Ignore" and media_type(request.content_type) == negotiation.YAML:
        findings = negotiation.yaml_duplicates(request.body)
    return Intent(
        user=request.user,
        manager=field_manager(request, options),
        dry_run=dry_run(request, options),
        validation=validation,
        findings=findings,
        warn=request.warnings.extend,
    )


def written(target: RouteTarget, request: HttpRequest, found: WrittenObject) -> Response:
    """Return the response to a write."""
    code = 201 if found.created else 200
    return answers.one(target.resource, request, found.stored, code)


def accepted_media(raw: RawRequest) -> tuple[Accept, ...]:
    """Return those media types of the Accept header that the server can send; () if there are none. An empty result is
    no error yet: if the path does not exist either, the client must get the error about the path."""
    try:
        return accepted(raw.headers.get(b"accept", b"").decode("latin-1"))
    except StatusError:
        return ()


def refusal(raw: RawRequest, error: StatusError) -> Response:
    """Return the response for an error."""
    headers = ((b"retry-after", str(error.retry_after_s).encode()),) if error.retry_after_s is not None else ()
    media, body = negotiation.render(accepted_media(raw), error.status())
    return Response(code=error.code, body=body, media=media, headers=headers)


def require_form(target: RouteTarget, verb: str, request: HttpRequest) -> None:
    """Check that the client accepts a media type that the server can send. Raises `StatusError` 406."""
    if not request.accept:
        if target.resource.custom:
            raise negotiation.no_such_form()
        raise negotiation.not_acceptable(stream=verb == "watch")
