"""Names of Go's types in errors of decoding: of scalars, and of structs that are embedded in others."""

from __future__ import annotations

import pytest

from phalanx.embedded.apimachinery.schema.gotypes import go_names
from phalanx.embedded.apimachinery.schema.scalars import DecodeError
from phalanx.embedded.apimachinery.schema.schema import decode, type_of
from tests.embedded.apimachinery.schema.test_go_fields import missing


def test_every_field_of_the_tables_is_published() -> None:
    assert list(missing(tuple(path.split(".")) for path in go_names.NAMED)) == []
    parts = ((kind, field) for kind, fields in go_names.EMBEDDED.items() for field in fields if field != "*")
    assert list(missing(parts)) == []


@pytest.mark.parametrize(
    ("kind", "field", "path"),
    [
        ("Volume", "configMap", "VolumeSource.configMap"),
        ("Volume", "name", "name"),
        ("Probe", "exec", "ProbeHandler.exec"),
        ("Probe", "periodSeconds", "periodSeconds"),
        ("NamedRuleWithOperations", "apiGroups", "RuleWithOperations.Rule.apiGroups"),
        ("Pod", "spec", "spec"),
    ],
)
def test_a_path_names_the_embedded_struct(kind: str, field: str, path: str) -> None:
    assert go_names.path_of(kind, field) == path


def test_an_error_has_the_names_of_both() -> None:
    volumes = {"spec": {"volumes": [{"name": "v", "hostPath": {"path": "/", "type": 1}}]}}
    with pytest.raises(DecodeError) as raised:
        decode(type_of("io.k8s.api.core.v1.Pod"), volumes)
    assert str(raised.value) == (
        "json: cannot unmarshal number into Go struct field "
        "HostPathVolumeSource.spec.volumes.VolumeSource.hostPath.type of type v1.HostPathType"
    )
