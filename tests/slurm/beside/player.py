"""Run the same lines on a real Slurm and on Phalanx, and report the differences of the answers.

A *scene* is a list of steps; a step is a line for bash, as a user. Lines of one scene see the numbers of earlier jobs
as $J1, $J2 and so on. Values that differ between any two runs are removed first: job numbers, times, short durations,
directories, and the choice between equal nodes.
"""

from __future__ import annotations

import os
import pwd
import re
import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from pathlib import Path

ENDED = {"COMPLETED", "CANCELLED", "FAILED", "TIMEOUT", "NODE_FAIL", "OUT_OF_MEMORY", "PREEMPTED", "DEADLINE"}
FIRST_JOB = 710_001  # FirstJobId of the site: numbers from here on are numbers of jobs
_WAIT_S, _LOOK_S, _STEP_S = 20.0, 0.15, 60.0
_AGAIN = 8  # how often a sinfo is asked again for the order of its rows
_MOST = 200_000  # bytes of an answer that are compared: some commands repeat a prompt for ever
_NODES = re.compile(r"(?:(?<![\w.-])|(?<=slurmstepd-))cn(\d|\[[\d,-]+\])(?!\w)")
_RULES: tuple[tuple[str, str], ...] = (
    (r"[^\s:'\"=]*/slurm_script\b", "{SCRIPT}"),
    (r"\b[A-Z][a-z]{2} [A-Z][a-z]{2} \d\d \d\d:\d\d:\d\d 20\d\d\b", "{TIME}"),
    (r"Sid=\S+?:\d+", "Sid={PID}"),
    (r"(?<=SrunHost:Pid=)(\S+?):\d+", r"\1:{OWN}"),
    (r"(?<![\d:T-])29:[0-5]\d(?![\d:])", "{LEFT}"),  # of the half hour of a job that runs
    (r"\b(\w*(?:TASK_PID|_PORT|_IPADDR|COMM_HOST|_CONF|WORKING_CLUSTER|_JWT))=\S+", r"\1={OWN}"),
    (r"\b(CPULoad|FreeMem|NodeAddr|NodeHostName|Port|BootTime|SlurmdStartTime|LastBusyTime)=\S+", r"\1={OWN}"),
    (r"(?<=127\.0\.0\.1)(\s*[ |]\s*)\d{4,5}\b", r"\1{OWN}"),  # the port of a controller
    (r"\bOS=Linux .*", "OS=Linux {OWN}"),
    (r"\bScheduler=\S+", "Scheduler={CHANCE}"),
    (r"(?m)(?<=\s)(1700\d|6818)\+?(?=\s|$)", "{OWN}"),  # the port of a node
    (r"(?<= processors on nodes )\S+", "{CHANCE}"),
    # Phalanx has no plug-ins. Which of the next two a waiting srun says after a SIGTERM is chance, and whether srun
    # waits at all depends on what else runs.
    (r"(?m)^\w+: \w+/\w+: \w+: .* loaded( with argument \d+)?\n", ""),
    # What a daemon of Slurm writes of its own work with --slurmd-debug.
    (
        r"(?m)^slurmstepd-\S+: (debug\d?: |debug levels |starting \d+ tasks$|task \d+ \(\d+\) (started|exited) ).*\n?",
        "",
    ),
    (r"(^|\n)srun: (Job allocation \d+ has been revoked|Force Terminated JobId=\d+)(?=\n|$)", ""),
    (r"srun: job (\d+) queued and waiting for resources\nsrun: job \1 has been allocated resources(\n|$)", ""),
    (r"\b2\d{3}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?", "{TIME}"),
    (r"(?<![\d:T-])00:00:[0-5]\d(\.\d+)?(?![\d:])", "{SHORT}"),
    (r"(?<![\d:T-])00:[0-5]\d\.\d{3}(?![\d:])", "{SHORT}"),
    (r"(?<![\d:T-])0:[0-5]\d(?![\d:])", "{SHORT}"),
    # Where the machine is busy, one side is minutes behind the other. Whole minutes are limits.
    (r"(?<![\d:T-])(00:0)?[1-9]:(?!00)[0-5]\d(?![\d:])", "{SHORT}"),
)


