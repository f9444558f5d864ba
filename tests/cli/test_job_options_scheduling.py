"""When a job runs, as it is said on the command line: what becomes of the words, and which are refused before anything
is created."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path
from typing import Any

import pytest
import yaml

from phalanx.cli import app as cli
from phalanx.cli.files.manifest import queued, read_files
from phalanx.cli.submission.job_options import WishOptions, length_s, moment_s
from phalanx.dialects.schema.fields import Misread, duration_s
from phalanx.errors import PhalanxError
from phalanx.kube.gang.spec.job_options import job_options, options_of

NOON_S = datetime(2026, 1, 31, 12, 0).timestamp()  # on this machine's clock, wherever it is
JOB = """\
apiVersion: batch/v1
kind: Job
metadata:
  name: train
  labels: {phalanx.dev/queue: research, phalanx.dev/time-limit: "60"}
spec:
  template: {spec: {restartPolicy: Never, priorityClassName: low, containers: [{name: main, image: host}]}}
"""


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("90s", 90),
        ("30m", 1800),
        ("1d12h", 129_600),
        ("2:30:00", 9000),
        ("36:00:00", 129_600),
        ("1-12", 129_600),
        ("1-12:30", 131_400),
        ("1-12:30:05", 131_405),
    ],
)
def test_a_time_limit_is_a_length_with_units_or_in_those_forms_of_slurm_that_are_read_in_one_way(
    text: str, seconds: float
) -> None:
    assert length_s(text) == seconds == duration_s(text)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("30", "--time-limit 30: seconds, minutes or hours? Write the unit"),
        ("1:30", "--time-limit '1:30' is not a length of time"),
        ("2:99:00", "--time-limit '2:99:00' is not a length of time"),
        ("soon", "--time-limit 'soon' is not a length of time"),
        ("-3h", "--time-limit '-3h' is not a length of time"),
        ("200000d", "--time-limit '200000d' is not a length of time"),
        ("0h", "--time-limit 0h: the shortest is one second"),
    ],
)
def test_what_could_be_read_in_two_ways_or_none_is_refused(text: str, message: str) -> None:
    with pytest.raises(PhalanxError) as error:
        WishOptions(time_limit=text).words(NOON_S)
    assert str(error.value).startswith(message)
    assert str(error.value).endswith("Nothing was created.")


def test_the_parser_of_lengths_still_refuses_what_looks_like_one() -> None:
    for text in ("1:2:3", "1-", "-1:00:00", "1-12-3", "1d-3h"):
        with pytest.raises(Misread):
            duration_s(text)


def test_a_point_in_time_is_one_of_this_machines_clock_or_from_now_or_with_its_zone() -> None:
    assert moment_s("--begin", "+1h30m", NOON_S) == NOON_S + 5400
    assert moment_s("--begin", "18:00", NOON_S) == NOON_S + 6 * 3600
    assert moment_s("--begin", "9:00", NOON_S) == datetime(2026, 2, 1, 9, 0).timestamp()  # today's is over
    assert moment_s("--begin", "2026-01-31T18:00", NOON_S) == NOON_S + 6 * 3600
    assert moment_s("--begin", "2026-01-31T18:00:00Z", NOON_S) == 1769882400.0
    assert moment_s("--begin", "2026-01-31T19:00:00+01:00", NOON_S) == 1769882400.0


@pytest.mark.parametrize("text", ["tomorrow", "25:00", "+", "+soon", "", "2026-02-30", "1e400"])
def test_a_point_in_time_that_is_none_is_refused(text: str) -> None:
    with pytest.raises(PhalanxError, match=r"is not a point in time\. Write for example"):
        moment_s("--begin", text, NOON_S)


@pytest.mark.parametrize(
    ("said", "message"),
    [
        ({"deadline": "+1h", "time_limit": "2h"}, "--deadline +1h .* the job could not end by then"),
        ({"deadline": "+1h", "begin": "+2h"}, "--deadline +1h .* the job could not end by then"),
        ({"deadline": "2020-01-01"}, "--deadline 2020-01-01 .* the job could not end by then"),
        ({"after": ("afterok:prepare",)}, "--after 'afterok:prepare': it must be one of start, ok, not-ok, any"),
        ({"after": ("a b",)}, "--after 'a b' names no job"),
        ({"after": (":ok",)}, "--after ':ok': a dependency must name a job"),
        ({"after": ("",)}, "--after '' names no job"),
        ({"nice": 2**31}, "--nice 2147483648: it is not a whole number from"),
        ({"singleton": "a b"}, "--singleton 'a b' is not a valid name"),
        ({"priority": "10;"}, "--priority '10;' is not a valid name"),
    ],
)
def test_a_wish_that_cannot_be_is_refused(said: dict[str, Any], message: str) -> None:
    with pytest.raises(PhalanxError, match=message.replace("+", r"\+")):
        WishOptions(**said).words(NOON_S)


def test_the_scheduler_reads_what_was_meant() -> None:
    said = WishOptions(
        time_limit="1:30:00",
        begin="+1h",
        deadline="+1d",
        after=("prepare", "other/data:any,third:start"),
        singleton="train",
        qos="high",
        nice=-5,
        reservation="course",
    ).words(NOON_S)
    read = job_options(options_of(said, "train"), "lab")
    assert (read["limit_s"], read["begin_s"], read["deadline_s"]) == (5400.0, NOON_S + 3600, NOON_S + 86_400)
    assert [(each.job, str(each.after)) for each in read["after"]] == [
        ("lab/prepare", "ok"),
        ("other/data", "any"),
        ("lab/third", "start"),
    ]
    assert (read["singleton"], read["qos"], read["nice"], read["reservation"]) == ("train", "high", -5, "course")


def test_what_is_not_said_is_not_written() -> None:
    assert WishOptions().words(NOON_S) == {}


def test_the_command_line_counts_instead_of_the_file(tmp_path: Path) -> None:
    file = tmp_path / "job.yaml"
    file.write_text(JOB)
    words = WishOptions(time_limit="2h", hold=True).words(NOON_S)
    obj = queued(read_files([file])[0], None, words, "high")
    assert obj["metadata"]["annotations"] == {"phalanx.dev/time-limit": "2h", "phalanx.dev/hold": "true"}
    assert obj["metadata"]["labels"] == {"phalanx.dev/queue": "research"}  # its own limit is gone: labels would win
    assert obj["spec"]["template"]["spec"]["priorityClassName"] == "high"


def call(monkeypatch: pytest.MonkeyPatch, *words: str) -> int | str | None:
    monkeypatch.setattr("sys.argv", ["phalanx", *words])
    with pytest.raises(SystemExit) as ended:
        cli.main()
    return ended.value.code


def test_a_dry_run_shows_the_words(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    words = ("--time-limit", "30m", "--depends-on", "a:any", "--after", "b", "--priority", "high")
    assert call(monkeypatch, "submit", "--dry-run", *words, "--", "true") == 0
    made = yaml.safe_load(capsys.readouterr().out)
    assert made["metadata"]["annotations"] == {"phalanx.dev/time-limit": "30m", "phalanx.dev/after": "a:any,b"}
    assert made["spec"]["template"]["spec"]["priorityClassName"] == "high"


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (
            ("--cpu", "2"),
            "--cpu is an option for commands; {job} itself states what its pods request. Nothing was created.",
        ),
        (
            ("--env", "A=1"),
            "--env is an option for commands; {job} itself states what its pods request. Nothing was created.",
        ),
    ],
)
def test_an_option_that_a_file_would_not_heed_is_refused(
    words: tuple[str, ...],
    message: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    job = tmp_path / "job.yaml"
    job.write_text(JOB)
    assert call(monkeypatch, "submit", str(job), *words, "--dry-run") == 1
    assert message.format(job=job) in capsys.readouterr().err


@pytest.mark.parametrize("words", [("--queue", "a"), ("--time-limit", "1h"), ("--hold",), ("--nice", "3")])
def test_an_option_for_jobs_is_refused_where_there_is_none(
    words: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "settings.yaml"
    file.write_text("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: settings}\n")
    assert call(monkeypatch, "submit", str(file), *words, "--dry-run") == 1
    assert f"{words[0]} is an option for Jobs, but {file} has no Job. Nothing was created." in capsys.readouterr().err
