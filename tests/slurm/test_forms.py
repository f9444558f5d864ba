"""`slurm/submission/asked/forms.py`: options of sbatch, salloc and srun whose values can be read without the site."""

from __future__ import annotations

import pytest

from phalanx.slurm.commands.launch import sbatch
from phalanx.slurm.jobs import pages
from phalanx.slurm.jobs.view import JobInfo
from phalanx.slurm.options import Usage
from phalanx.slurm.submission.asked.forms import check_forms, checking
from tests.slurm.test_command_lines import ask


@pytest.mark.parametrize(
    ("line", "status", "text"),
    [
        ("-t abc", 255, "Invalid --time specification"),
        ("-n none", 1, 'Invalid numeric value "none" for --ntasks.'),
        ("-n 99999999999999999999", 1, "Numeric argument (9223372036854775807) to big for --ntasks."),
        ("--hint=nonsense", 1, 'unrecognized --hint argument "nonsense", see --hint=help'),
        ("-m nonsense", 255, "Invalid --distribution specification"),
        ("--switches=x", 1, 'Invalid numeric value "x" for --switches.'),
        ("--mem-bind=nonsense", 255, 'unrecognized --mem-bind argument "nonsense"'),
        ("--propagate=x", 1, "Bad rlimit name: x\nsbatch: error: --propagate=x is not valid."),
        ("--profile=x", 255, "invalid --profile=x option"),
        ("--cpu-freq=x", 255, 'unrecognized --cpu-freq argument "x"\nsbatch: error: Invalid --cpu-freq argument'),
        ("--acctg-freq=x", 255, "Invalid --acctg-freq specification: x"),
        ("--bbf=nofile", 1, "Invalid --bbf specification"),
        ("-B 2:x", 1, 'Invalid numeric value "x" for second arg of -B.'),
        ("--delay-boot=x", 255, "Invalid --delay-boot specification"),
        ("--gpu-freq=x", 255, "Invalid --gpu-freq argument: gpu:x"),
        ("--gres-flags=x", 255, "Invalid --gres-flags specification"),
        ("--wait-all-nodes=2", 255, "Invalid --wait-all-nodes specification"),
        ("--nice=99999999999", 255, "Invalid --nice value, out of range (+/- 2147483645)"),
        ("--no-kill=x", 255, "Invalid --no-kill specification"),
        ("--open-mode= --hint=x", 255, "Invalid --open-mode specification"),
        ("--mail-type=END,x --gres-flags=x", 255, "Invalid --mail-type specification"),
        ("--thread-spec=0", 1, 'Invalid numeric value "0" for --thread-spec.'),
    ],
)
def test_values_that_cannot_be_read_are_refused_in_slurms_words(line: str, status: int, text: str) -> None:
    said, _ = sbatch._READER.read(line.split())
    with pytest.raises(Usage) as error:
        check_forms("sbatch", dict(said))
    assert (error.value.status, error.value.text) == (status, f"sbatch: error: {text}")


@pytest.mark.parametrize(
    ("line", "text"),
    [
        (
            "--begin=x --begin=now",
            "Invalid time specification (pos=0): x\nsbatch: error: Invalid --begin specification",
        ),
        ("--deadline=x -n x", "Invalid time specification (pos=0): x\nsbatch: error: Invalid --deadline specification"),
        ("-n x --deadline=x", 'sbatch: error: Invalid numeric value "x" for --ntasks.'),
        ("-t x -t 1", "sbatch: error: Invalid --time specification"),
        ("-n x --nosuch", 'sbatch: error: Invalid numeric value "x" for --ntasks.'),
    ],
)
def test_values_are_read_as_they_come(line: str, text: str) -> None:
    with pytest.raises(Usage) as error:
        sbatch._READER.read(line.split(), checking("sbatch"))
    assert error.value.text == text


