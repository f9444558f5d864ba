"""Content negotiation: the form of a response (from the header Accept), and the form of a body (from Content-Type).

The server reads and writes JSON, YAML and protobuf; protobuf is available only for built-in kinds. An `Accept` header
may also request another *kind*: `application/json;as=Table;v=v1;g=meta.k8s.io`. If the server does not have a requested
form, it tries the next one in the header. If none is left, the response is 406.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import msgspec
import yaml

from phalanx.embedded.apimachinery.caching import cached
from phalanx.embedded.apimachinery.meta.status import StatusError, bad_request
from phalanx.embedded.apimachinery.patch.json_patch import go_kind
from phalanx.embedded.apiserver.transport import go_json
from phalanx.embedded.apiserver.transport.protobuf import protobuf

JSON, YAML, PROTOBUF = "application/json", "application/yaml", protobuf.MEDIA
MEDIA_TYPES = (JSON, YAML, PROTOBUF)
_LISTED = ", ".join(MEDIA_TYPES)
_decode, _encode = msgspec.json.Decoder().decode, msgspec.json.Encoder().encode
_STREAMED = ", ".join(f"{media};stream=watch" for media in (JSON, PROTOBUF))


@dataclass(frozen=True, slots=True, kw_only=True)
class Accept:
    """A form that the client accepts: the media type, and `as_kind`, the kind that objects must be converted to; "" for
    no conversion."""

    media: str = JSON
    as_kind: str = ""
    version: str = ""
    group: str = ""
    pretty: bool = False


@cached(512)
def accepted(header: str) -> tuple[Accept, ...]:
    """Return those forms in an Accept header that the server can send, in the client's order of preference. Raises
    `StatusError` 406 if there are none."""
    if not header:
        return (Accept(),)
    weighed = []
    for number, item in enumerate(header.split(",")):
        media, parameters = _parameters(item)
        media = {"*/*": JSON, "application/yml": YAML}.get(media, media)
        if media not in MEDIA_TYPES:
            continue
        form = Accept(
            media=media,
            as_kind=parameters.get("as", ""),
            version=parameters.get("v", ""),
            group=parameters.get("g", ""),
            pretty=parameters.get("pretty") == "1",
        )
        weighed.append((-_quality(parameters.get("q", "1")), number, form))
    if not weighed:
        raise not_acceptable()
    return tuple(form for _, _, form in sorted(weighed, key=lambda one: one[:2]))


def not_acceptable(served: str = _LISTED, *, stream: bool = False) -> StatusError:
    """Return the error 406 for an Accept header that contains none of the media types in the list `served`."""
    message = f"406: Not Acceptable\n\nAvailable representations: {served}{f', {_STREAMED}' if stream else ''}"
    return StatusError(406, "NotAcceptable", message, details={})


def no_such_form(*, stream: bool = False) -> StatusError:
    """Return the error 406 for media types that the server supports for other kinds but not for this one. `stream`:
    True for media types that the server does not support for streams."""
    message = f"only the following media types are accepted: {_STREAMED if stream else _LISTED}"
    return StatusError(406, "NotAcceptable", message)


def render(accept: Iterable[Accept], value: Any) -> tuple[str, bytes]:
    """Return the media type and the bytes of a value that is not stored, such as a Status, a Scale or a discovery
    document."""
    for form in accept:
        if form.media == JSON:
            break
        if form.as_kind:
            continue
        if form.media == YAML:
            return YAML, encode_yaml(value)
        if protobuf.definition(value.get("apiVersion", ""), value.get("kind", "")):
            return PROTOBUF, protobuf.encode(value)
    return JSON, _encode(value)


def _parameters(item: str) -> tuple[str, dict[str, str]]:
    media, *rest = item.split(";")
    pairs = (part.partition("=") for part in rest)
    return media.strip().lower(), {key.strip(): value.strip() for key, _, value in pairs}


def _quality(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        return 1.0


# --- bodies ------------------------------------------------------------------------------------------------------


def media_type(header: str) -> str:
    """Return a media type without its parameters: `application/json` for `application/json; charset=utf-8`."""
    return header.partition(";")[0].strip().lower()


def unsupported() -> StatusError:
    message = f"the body of the request was in an unknown format - accepted media types include: {_LISTED}"
    return StatusError(415, "UnsupportedMediaType", message)


# Go's message about an invalid JSON text contains the position of the error. The position is not computed for longer
# texts than this.
_EXPLAINED_BYTES = 64 * 1024


def decode_json(body: bytes) -> object:
    """Return the value of a JSON text. Raises `ValueError` with Go's message if the text is not JSON or is nested too
    deeply."""
    go_json.check_json(body)
    try:
        value = _decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        why = go_json.syntax_error(body) if len(body) <= _EXPLAINED_BYTES else ""
        raise ValueError(why or str(error)) from None
    go_json.check_values(body, value)
    return value


def decode_body(body: bytes, content_type: str, kind: str) -> object:
    """Return the value in a body that should hold a `kind`. A missing Content-Type means JSON. Raises `StatusError`
    415, 400."""
    try:
        value = decoded(body, content_type)
        if why := kind_problem(value):
            raise bad_request(why)
    except StatusError as error:
        if error.code != 400 or body.startswith(protobuf.MAGIC):
            raise
        raise unrecognized(error.message, body, kind) from None
    return value


def decoded(body: bytes, content_type: str) -> Any:
    """Return the value in a body, in the format that the Content-Type names. Raises `StatusError` 415, 400."""
    media = media_type(content_type)
    if media in ("", JSON):
        try:
            return decode_json(body)
        except ValueError as error:
            raise bad_request(f"couldn't get version/kind; json parse error: {error}") from None
    if media in (YAML, "application/yml"):
        try:
            return decode_yaml(body)
        except StatusError as error:
            raise bad_request(error.message.removeprefix(_TO_JSON)) from None
    if media == PROTOBUF:
        return protobuf.decode(body)
    raise unsupported()


def unrecognized(why: str, body: bytes, kind: str) -> StatusError:
    """Return the error 400 for a body that is not an object. Its message quotes the first bytes of the body."""
    shown = body[:30].decode("utf-8", "replace") if body[:1] == b"{" else body[:30].hex()
    more = " ..." if len(body) > 30 else ""
    summary = (shown + more) if body else "<empty>"
    return bad_request(f"the object provided is unrecognized (must be of type {kind}): {why} ({summary})")


_KIND_STRUCT = 'struct { APIVersion string "json:\\"apiVersion,omitempty\\""; Kind string "json:\\"kind,omitempty\\"" }'


def kind_problem(value: object) -> str:
    """Return the reason why the kind of an object cannot be read, with Go's message; "" if it can."""
    failed = "couldn't get version/kind; json parse error: json: cannot unmarshal"
    if value is None:
        return ""
    if not isinstance(value, dict):
        return f"{failed} {go_kind(value)} into Go value of type {_KIND_STRUCT}"
    for name, text in value.items():
        if name in ("kind", "apiVersion") and not isinstance(text, str | None):
            return f"{failed} {go_kind(text)} into Go struct field .{name} of type string"
    version = value.get("apiVersion") or ""
    return f"unexpected GroupVersion string: {version}" if version.count("/") > 1 else ""


