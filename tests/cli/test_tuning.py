"""`phalanx simulate --tune`: a search on one part of a log, judged on the other; stopped, and gone on with."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml

from phalanx.cli.app import build
from phalanx.cli.files.policy_file import setup_of
from phalanx.cli.study.simulation.cells import Cell
from phalanx.cli.study.simulation.options import Tuning
from phalanx.cli.study.simulation.trace_source import TraceSource
from phalanx.cli.study.simulation.tuning import BASELINES, Bounds, TuningPlan, plan_of, policy_of, tuned, written
from phalanx.errors import PhalanxError
from phalanx.model.policy import BackfillOrder
from phalanx.model.queue import QueueOrder

LOG = Path(__file__).parents[1] / "simulator" / "data" / "kth-sp2-4000.swf.gz"
SEARCHED, ASIDE = 220, 80


def plan(folder: Path, trials: int = 4, **others: Any) -> TuningPlan:
    cell = Cell(source=TraceSource(trace=LOG, first=SEARCHED), policy="", estimates="user", seed=0)
    aside = replace(cell, source=replace(cell.source, first=SEARCHED + ASIDE, skip=SEARCHED))
    jobs = (SEARCHED, ASIDE)
    return TuningPlan(file=folder / "best.yaml", trials=trials, search=cell, aside=aside, jobs=jobs, **others)


def search(asked: TuningPlan, stop_after: float = float("inf")) -> Any:
    seen: list[int] = []
    found = tuned(asked, processes=1, progress=seen.append, stopped=lambda: bool(seen) and seen[-1] >= stop_after)
    assert seen == sorted(seen)  # one bar, which never goes back
    return found, seen[-1]


@pytest.mark.slow
def test_the_best_is_judged_on_jobs_that_the_search_never_saw(tmp_path: Path) -> None:
    asked = plan(tmp_path)
    found, played = search(asked)
    assert (found.trials, played) == (4, asked.played)
    assert [each.measures["policy"] for each in found.aside] == [*BASELINES, "best"]
    assert {each.measures["jobs"] for each in found.aside} == {ASIDE}
    text = written(asked, found, "phalanx simulate\nflat: true")
    assert text.startswith("# Found by: phalanx simulate flat: true\n")
    assert "On the 80 later jobs, which the search did not use:" in text
    asked.file.write_text(text)
    setup = setup_of(str(asked.file))
    assert setup.name == "best"
    assert f"There: mean bounded slowdown {found.best['mean_bounded_slowdown']:.2f}" in text


@pytest.mark.long
def test_who_is_stopped_keeps_what_was_found_and_goes_on_there(tmp_path: Path) -> None:
    asked = plan(tmp_path)
    found, _ = search(asked, stop_after=SEARCHED * (len(BASELINES) + 2))
    assert (found.trials, found.aside) == (2, [])
    assert "stopped before" in written(asked, found, "phalanx simulate")
    again, played = search(asked)
    assert (again.trials, played) == (4, asked.played)
    assert search(asked)[0].settings == again.settings  # nothing is left to try


@pytest.mark.slow
def test_another_search_does_not_go_on_with_these_trials(tmp_path: Path) -> None:
    search(plan(tmp_path, trials=1))
    with pytest.raises(PhalanxError, match="another search"):
        search(plan(tmp_path, trials=1, wait_s=60.0))


def test_who_keeps_to_the_bounds_is_before_who_is_better_in_the_mean() -> None:
    bounds = Bounds(wait_s=100.0, fairness=0.5)
    assert bounds.excess({"max_wait_s": 100.0, "jain_fairness": 0.5}) == 1.0
    assert bounds.excess({"max_wait_s": 300.0, "jain_fairness": 0.5}) == 3.0
    assert bounds.excess({"max_wait_s": 300.0, "jain_fairness": 0.25}) == 6.0
    assert Bounds(wait_s=0.0, fairness=0.0).excess({"max_wait_s": 9.0, "jain_fairness": 0.1}) == 10.0


@pytest.mark.slow
def test_a_trace_with_queues_is_searched_as_one_queue(tmp_path: Path) -> None:
    """Its baselines put all jobs in one queue. Queues of the trace that a trial's policy did not have ran nothing."""
    trace, rows = tmp_path / "philly.csv", ["timestamp,duration,num_gpus,gpu_time,cluster"]
    rows += [f"2017-10-09 07:{n:02}:00,{600 + n},{1 + n % 4},0,vc-{n % 3}" for n in range(30)]
    trace.write_text("\n".join(rows))
    of = plan(tmp_path, trials=4)
    asked, aside = (
        replace(each, source=replace(each.source, trace=trace, cluster="2x4", first=first, skip=skip))
        for each, first, skip in ((of.search, 20, 0), (of.aside, 30, 20))
    )
    found, _ = search(replace(of, search=asked, aside=aside, jobs=(20, 10)))
    assert {outcome.measures["unfinished"] for outcome in found.aside} == {0}