@dataclass(frozen=True, slots=True)
class Step:
    """`wait`: the condition to wait for after the step: `J1,J2 done`, `J1_3 RUNNING`, or `2` (seconds)."""

    line: str
    user: str = "u1"
    wait: str = ""


@dataclass(frozen=True, slots=True)
class Scene:
    """Steps that are played one after the other, in a directory with these files; root runs `cleanup` afterwards."""

    name: str
    steps: tuple[Step, ...]
    files: Mapping[str, str] = field(default_factory=dict)
    cleanup: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Difference:
    scene: str
    at: int
    line: str
    theirs: str
    ours: str


class Side:
    """One of the two systems. Its commands come first on the PATH. `place`: a directory that its nodes see."""

    def __init__(self, name: str, commands: str, place: Path) -> None:
        self.name, self._commands, self.place = name, commands, place
        self.last = 0  # the highest number of a job of an earlier scene
        self.unordered: set[int] = set()  # steps of the scene whose rows are in another order each time

    def run(self, line: str, user: str, place: Path, more: Mapping[str, str]) -> tuple[int, str, str]:
        who = pwd.getpwnam(user)
        environment = {
            "PATH": f"{self._commands}:/usr/local/bin:/usr/bin:/bin", "LANG": "C.UTF-8", "TZ": "UTC", "TERM": "dumb",
            "USER": user, "LOGNAME": user, "HOME": who.pw_dir, "SHELL": "/bin/bash", **more,
        }  # fmt: skip
        process = subprocess.Popen(
            ["bash", "-c", line], cwd=place, env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
            stderr=subprocess.PIPE, start_new_session=True, user=who.pw_uid, group=who.pw_gid, extra_groups=[],
        )  # fmt: skip
        try:
            said, wrong = process.communicate(timeout=_STEP_S)
            status = process.returncode
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            said, wrong = process.communicate()
            status = -1
        return status, said[:_MOST].decode(errors="replace"), wrong[:_MOST].decode(errors="replace")

    def begin(self) -> None:
        """Read the highest job number, because the site may have played scenes before."""
        said = self.run("sbatch -H -o /dev/null --wrap true", "u1", self.place, {})[1]
        if number := re.search(r"\d{6,}", said):
            self.last = int(number[0])
            self.root(f"scancel {self.last}")

    def root(self, line: str) -> str:
        return self.run(line, "root", self.place, {})[1]

    def clear(self) -> None:
        """End all jobs, and wait until nothing is queued."""
        deadline_s = time.monotonic() + 60
        while numbers := self.root("squeue -h -a -o %A").split():
            if time.monotonic() > deadline_s:
                return
            self.root("scancel " + " ".join(sorted(set(numbers))))
            time.sleep(_LOOK_S)  # a real Slurm reports no change


def play(side: Side, scene: Scene) -> list[str]:
    """Return the output of each step, and at the end the names of the files. Rows of jobs of earlier scenes are left
    out."""
    side.clear()
    side.unordered.clear()
    place = side.place / "w"
    shutil.rmtree(place, ignore_errors=True)
    place.mkdir(parents=True)
    place.chmod(0o777)
    for name, text in scene.files.items():
        (place / name).write_text(text)
        (place / name).chmod(0o755)
    jobs: dict[str, str] = {}
    labels: dict[int, str] = {}
    plain = Plain(place, labels)
    found: list[str] = []
    waited = False
    for at, step in enumerate(scene.steps, 1):
        if re.search(r"\bsacct\b", step.line):
            _settle(side, place, jobs)
        if step.line.startswith("sshare") and not waited:
            waited = _use(side)
        status, said, wrong = side.run(step.line, step.user, place, jobs)
        if step.line.startswith("sshare"):  # usage differs between any two runs; shares are 40 and 60
            used = r"\bcpu=\d+,mem=\d+[^|\s]*|\b\d\.\d+e[-+]\d+|\b(?!(?:40|60)\b)(\d+\.)?\d{2,}\b(?!\.)|\binf\b"
            said = re.sub(used, "{USED}", said)
        said = "".join(row for row in said.splitlines(keepends=True) if not _is_earlier(row, side.last))
        if number := re.search(r"^(?:Submitted batch job )?(\d{6,})\b", said, re.MULTILINE):
            jobs[f"J{len(jobs) + 1}"] = number[1]
        elif re.match(r"\s*sbatch", step.line):
            jobs[f"J{len(jobs) + 1}"] = "0"
        told = of_tasks(plain(at, wrong, step.line))
        text = f"exit {status}\n{plain(at, said, step.line)}" + (f"\n--- stderr\n{told}" if told else "")
        if step.line.startswith("sinfo") and _varies(side, step, place, jobs, said):
            side.unordered.add(at)
        if step.wait and not _waited(side, place, step.wait, jobs):
            text += "\n--- it was waited in vain"
        found.append(text)
    files = sorted(path for path in place.rglob("*") if path.is_file() and path.name not in scene.files)
    texts = {plain(99, str(path.relative_to(place))): plain(99, path.read_text(errors="replace")) for path in files}
    found.append("\n".join(f"== {name}\n{text}" for name, text in sorted(texts.items())))
    for line in scene.cleanup:
        side.root(line)
    side.last = max([side.last, *labels])
    return found


