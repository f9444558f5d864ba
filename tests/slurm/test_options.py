"""`slurm/options.py`: command lines in the manner of getopt_long(3), with its messages."""

from __future__ import annotations

from collections.abc import Sequence
from types import ModuleType

import pytest

from phalanx.slurm.commands.accounting import sacct, sreport, sshare
from phalanx.slurm.commands.cluster import sinfo
from phalanx.slurm.commands.jobs import sprio, squeue
from phalanx.slurm.commands.launch import sbatch, srun
from phalanx.slurm.options import OptionReader, Usage, declare

READER = OptionReader(
    "sbatch", declare("time,t= hold,H nice=? nodes,N=") + declare("profile=", refused=True), mixed=False
)


def test_long_short_joined_and_abbreviated() -> None:
    options, rest = READER.read(["-t5", "--nodes=2", "-HN", "3", "--tim", "7", "--nice", "job.sh", "-t", "9"])
    assert options == [("time", "5"), ("nodes", "2"), ("hold", None), ("nodes", "3"), ("time", "7"), ("nice", None)]
    assert rest == ["job.sh", "-t", "9"]


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (["--bogus"], "sbatch: unrecognized option '--bogus'\nTry \"sbatch --help\" for more information"),
        (["-Z"], "sbatch: invalid option -- 'Z'\nTry \"sbatch --help\" for more information"),
        (["--time"], "sbatch: option '--time' requires an argument\nTry \"sbatch --help\" for more information"),
        (["--ho=1"], "sbatch: option '--hold' doesn't allow an argument\nTry \"sbatch --help\" for more information"),
        (["--profile=all"], "sbatch: error: --profile is not supported by Phalanx (docs/guide/slurm.md)"),
    ],
)
def test_what_is_not_understood_is_refused_by_its_name(words: list[str], text: str) -> None:
    with pytest.raises(Usage) as error:
        READER.read(words)
    assert error.value.text == text


def test_ambiguous_options_of_srun_stand_in_the_order_of_slurm() -> None:
    with pytest.raises(Usage, match="possibilities: '--threads' '--thread-spec' '--threads-per-core'"):
        OptionReader("srun", srun.OPTIONS, mixed=False).read(["--thre=1"])


@pytest.mark.parametrize(
    ("command", "module", "word", "listed"),
    [
        ("sbatch", sbatch, "--us", "'--use-min-nodes' '--usage'"),
        ("sbatch", sbatch, "--cont", "'--container' '--context' '--contiguous'"),
        ("sbatch", sbatch, "--b", "'--batch' '--begin' '--bb' '--bbf'"),
        ("srun", srun, "--a", "'--accel-bind' '--account' '--acctg-freq'"),
        ("srun", srun, "--cpu", "'--cpu-bind' '--cpu-freq' '--cpus-per-gpu' '--cpus-per-task'"),
        ("sprio", sprio, "--lo", "'--long' '--local'"),
        ("sshare", sshare, "--par", "'--partition' '--parsable' '--parsable2'"),
        ("sreport", sreport, "--ver", "'--verbose' '--version'"),
    ],
)
def test_ambiguous_options_stand_in_the_order_of_slurm(
    command: str, module: ModuleType, word: str, listed: str
) -> None:
    with pytest.raises(Usage) as error:
        OptionReader(command, module.OPTIONS).read([word])
    assert f"possibilities: {listed}\n" in error.value.text + "\n"


@pytest.mark.parametrize(("line", "kept"), [("-p -P", "parsable2"), ("-P -p", "parsable"), ("-P -n -P", "parsable2")])
def test_the_last_of_parsable_and_parsable2_counts(line: str, kept: str) -> None:
    typed, _ = OptionReader("sshare", sshare.OPTIONS).read(line.split())
    assert {name for name, _ in typed} - {"noheader"} == {kept}


def test_a_wrong_value_before_an_unknown_option_is_reported() -> None:
    """Slurm reads the values as it goes: what is wrong first ends the command."""

    def check(typed: Sequence[tuple[str, str | None]]) -> None:
        if typed[-1] == ("time", "x"):
            raise Usage("the time is wrong")

    for line in ("-t x --nosuch", "--time=x --n", "-H -tx -t"):
        with pytest.raises(Usage, match="the time is wrong"):
            READER.read(line.split(), check)
    with pytest.raises(Usage, match="nosuch"):
        READER.read(["--nosuch", "-t", "x"], check)


@pytest.mark.parametrize(
    ("command", "line", "text"),
    [
        (sacct, "--flags=nosuch --lo", "Invalid job flag nosuch"),
        (sacct, "-u nosuch -s nothing", "Invalid user id: nosuch"),
        (sacct, "-s nothing -u nosuch", "unrecognized job state value 'nothing'"),
        (sacct, "-o NTasks:3 -B", "When requesting job scripts"),
        (sacct, "-j x -o nothing", "Bad job/step specified: x"),
        (squeue, "-t nothing --lo", "Invalid job state specified: nothing"),
        (sinfo, "-p nowhere -a", "Conflicting options, -a and -p, specified. Please choose one or the other."),
        (sinfo, "-d -t nothing", 'Bad state string: "nothing"'),
        (sinfo, "-t nothing --nosuch", 'Bad state string: "nothing"'),
        (squeue, "-o %i -O jobid", "-O (--Format) is incompatible with -o (--format)"),
        (squeue, "-O jobid -o %i --nosuch", "-o (--format) is incompatible with -O (--Format)"),
        (srun, "--ex --cpu-bind=two true", "'--ex' is ambiguous"),
        (srun, "--cpu-bind=two --ex true", "'--ex' is ambiguous"),
        (srun, "-T 0 --thread-spec=17 true", 'Invalid numeric value "0" for --threads.'),
        (srun, "--thread-spec=17 -T  true", 'Invalid numeric value "true" for --threads.'),
    ],
)
def test_the_first_wrong_value_is_reported(command: ModuleType, line: str, text: str) -> None:
    with pytest.raises(Usage) as error:
        command.run(line.split())
    assert text in error.value.text
