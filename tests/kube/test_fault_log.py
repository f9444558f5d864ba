"""`kube/read/fault_log.py`: an error of an object is new once, and again after another error or none."""

from __future__ import annotations

from phalanx.errors import PhalanxError
from phalanx.kube.read.fault_log import MOST_FAULTS, FaultLog, fault_text


def test_the_same_error_is_new_once() -> None:
    log = FaultLog()
    assert [log.is_new("a", "x"), log.is_new("a", "x"), log.is_new("b", "x")] == [True, False, True]
    assert [log.is_new("a", "y"), log.is_new("a", "x")] == [True, True]
    log.pop("a", None)
    assert [log.is_new("a", "x"), log.is_new("b", "x")] == [True, False]


def test_errors_of_many_objects_take_bounded_memory() -> None:
    log = FaultLog()
    for number in range(MOST_FAULTS + 10):
        log.is_new(f"object-{number}", "x")
    assert len(log) == MOST_FAULTS
    assert [log.is_new("object-0", "x"), log.is_new(f"object-{MOST_FAULTS}", "x")] == [True, False]


def test_only_an_unexpected_error_is_named_by_its_class() -> None:
    assert fault_text(PhalanxError("spec.replicas: 'many' is not a number")).endswith(
        "read: spec.replicas: 'many' is not a number"
    )
    assert fault_text(KeyError("spec")) == "it cannot be read: KeyError: 'spec'"
    assert len(fault_text(ValueError("x" * 1000))) == 500