def _is_earlier(row: str, last: int) -> bool:
    """Return whether the row begins with the number of a job up to `last`."""
    number = re.match(r"\s*(\d{6})(?!\d)", row)
    return number is not None and FIRST_JOB <= int(number[1]) <= last


def _varies(side: Side, step: Step, place: Path, jobs: Mapping[str, str], said: str) -> bool:
    """Return True if the side shows these rows in another order when asked again: a real sinfo reads partitions in
    parallel, so the order of rows that compare equal is chance."""
    for _ in range(_AGAIN if side.name == "theirs" else 0):
        again = side.run(step.line, step.user, place, jobs)[1]
        if again != said and sorted(again.split("\n")) == sorted(said.split("\n")):
            return True
    return False


class Plain:
    """Remove values that differ between runs. `labels`: job number -> its label."""

    def __init__(self, place: Path, labels: dict[int, str]) -> None:
        self._place, self._labels, self._nodes = str(place), labels, dict[str, str]()
        self._named = set[str]()

    def __call__(self, at: int, text: str, line: str = "") -> str:
        """Keep the names of nodes that the line itself names, because they are no choice between equal nodes."""
        self._named = {name for found in _NODES.finditer(line) for name in _names(found)}
        text = text.replace(self._place, "{DIR}").replace(str(Path(self._place).parent), "{DIR}/..")
        for pattern, instead in _RULES:
            text = re.sub(pattern, instead, text)
        text = _NODES.sub(self._node, text)
        seen = [0]

        def job(found: re.Match[str]) -> str:
            number = int(found[0])
            if not FIRST_JOB <= number < FIRST_JOB + 200_000:
                return found[0]
            if number not in self._labels:
                self._labels[number] = f"{{J{at}{chr(97 + seen[0] % 26)}}}"
                seen[0] += 1
            return self._labels[number]

        text = re.sub(r"(?<![\d.])\d{6}(?!\d)", job, text)
        return "\n".join(_line(line) for line in text.rstrip("\n").split("\n"))

    def _node(self, found: re.Match[str]) -> str:
        names = _names(found)
        if set(names) <= self._named:
            return found[0]
        return ",".join(self._nodes.setdefault(name, f"{{N{len(self._nodes) + 1}}}") for name in names)


def _names(found: re.Match[str]) -> list[str]:
    """Return the nodes of `cn1` or `cn[1-2,4]`."""
    spans = [(int(part.split("-")[0]), int(part.split("-")[-1])) for part in found[1].strip("[]").split(",")]
    return [f"cn{each}" for first, last in spans for each in range(first, last + 1)]


def of_tasks(text: str) -> str:
    """Put lines about tasks into one order, and tasks of a node that ended alike into one line: the order in which they
    end is chance."""
    ended: dict[tuple[str, str], set[int]] = {}
    rest = []
    for row in text.split("\n"):
        if (found := _ENDED.fullmatch(row)) is None:
            rest.append(row)
            continue
        spans = [(int(part.split("-")[0]), int(part.split("-")[-1])) for part in found[2].split(",")]
        tasks = {each for first, last in spans for each in range(first, last + 1)}
        ended[found[1], found[3]] = ended.get((found[1], found[3]), set()) | tasks
    if not ended:
        return text
    told = [f"srun: error: {node}: tasks {sorted(tasks)}: {what}" for (node, what), tasks in ended.items()]
    return "\n".join([*sorted(rest), *sorted(told)])


