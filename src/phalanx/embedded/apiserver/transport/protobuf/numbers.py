"""The field numbers of Kubernetes' protobuf messages, from `field_numbers.txt`.

Their source is the struct tags of the types.go files of k8s.io/api, k8s.io/apimachinery (pkg/apis/meta/v1) and
k8s.io/apiextensions-apiserver at Kubernetes 1.36.2, compared with the generated.proto files there. A field has its name
in JSON. `[io.k8s.api.core.v1]` opens the messages of a package; types, lists and maps are not repeated, as the
published definitions have them. Kinds of lists are left out too: each is metadata=1 items=2.

`~Name=2` is a struct that Go embeds: protobuf nests it, JSON has its fields beside the others. `!` marks a number, text
or boolean whose zero is significant (a pointer in Go, or without `omitempty`): Go writes the zeros of all other fields
to protobuf too, and leaves them out of JSON.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files


@dataclass(frozen=True, slots=True, kw_only=True)
class ProtobufField:
    """A field of a message. `name` is that in JSON, or the name of an embedded struct."""

    name: str
    number: int
    embedded: bool = False
    zero_counts: bool = False


@cache
def numbers() -> Mapping[str, tuple[ProtobufField, ...]]:
    """Return the fields of each message, by the name of its definition (`io.k8s.api.core.v1.Pod`)."""
    text = files("phalanx.embedded.apiserver.transport.protobuf").joinpath("field_numbers.txt").read_text()
    found: dict[str, tuple[ProtobufField, ...]] = {}
    package = ""
    for line in text.replace("\n  ", " ").splitlines():
        if line.startswith("["):
            package = line.strip("[]")
            continue
        message, *fields = line.split()
        found[f"{package}.{message}"] = tuple(map(_field, fields))
    return found


def _field(word: str) -> ProtobufField:
    name, _, number = word.rpartition("=")
    return ProtobufField(
        name=name.removeprefix("~"),
        number=int(number.removesuffix("!")),
        embedded=name.startswith("~"),
        zero_counts=number.endswith("!"),
    )
