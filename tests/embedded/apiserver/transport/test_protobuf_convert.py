"""`transport/protobuf/convert.py`: the fields of objects as fields of messages, and back."""

from __future__ import annotations

from typing import Any

import pytest

from phalanx.embedded.apimachinery.meta.status import StatusError
from phalanx.embedded.apimachinery.schema import schema
from phalanx.embedded.apiserver.transport.protobuf import protobuf
from phalanx.embedded.apiserver.transport.protobuf.convert import SizeBudget, values
from phalanx.embedded.apiserver.transport.protobuf.messages import numbers


def number(value: int) -> bytes:
    found = b""
    while value >= 0x80:
        found += bytes([value & 0x7F | 0x80])
        value >>= 7
    return found + bytes([value])


def field(at: int, value: int | str | bytes) -> bytes:
    """One field of a message."""
    if isinstance(value, int):
        return number(at << 3) + number(value & (1 << 64) - 1)
    raw = value.encode() if isinstance(value, str) else value
    return number(at << 3 | 2) + number(len(raw)) + raw


def body(api_version: str, kind: str, raw: bytes) -> bytes:
    return protobuf.MAGIC + field(1, field(1, api_version) + field(2, kind)) + field(2, raw)


def test_texts_maps_bytes_and_times() -> None:
    meta = field(1, "s") + field(8, field(1, 1_000_000_000)) + field(11, field(1, "app") + field(2, "x"))
    raw = field(1, meta) + field(2, field(1, "key") + field(2, b"\x00\xff")) + field(3, "Opaque")
    assert protobuf.decode(body("v1", "Secret", raw)) == {
        "kind": "Secret",
        "apiVersion": "v1",
        "metadata": {"name": "s", "creationTimestamp": "2001-09-09T01:46:40Z", "labels": {"app": "x"}},
        "data": {"key": "AP8="},
        "type": "Opaque",
    }


def test_lists_quantities_negative_numbers_and_messages_that_json_does_not_nest() -> None:
    secret = field(1, field(1, "name-of-secret")) + field(2, "key")
    env = field(1, "TOKEN") + field(3, field(4, secret))
    limits = field(1, "cpu") + field(2, field(1, "500m"))
    container = field(1, "c") + field(3, "sleep") + field(3, "5") + field(7, env) + field(8, field(1, limits))
    spec = field(2, container) + field(25, -5)
    found = protobuf.decode(body("v1", "Pod", field(2, spec)))["spec"]
    assert found == {
        "containers": [
            {
                "name": "c",
                "command": ["sleep", "5"],
                "env": [{"name": "TOKEN", "valueFrom": {"secretKeyRef": {"name": "name-of-secret", "key": "key"}}}],
                "resources": {"limits": {"cpu": "500m"}},
            }
        ],
        "priority": -5,
    }


def test_int_or_string() -> None:
    ports = field(1, field(3, 80) + field(4, field(1, 0) + field(2, 8080)))
    named = field(1, field(3, 81) + field(4, field(1, 1) + field(3, "http")))
    found = protobuf.decode(body("v1", "Service", field(2, ports + named)))["spec"]["ports"]
    assert found == [{"port": 80, "targetPort": 8080}, {"port": 81, "targetPort": "http"}]


def test_a_field_that_is_not_known_is_skipped() -> None:
    raw = field(1, field(1, "s")) + field(77, "x")
    assert protobuf.decode(body("v1", "Secret", raw))["metadata"] == {"name": "s"}


def test_zeros_stay_where_they_say_something() -> None:
    """Go writes the zero of every number and text that is no pointer: JSON has only those of pointers."""
    spec = field(1, 0) + field(9, "") + field(10, 0)
    assert protobuf.decode(body("batch/v1", "Job", field(1, field(1, "j") + field(3, "")) + field(2, spec))) == {
        "kind": "Job",
        "apiVersion": "batch/v1",
        "metadata": {"name": "j"},
        "spec": {"parallelism": 0, "completionMode": "", "suspend": False},
    }


def test_a_body_of_many_empty_messages_is_refused() -> None:
    containers = field(2, b"") * 60_000
    with pytest.raises(StatusError, match="more than 50000 values") as caught:
        protobuf.decode(body("v1", "Pod", field(2, containers)))
    assert caught.value.code == 400


def test_a_microtime_keeps_its_fraction_and_a_field_set_its_json() -> None:
    owned = field(1, "me") + field(7, field(1, b'{"f:spec":{}}'))
    lease = field(1, field(17, owned)) + field(2, field(4, field(1, 1_000_000_000) + field(2, 123_456_000)))
    found = protobuf.decode(body("coordination.k8s.io/v1", "Lease", lease))
    assert found["spec"] == {
        "acquireTime" if "acquireTime" in found["spec"] else "renewTime": "2001-09-09T01:46:40.123456Z"
    }
    assert found["metadata"]["managedFields"] == [{"manager": "me", "fieldsV1": {"f:spec": {}}}]


