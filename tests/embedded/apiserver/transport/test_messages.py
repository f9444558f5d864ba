"""`embedded/apiserver/transport/protobuf/messages.py`: the messages of Kubernetes' Protobuf."""

from __future__ import annotations

from phalanx.embedded.apimachinery.schema import schema
from phalanx.embedded.apiserver.transport.protobuf import messages
from phalanx.embedded.apiserver.transport.protobuf.messages import numbers


def test_every_field_of_a_definition_has_a_number_and_the_other_way_round() -> None:
    for name in numbers():
        if name not in schema.definitions():
            continue  # a struct that is embedded in others, which have its fields
        waiting, found = [name], set()
        while waiting:
            for one in messages.fields_of(waiting.pop()):
                if one.embedded:
                    waiting.append(messages.embedded_name(name, one.name))
                else:
                    found.add(one.name)
        properties = set(schema.type_of(name).fields)
        if "x-kubernetes-group-version-kind" in schema.definitions()[name]:
            properties -= {"kind", "apiVersion"}
        assert found == properties, name
