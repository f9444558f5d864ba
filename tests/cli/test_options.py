"""The options of `phalanx simulate`."""

from __future__ import annotations

from pathlib import Path

import pytest

from phalanx.cli.study.simulation import options
from phalanx.cli.study.simulation.options import Chance, Given, Results, RunLimits, Tuning, faults_of
from phalanx.errors import PhalanxError
from phalanx.simulator.cluster.disturbance import Faults


def test_a_source_has_what_was_given() -> None:
    found = Given(load=2.0, limits=RunLimits.IGNORE, shake="5m").source(Path("t.swf"))
    assert (found.load, found.overruns, found.shake_s) == (2.0, True, 300.0)
    with pytest.raises(PhalanxError, match="--shake: 'much' is not a length of time"):
        Given(shake="much").source(Path("t.swf"))


def test_faults() -> None:
    assert faults_of([]) is None
    assert faults_of(["node-mtbf=30d", "lost=0.01", "slow-start=0.1", "slow-start-time=1h"]) == Faults(
        node_mtbf_s=30 * 86400.0, lost=0.01, slow_start=0.1, slow_start_s=3600.0
    )
    assert Chance(checkpoint="1h").checkpoint_s() == 3600.0
    assert Chance().checkpoint_s() is None


@pytest.mark.parametrize(
    ("fault", "why"),
    [
        ("disk=1", "there is no fault 'disk'; known are "),
        ("lost", "--fault lost: '' is not a number of at least 0"),
        ("lost=-1", "'-1' is not a number of at least 0"),
        ("lost=nan", "'nan' is not a number of at least 0"),
        ("lost=1.5", "a probability is from 0 to 1"),
        ("node-mtbf=x", "--fault node-mtbf: 'x' is not a length of time"),
    ],
)
def test_faults_that_there_are_not(fault: str, why: str) -> None:
    with pytest.raises(PhalanxError) as raised:
        faults_of([fault])
    assert why in str(raised.value)


def test_options_that_differ_from_their_defaults_are_named() -> None:
    assert Results(fair_starts=3, json=True).said() == ["--fair-starts", "--json"]
    assert Results().said() == []


def test_options_of_a_search_need_one() -> None:
    Tuning(tune=Path("f"), trials=3).check()
    Tuning().check()
    with pytest.raises(PhalanxError, match="--trials, --aside: this needs --tune FILE"):
        Tuning(trials=3, aside=0.5).check()


@pytest.mark.parametrize(
    ("results", "why"),
    [
        ({"csv": "none/a.csv"}, "there is no folder"),
        ({"csv": "."}, "it is a folder"),
        ({"csv": "trace"}, "is an input file; name another file"),
        ({"csv": "a", "schedule": "a"}, "is given for two results"),
    ],
)
def test_files_that_cannot_be_written_are_told_before_the_simulation(
    tmp_path: Path, results: dict[str, str], why: str
) -> None:
    (tmp_path / "trace").write_text("")
    with pytest.raises(PhalanxError) as raised:
        Results(**{name: tmp_path / file for name, file in results.items()}).check([tmp_path / "trace"])
    assert why in str(raised.value)


def test_devices_may_be_named_twice() -> None:
    Results(csv=Path("/dev/null"), schedule=Path("/dev/null")).check([])


def test_a_library_that_is_missing_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def missing(name: str) -> None:
        raise ImportError(name)

    monkeypatch.setattr(options, "import_module", missing)
    with pytest.raises(PhalanxError, match="--parquet needs pyarrow"):
        Results(parquet=tmp_path / "a").check([])