def decode_patch(body: bytes, prefix: str = "") -> Any:
    """Return the JSON value of a patch in the body of a request. Raises `StatusError` 400, whose message begins with
    `prefix`."""
    try:
        return decode_json(body)
    except ValueError as error:
        raise bad_request(f"{prefix}{error}") from None


def decode_apply(body: bytes) -> object:
    """Return the configuration in the body of an apply patch, which is YAML. Raises `StatusError` 400."""
    try:
        value = decode_yaml(body)
    except StatusError as error:
        raise bad_request(f"error decoding YAML: {error.message}") from None
    if value is not None and not isinstance(value, dict):
        why = f"json: cannot unmarshal {go_kind(value)} into Go value of type map[string]interface {{}}"
        raise bad_request(f"error decoding YAML: error unmarshaling JSON: while decoding JSON: {why}")
    return value or {}


class Yaml11Loader(yaml.CSafeLoader if hasattr(yaml, "CSafeLoader") else yaml.SafeLoader):  # type: ignore[misc]  # C or not
    """A loader of YAML 1.1 with the rules of go-yaml v2: `y` and `off` are booleans; `017`, `1_000` and `1e3` are
    numbers; times and numbers in base 60 are strings."""


_TAG = "tag:yaml.org,2002:"
_BOOLS = dict.fromkeys(("y", "yes", "true", "on"), True) | dict.fromkeys(("n", "no", "false", "off"), False)
_BOOL = re.compile("|".join(form for word in _BOOLS for form in (word, word.capitalize(), word.upper())))
_INT = re.compile(r"[-+]?(0[xX][0-9a-fA-F]+|0[oO]?[0-7]+|0[bB][01]+|[1-9][0-9]*|0)")
_FLOAT = re.compile(r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?")
_BASES = {"x": 16, "o": 8, "b": 2}
# An integer of 2^64 or more is read as a float. A float of 1e21 or more is written with an exponent.
_MOST, _EXACT = 1 << 64, 1e21


def _with_underscores(pattern: re.Pattern[str]) -> re.Pattern[str]:
    """Return a regular expression for numbers that also allows `_` after the first character."""
    text = pattern.pattern.replace("0-9", "0-9_").replace("0-7", "0-7_").replace("[01]", "[01_]")
    return re.compile(f"(?:{text})$")


Yaml11Loader.yaml_implicit_resolvers = {
    sign: [(tag, pattern) for tag, pattern in resolvers if tag in (f"{_TAG}null", f"{_TAG}merge", f"{_TAG}float")]
    for sign, resolvers in Yaml11Loader.yaml_implicit_resolvers.items()
}
Yaml11Loader.add_implicit_resolver(f"{_TAG}bool", re.compile(f"(?:{_BOOL.pattern})$"), list("yYnNtTfFoO"))
Yaml11Loader.add_implicit_resolver(f"{_TAG}int", _with_underscores(_INT), list("-+0123456789"))
Yaml11Loader.add_implicit_resolver(f"{_TAG}float", _with_underscores(_FLOAT), list("-+.0123456789"))


def _read_bool(_: yaml.SafeLoader, node: yaml.Node) -> object:
    return _BOOLS[node.value.lower()]


def _read_number(loader: yaml.SafeLoader, node: yaml.ScalarNode) -> object:
    """Return the number of a YAML scalar; its text if Go does not read it as a number."""
    text = node.value.replace("_", "")
    if _INT.fullmatch(text) and abs(whole := _whole(text)) < _MOST:
        return whole
    if _FLOAT.fullmatch(text):
        number = float(text)
        if math.isinf(number):
            return node.value
        return int(number) if number.is_integer() and abs(number) < _EXACT else number
    return node.value if ":" in text or text[-1:].isdigit() else loader.construct_yaml_float(node)


def _whole(text: str) -> int:
    sign, digits = (-1 if text[0] == "-" else 1), text.lstrip("+-").lower()
    if len(digits) < 2 or digits[0] != "0":
        return sign * int(digits)
    return sign * (int(digits[2:], _BASES[digits[1]]) if digits[1] in _BASES else int(digits, 8))


Yaml11Loader.add_constructor(f"{_TAG}bool", _read_bool)
Yaml11Loader.add_constructor(f"{_TAG}int", _read_number)
Yaml11Loader.add_constructor(f"{_TAG}float", _read_number)


_TO_JSON = "error converting YAML to JSON: "  # the prefix of error messages about apply patches


def _of_first(events: Iterable[yaml.Event]) -> Iterator[yaml.Event]:
    """Yield the events of the first document, because the server reads no other document."""
    for event in events:
        yield event
        if isinstance(event, yaml.DocumentEndEvent):
            return


def yaml_duplicates(body: bytes) -> list[str]:
    """Return a message for each key that occurs twice in a map of a YAML document."""
    root = next(yaml.compose_all(body, Loader=Yaml11Loader), None)
    return list(_double_keys(root)) if root is not None else []


def _double_keys(node: yaml.Node) -> Iterator[str]:
    seen: set[str] = set()
    for part in node.value if isinstance(node, yaml.CollectionNode) else ():
        key, value = part if isinstance(part, tuple) else (None, part)
        if key is not None and isinstance(key.value, str):
            if key.value in seen:
                yield f'line {key.start_mark.line + 1}: key "{key.value}" already set in map'
            seen.add(key.value)
        yield from _double_keys(value)


def decode_yaml(body: bytes) -> object:
    """Return a YAML document as a JSON value: every key becomes a string. Raises `StatusError` 400."""
    try:
        go_json.check_yaml(_of_first(yaml.parse(body, Loader=Yaml11Loader)))
        return _textual(next(yaml.load_all(body, Loader=Yaml11Loader), None))
    except (yaml.YAMLError, ValueError, KeyError) as error:  # `!!bool x` causes a KeyError
        raise bad_request(f"{_TO_JSON}yaml: {_yaml_error(error)}") from None


def _yaml_error(error: Exception) -> str:
    """Return go-yaml's message about an error: the line (unless it is the first) and the problem."""
    if not isinstance(error, yaml.MarkedYAMLError) or error.problem is None:
        return re.sub(r"\s+", " ", str(error))
    line = error.problem_mark.line if error.problem_mark is not None else 0
    if line and isinstance(error, yaml.scanner.ScannerError):
        line += 1
    return f"line {line}: {error.problem}" if line else str(error.problem)


def _textual(value: object) -> object:
    match value:
        case dict():
            return {_key(key): _textual(one) for key, one in value.items()}
        case list():
            return [_textual(one) for one in value]
        case float() if not math.isfinite(value):
            raise ValueError(f"json: unsupported value: {value}")
        case str() | int() | float() | None:
            return value
        case _:
            raise ValueError(f"cannot represent {type(value).__name__} in JSON")


def _key(key: object) -> str:
    match key:
        case str():
            return key
        case bool():
            return "true" if key else "false"
        case _:
            return str(key)


class _Dumper(yaml.CSafeDumper if hasattr(yaml, "CSafeDumper") else yaml.SafeDumper):  # type: ignore[misc]  # C or not
    """A dumper that writes YAML in the form of sigs.k8s.io/yaml."""


def _written_text(dumper: Any, text: str) -> object:
    """Write a string as YAML: in quotes if it would otherwise be read as a value of another type, and as a block if it
    has several lines."""
    style = None
    if "\n" in text:
        style = "|"
    elif _READ_OTHERWISE.fullmatch(text) or dumper.resolve(yaml.ScalarNode, text, (True, False)) != _TEXT:
        style = '"'
    return dumper.represent_scalar(_TEXT, text, style=style)


_TEXT = "tag:yaml.org,2002:str"
# strings that go-yaml would read as booleans or numbers if they were not quoted
_READ_OTHERWISE = re.compile(r"[yYnN]|[-+]?[0-9][0-9_]*(\.[0-9]*)?[eE][-+]?[0-9]+")
_Dumper.add_representer(str, _written_text)


def encode_yaml(value: object) -> bytes:
    """Return the body of a response to `Accept: application/yaml`."""
    text: str = yaml.dump(value, Dumper=_Dumper, sort_keys=True, allow_unicode=True, default_flow_style=False)
    return text.encode()
