"""The list of all dialects."""

from __future__ import annotations

import subprocess
import sys

import pytest

from phalanx.dialects.enabled import DIALECTS, RECORDED


@pytest.mark.parametrize("name", DIALECTS)
def test_a_dialect_has_the_name_of_its_entry_and_reads_an_empty_cluster(name: str) -> None:
    dialect = DIALECTS[name]
    assert dialect.name == name
    defined = dialect.define({})
    answers = dialect.statuses(defined, (), {}, "2026-01-01T00:00:00Z")
    assert all(each.body is not None for each in answers), "there is no object whose status could be written"
    assert dialect.options_of("Pod", {"name": "p", "namespace": "n"}, "another-scheduler") == {}


def test_no_scheduler_name_belongs_to_two_dialects() -> None:
    names = [name for dialect in DIALECTS.values() for name in dialect.scheduler_names]
    assert len(names) == len(set(names))


def test_a_dialect_may_be_the_key_of_a_table() -> None:
    assert len({dialect: name for name, dialect in DIALECTS.items()}) == len(DIALECTS)


def test_what_is_recorded_is_written() -> None:
    for name, kinds in RECORDED.items():
        written = {kind.name for kind in DIALECTS[name].answer_kinds} | {"Pod"}  # YuniKorn answers on pods
        assert {kind.name for kind in kinds} <= written


def test_a_dialect_is_imported_when_it_is_first_used() -> None:
    code = (
        "import sys; from phalanx.dialects.enabled import DIALECTS; "
        "before = 'phalanx.dialects.kai.dialect' in sys.modules; DIALECTS['kai']; "
        "print(before, *(f'phalanx.dialects.{each}.dialect' in sys.modules for each in ('kai', 'volcano')))"
    )
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    assert done.stdout.split() == ["False", "True", "False"]