def test_usage_is_billed_by_what_the_log_counts(tmp_path: Path) -> None:
    """Jobs of a GPU trace ask no cpu: billed by that, all users had the same share, whatever its weight."""
    settings = {"order": "multifactor", "backfillOrder": "queue", "maxAge": 1.0, "fairShare": 1.0, "size": 1.0}
    settings |= {"smallFirst": True, "sizeRelativeToTime": True, "halfLife": 1.0}
    said = policy_of(settings, "nvidia.com/gpu")
    assert said["policy"]["billing"] == {"nvidia.com/gpu": 1.0}
    trace = tmp_path / "philly.csv"
    trace.write_text("timestamp,duration,num_gpus,gpu_time,cluster\n" + "2017-10-09 07:01:00,60,1,0,vc\n" * 9)
    cell = Cell(source=TraceSource(trace=trace, cluster="2x4"), policy="", estimates="user", seed=0)
    assert plan_of(cell, Tuning(tune=tmp_path / "a.yaml")).resource == "nvidia.com/gpu"


def test_settings_become_a_policy_that_can_be_read(tmp_path: Path) -> None:
    said = policy_of(
        {
            "backfillOrder": "shortest-learned",
            "order": "multifactor",
            "smallFirst": True,
            "sizeRelativeToTime": True,
            "fairShare": 123.456,
            "size": 9.0,
            "maxAge": 3600.4,
            "halfLife": 86400.0,
        }
    )
    file = tmp_path / "p.yaml"
    file.write_text(yaml.safe_dump(said))
    setup = setup_of(str(file))
    factors = setup.policy.factors
    assert setup.policy.backfill_order is BackfillOrder.SHORTEST_LEARNED
    assert (factors.fair_share, factors.size, factors.max_age_s, factors.small_first) == (123.0, 9.0, 3600.0, True)
    assert factors.size_relative_to_time
    assert setup.queues[0].order is QueueOrder.MULTIFACTOR


@pytest.mark.slow
def test_the_command_writes_the_policy_and_says_what_has_no_meaning(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file, log = tmp_path / "best.yaml", [str(LOG), "--first", "120", "--processes", "1", "--trials", "1"]
    asked = ["simulate", *log, "--tune", str(file), "--max-wait", "1s"]
    assert build()(asked, result_action="return_value") == 0
    told = capsys.readouterr()
    assert re.search(r"^best +36 ", told.out, re.MULTILINE)
    assert "no trial is within the bounds" in told.err
    assert file.read_text().startswith("# Found by: phalanx")
    with pytest.raises(PhalanxError, match="leave out --seeds, --policy"):
        build()(
            ["simulate", *log, "--tune", str(file), "--seeds", "2", "--policy", "fifo"], result_action="return_value"
        )


@pytest.mark.parametrize("name", ["hpc-site", "lab", "ai-cluster"])
def test_the_policies_of_the_examples_are_such_as_a_search_writes(name: str) -> None:
    file = Path(__file__).parents[2] / "examples" / "simulate" / f"{name}.yaml"
    setup = setup_of(str(file))
    assert (setup.name, setup.queues[0].order, setup.flat) == (name, QueueOrder.MULTIFACTOR, True)
    assert "# Found by: " in file.read_text()