KINDS = sorted(
    (gvk["group"], gvk["version"], gvk["kind"], name)
    for name, one in schema.definitions().items()
    for gvk in one.get("x-kubernetes-group-version-kind", ())
    if name in numbers() and gvk["kind"] != "DeleteOptions"
)


def full(node: schema.Type, depth: int = 0) -> Any:
    """Return a value of the type in which every field is set."""
    match node.shape:
        case "object":
            below = depth + (node.kind == "JSONSchemaProps")
            said_outside = ("kind", "apiVersion") if "x-kubernetes-group-version-kind" in node.body else ()
            fields = {key: one for key, one in node.fields.items() if key not in said_outside}
            return {key: full(one, below) for key, one in fields.items() if below < 3 or one.shape == "string"}
        case "list":
            assert node.items is not None
            return [full(node.items, depth), full(node.items, depth)]
        case "map":
            assert node.items is not None
            return {"a": full(node.items, depth), "b/c": full(node.items, depth)}
        case "string" if node.raw.get("format") == "byte":
            return "AP8="
        case "int-or-string":
            return "50%"
        case "any" if "JSONSchemaProps" in node.kind:
            return {"type": "string"}
        case "any":
            return {"f:spec": {".": {}, "list": [1, "x", None]}}
    scalars = {"string": "text \u00e9", "boolean": True, "integer": -7, "number": 0.5, "quantity": "1500m"}
    times = {"time": "2026-01-02T03:04:05Z", "microtime": "2026-01-02T03:04:05.678901Z"}
    return (scalars | times)[node.shape]


@pytest.mark.parametrize(("group", "version", "kind", "name"), KINDS, ids=[".".join(one[:3]) for one in KINDS])
def test_every_kind_there_and_back(group: str, version: str, kind: str, name: str) -> None:
    obj = {"kind": kind, "apiVersion": f"{group}/{version}" if group else version, **full(schema.type_of(name))}
    assert protobuf.decode(protobuf.encode(obj)) == obj


def test_the_envelope_names_the_kind_so_the_message_does_not() -> None:
    assert values("io.k8s.api.core.v1.Secret")({"kind": "Secret", "apiVersion": "v1", "type": "Opaque"}) == {
        "type": "Opaque"
    }


def test_fields_without_a_value_or_without_a_field_in_the_message_are_left_out() -> None:
    convert = values("io.k8s.api.core.v1.Secret")
    assert convert({"type": None, "data": None, "colour": "red"}) == {}


def test_a_time_is_seconds_and_nanoseconds_since_the_epoch() -> None:
    convert = values("io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta")
    found = [
        convert({"creationTimestamp": text})["creationTimestamp"]
        for text in ("2001-09-09T01:46:40Z", "2001-09-09T03:46:40+02:00", "1969-12-31T23:59:59Z")
    ]
    assert found == [
        {"seconds": 1_000_000_000, "nanos": 0},
        {"seconds": 1_000_000_000, "nanos": 0},
        {"seconds": -1, "nanos": 0},
    ]


def test_a_missing_time_is_null() -> None:
    """Go writes a pod's creationTimestamp as an empty message in templates."""
    assert protobuf.decode(body("v1", "Secret", field(1, field(1, "s") + field(8, b""))))["metadata"] == {
        "name": "s",
        "creationTimestamp": None,
    }


def test_a_time_that_python_cannot_have_is_refused() -> None:
    with pytest.raises(StatusError) as raised:
        protobuf.decode(body("v1", "Secret", field(1, field(8, field(1, 1 << 60)))))
    assert raised.value.code == 400


@pytest.mark.parametrize(
    ("schema_of", "shown"),
    [
        ({"additionalProperties": False}, {"additionalProperties": False}),
        ({"additionalProperties": {"type": "string"}}, {"additionalProperties": {"type": "string"}}),
        ({"items": {"type": "string"}}, {"items": {"type": "string"}}),
        ({"dependencies": {"a": ["b", "c"]}}, {"dependencies": {"a": ["b", "c"]}}),
        ({"default": {"a": [1, None]}, "enum": ["x", 1]}, {"default": {"a": [1, None]}, "enum": ["x", 1]}),
    ],
)
def test_values_of_several_types_in_schemas_go_there_and_back(schema_of: Any, shown: Any) -> None:
    version = {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema_of}}
    obj = {
        "kind": "CustomResourceDefinition",
        "apiVersion": "apiextensions.k8s.io/v1",
        "spec": {"group": "x.org", "versions": [version]},
    }
    found = protobuf.decode(protobuf.encode(obj))["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    assert found == shown


def test_a_budget_of_values_is_spent_once() -> None:
    budget = SizeBudget(3)
    budget.spend(2)
    budget.spend(1)
    with pytest.raises(ValueError, match="more than 50000 values"):
        budget.spend(1)


def test_values_within_raw_json_count() -> None:
    """A field set may be as large as a message."""
    raw = b'{"f:spec":[' + b",".join([b"1"] * 60_000) + b"]}"
    owned = field(1, "me") + field(7, field(1, raw))
    with pytest.raises(StatusError, match="more than 50000 values"):
        protobuf.decode(body("v1", "Secret", field(1, field(17, owned))))