@pytest.mark.parametrize("option", ["wait", "kill-on-bad-exit", "relative"])
def test_some_numbers_of_srun_may_be_empty(option: str) -> None:
    for text in ("", "0", "+3"):
        check_forms("srun", {option: text})
    for text in ("x", "-1", "1x"):
        with pytest.raises(Usage, match=f'Invalid numeric value "{text}" for --{option}'):
            check_forms("srun", {option: text})
    with pytest.raises(Usage, match='Invalid numeric value "" for --msg-timeout'):
        check_forms("srun", {"msg-timeout": ""})


def test_what_only_root_may_say_is_refused_before_the_values_behind_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.getuid", lambda: 1000)
    for name in ("uid", "gid"):
        with pytest.raises(Usage, match=f"--{name} only permitted by root user"):
            check_forms("sbatch", {name: "u2", "hint": "x"})


def test_notices_come_after_all_values_are_read(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(Usage):
        check_forms("sbatch", {"thread-spec": "2", "ntasks": "x"})
    check_forms("sbatch", {"power": "", "wait-all-nodes": "", "open-mode": "Two"})
    assert not capsys.readouterr().err
    with pytest.raises(Usage) as error:
        check_forms("srun", {"cpu-bind": "two"})
    assert error.value.text.endswith("srun: fatal: Failed to parse --cpu-bind= values.")


def test_hint_and_cpu_bind_are_read_after_all_other_values(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(Usage, match="unrecognized --hint"):
        check_forms("sbatch", {"hint": "x", "thread-spec": "3"})
    assert "Ignoring --thread-spec since" in capsys.readouterr().err
    check_forms("sbatch", {"core-spec": "0"})
    assert "Ignoring -S since" in capsys.readouterr().err
    with pytest.raises(Usage, match="Invalid --signal specification"):
        check_forms("srun", {"cpu-bind": "", "signal": "B:USR1@10"})
    check_forms("sbatch", {"signal": "B:USR1@10", "extra-node-info": ""})
    with pytest.raises(Usage, match='Invalid numeric value "-1" for --relative'):
        check_forms("srun", {"relative": "-1"})


def test_hints_change_nothing_but_what_scontrol_shows(capsys: pytest.CaptureFixture[str]) -> None:
    line = (
        "-m block:cyclic --mem-bind=local --propagate=STACK --profile=task --no-kill --get-user-env --priority=10 "
        "--mcs-label=x --hint=nomultithread --switches=1@10 --ntasks-per-socket=2 --gpu-bind=closest "
        "--cpu-freq=low-high --delay-boot=5 --gres-flags=disable-binding --kill-on-invalid-dep=yes --spread-job "
        "--power=level --bb=x -S 2"
    )
    said, _ = sbatch._READER.read(line.split())
    check_forms("sbatch", dict(said))
    assert capsys.readouterr().err == (
        "sbatch: error: Ignoring -S since it's not allowed by configuration (AllowSpecResourcesUsage = No)\n"
    )
    plain, hinted = ask("").ask, ask(line).ask
    shown = [
        "\n".join(map(" ".join, pages.job(JobInfo(number=1, ask=one, state="PENDING")))) for one in (plain, hinted)
    ]
    changed = [line for line in shown[1].split("\n") if line not in shown[0].split("\n")]
    assert [line for line in changed if not line.startswith(("SubmitTime", "SuspendTime"))] == [
        "NumNodes=1 NumCPUs=1 NumTasks=1 CPUs/Task=1 ReqB:S:C:T=0:0:*:1",
        "Socks/Node=* NtasksPerN:B:S:C=0:0:2:* CoreSpec=*",
        "Features=(null) DelayBoot=00:05:00",
        "Switches=1@00:05:00",
        "BurstBuffer=x",
        "CPU_min_freq=Low CPU_max_freq=High",
        "Power=LEVEL",
        "GresEnforceBind=NoKillOInInvalidDependent=YesSpreadJob=Yes",
        "TresBind=gpu:closest",
    ]