_ENDED = re.compile(r"srun: error: (\S+): tasks? ([\d,-]+): (.*)")


def _line(line: str) -> str:
    return (
        re.sub(r"[ \t]+", " ", line).strip()
        if re.search(r"\{(J|N\d|TIME|SHORT|PID|DIR|USED|OWN)", line)
        else line.rstrip()
    )


def _states(side: Side, place: Path, numbers: Sequence[str]) -> list[str]:
    line = f"squeue -h -a -r -t all -j {','.join(numbers)} -o %T"
    return side.run(line, "root", place, {})[1].split()


def _waited(side: Side, place: Path, what: str, jobs: Mapping[str, str]) -> bool:
    if re.fullmatch(r"[\d.]+", what):
        time.sleep(float(what))  # a step of the scene: wait on both sides
        return True
    who, state = what.split()
    numbers = [re.sub(r"^J\d+", lambda found: jobs.get(found[0], "0"), one) for one in who.split(",")]
    over: Callable[[str], bool] = ENDED.__contains__ if state == "done" else lambda one: one == state.upper()
    deadline_s = time.monotonic() + _WAIT_S
    while time.monotonic() < deadline_s:
        states = _states(side, place, numbers)
        if states and all(over(one) for one in states):
            time.sleep(2 * _LOOK_S)  # a real Slurm reports no change
            return True
        time.sleep(_LOOK_S)  # a real Slurm reports no change
    return False


def _settle(side: Side, place: Path, jobs: Mapping[str, str]) -> None:
    """Wait until the accounting has what squeue shows: Slurm writes a job's name and partition late."""
    numbers = [number for number in jobs.values() if number != "0"]
    if not numbers:
        return
    listed = ",".join(numbers)
    deadline_s = time.monotonic() + 9
    while time.monotonic() < deadline_s:
        queued = dict(row.split("|") for row in side.root(f"squeue -h -a -r -t all -j {listed} -o '%i|%T'").split())
        rows = [
            row.split("|") for row in side.root(f"sacct -a -nP -o JobID,Partition,State,End -j {listed}").split("\n")
        ]
        told = {row[0]: row for row in rows if len(row) == 4}
        late = [
            one
            for one, state in queued.items()
            if state != "PENDING" and (one not in told or not told[one][1] or told[one][2].split()[0] != state)
        ]
        if not late and not any(
            row[2] == "RUNNING" and queued.get(one.split(".")[0]) in ENDED for one, row in told.items()
        ):
            return
        time.sleep(2 * _LOOK_S)  # a real Slurm reports no change


def _use(side: Side) -> bool:
    """Wait until usage is shown: Phalanx writes it once a minute, Slurm when a job ends. Return True."""
    deadline_s = time.monotonic() + 90
    while not re.match(r"\d{2}", side.root("sshare -n -P -o RawUsage")) and time.monotonic() < deadline_s:
        time.sleep(2 * _LOOK_S)  # a real Slurm reports no change
    return True


def compare(sides: tuple[Side, Side], scene: Scene) -> list[Difference]:
    with ThreadPoolExecutor(2) as pool:
        theirs, ours = pool.map(lambda side: play(side, scene), sides)
    lines = [*(step.line for step in scene.steps), "(files)"]
    unordered = sides[0].unordered
    return [
        Difference(scene.name, at, line, there, here)
        for at, (line, there, here) in enumerate(zip(lines, theirs, ours, strict=True), 1)
        if there != here and not (at in unordered and sorted(there.split("\n")) == sorted(here.split("\n")))
    ]


def shrunk(sides: tuple[Side, Side], scene: Scene, found: Difference) -> Scene:
    """Return the fewest steps with which the step of the difference still differs."""
    steps = list(scene.steps[: found.at])
    last, before = steps[-1], steps[:-1]
    for one in list(before):
        fewer = [step for step in before if step is not one]
        again = compare(sides, replace(scene, steps=(*fewer, last)))
        if any(each.at == len(fewer) + 1 for each in again):
            before = fewer
    return replace(scene, steps=(*before, last))
