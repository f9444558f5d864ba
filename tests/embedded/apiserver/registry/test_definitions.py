"""`embedded/apiserver/endpoints/reconcilers/definitions.py`: the CustomResourceDefinitions of a running server."""

from __future__ import annotations

from phalanx.embedded.apiserver.endpoints.reconcilers.definitions import accepted, taken_names
from phalanx.embedded.apiserver.registry.crd.crd import DefinitionStrategy
from tests.embedded.apiserver.registry.test_crd import definition


def test_a_definition_is_served_once_its_names_are_accepted() -> None:
    status = accepted(definition(), taken_names([], []), "2026-01-01T00:00:00Z")
    assert [(one["type"], one["status"], one["reason"]) for one in status["conditions"]] == [
        ("NamesAccepted", "True", "NoConflicts"),
        ("Established", "True", "InitialNamesAccepted"),
    ]
    assert status["acceptedNames"]["plural"] == "widgets"


def test_a_name_that_is_in_use_is_not_accepted() -> None:
    taken = taken_names([{"plural": "wagons", "kind": "Wagon", "shortNames": ["wg"]}], [])
    status = accepted(definition(), taken, "2026-01-01T00:00:00Z")
    assert [(one["type"], one["status"], one["reason"]) for one in status["conditions"]] == [
        ("NamesAccepted", "False", "ShortNamesConflict"),
        ("Established", "False", "NotAccepted"),
    ]


def test_an_established_definition_keeps_its_names() -> None:
    old = definition()
    old["status"] = accepted(old, taken_names([], []), "2026-01-01T00:00:00Z")
    new = definition(spec__scope="Cluster")
    assert [cause.line() for cause in DefinitionStrategy().validate_update(new, old)] == [
        'spec.scope: Invalid value: "Cluster": field is immutable'
    ]
