"""The options from which a Job is made without YAML, shared by `run` and `submit`.

Options of `run` and `submit` for a job's time limit, begin time, dependencies and priority.

They become annotations and the PriorityClass of the pods. Each option is parsed by the scheduler's own code, so an
invalid value is refused before any object is created."""

from __future__ import annotations

import os
import re
import secrets
from collections.abc import Sequence
from dataclasses import dataclass, fields
from datetime import datetime, timedelta
from typing import Annotated

from cyclopts import Parameter
from cyclopts.validators import Number

from phalanx.cli.files.manifest import ManifestRequest, environment, name_of
from phalanx.client.moment import MomentError, read_moment, write_moment
from phalanx.dialects.schema.fields import Misread, duration_s
from phalanx.errors import PhalanxError
from phalanx.kube.gang.spec.job_options import dependencies, whole
from phalanx.kube.read import labels

_TIME_OF_DAY = re.compile(r"([01]?\d|2[0-3]):([0-5]\d)")
_NAME = re.compile(r"[A-Za-z0-9]([-A-Za-z0-9_.]{0,251}[A-Za-z0-9])?")
_JOB = re.compile(rf"{_NAME.pattern}/(pod:)?{_NAME.pattern}")


@Parameter(name="*", group="When it runs")
@dataclass(frozen=True, slots=True, kw_only=True)
class WishOptions:
    """Options on the time of the start, and on dependencies."""

    time_limit: Annotated[str, Parameter(alias="-t")] = ""
    """It is ended when it has run so long: 90s, 30m, 1d12h, 2:30:00, 1-12:00:00. Lets it go ahead of others that wait
    (backfill), and lets those behind it know when they start."""

    begin: str = ""
    """It does not start before then: 18:00, 2026-01-31T18:00 (this machine's time unless it says Z or +01:00), or +2h
    from now."""

    deadline: str = ""
    """It is not started any more if it could not end by then."""

    after: Annotated[tuple[str, ...], Parameter(alias="--depends-on")] = ()
    """It waits for that job: prepare:ok (to have succeeded; also just prepare), :not-ok (failed), :any (ended), :start
    (started). May be given again; all must be met."""

    singleton: str = ""
    """Of your jobs with this same word, one runs at a time."""

    priority: str = ""
    """The PriorityClass of its pods: the name of one."""

    qos: str = ""
    """Its class, where the queue's order is multifactor."""

    nice: int | None = None
    """Lowers its priority by so much, where the queue's order is multifactor."""

    reservation: str = ""
    """It runs in that reservation."""

    hold: bool = False
    """Keep it queued until `phalanx release NAME`."""

    def words(self, now_s: float) -> dict[str, str]:
        """Return the annotations for these options. Raises PhalanxError."""
        limit_s = length_s(self.time_limit) if self.time_limit else None
        begin_s = moment_s("--begin", self.begin, now_s) if self.begin else None
        deadline_s = moment_s("--deadline", self.deadline, now_s) if self.deadline else None
        if deadline_s is not None and deadline_s < max(now_s, begin_s or 0.0) + (limit_s or 0.0):
            raise PhalanxError(
                f"--deadline {self.deadline} ({write_moment(deadline_s)}): the job could not end by then, if it began "
                f"{write_moment(max(now_s, begin_s or 0.0))} and took its whole time limit. Nothing was created."
            )
        found = {
            labels.TIME_LIMIT: self.time_limit,
            labels.BEGIN: write_moment(begin_s) if begin_s is not None else "",
            labels.DEADLINE: write_moment(deadline_s) if deadline_s is not None else "",
            labels.AFTER: ",".join(awaited(self.after)),
            labels.SINGLETON: named("--singleton", self.singleton),
            labels.QOS: named("--qos", self.qos),
            labels.NICE: _nice(self.nice),
            labels.RESERVATION: named("--reservation", self.reservation),
            labels.HOLD: "true" if self.hold else "",
        }
        named("--priority", self.priority)
        return {key: text for key, text in found.items() if text}


def length_s(text: str) -> float:
    """Return a time limit in seconds. Raises PhalanxError, also for a bare number, because some users mean minutes by
    it."""
    unit = "Say the unit: for instance 90s, 30m, 2h, 1d12h, 2:30:00 or 1-12:00:00 (days-hours:minutes:seconds)"
    if re.fullmatch(r"\d+(\.\d+)?", text):
        raise PhalanxError(f"--time-limit {text}: seconds, minutes or hours? {unit}. Nothing was created.")
    try:
        seconds = duration_s(text)
    except Misread:
        raise PhalanxError(f"--time-limit {text!r} is no length of time. {unit}. Nothing was created.") from None
    if seconds < 1.0:
        raise PhalanxError(f"--time-limit {text}: the shortest is one second. Nothing was created.")
    return seconds


def moment_s(option: str, text: str, now_s: float) -> float:
    """Return a time that a user typed, in seconds since the epoch. Raises PhalanxError."""
    try:
        if text.startswith("+"):
            return now_s + duration_s(text[1:])
        if clock := _TIME_OF_DAY.fullmatch(text):
            return _next(int(clock[1]), int(clock[2]), now_s)
        return read_moment(datetime.fromisoformat(text).astimezone())  # no zone: the time zone of the machine
    except (Misread, MomentError, ValueError, OverflowError):
        raise PhalanxError(
            f"{option} {text!r} is no point in time. Write for instance +2h (from now), 18:00, 2026-01-31T18:00 (of "
            "this machine's clock) or 2026-01-31T18:00:00Z. Nothing was created."
        ) from None


def _next(hour: int, minute: int, now_s: float) -> float:
    """Return the next time at which the local clock shows this hour and minute, in seconds since the epoch."""
    now = datetime.fromtimestamp(now_s)
    today = now.replace(hour=hour, minute=minute, second=0, microsecond=0)
    return (today if today > now else today + timedelta(days=1)).timestamp()


def awaited(after: Sequence[str]) -> list[str]:
    """Check the values of --after, each of which has one or several dependencies with commas between. Return them all.
    Raises PhalanxError."""
    for text in after:
        try:
            jobs = [each.job for each in dependencies(text, "here")]
        except ValueError as error:
            raise PhalanxError(
                f"--after {text!r}: {error}. Write a job's name and what must have become of it: prepare:ok, "
                "prepare:any. Nothing was created."
            ) from None
        if not jobs or not all(_JOB.fullmatch(job) for job in jobs):
            raise PhalanxError(f"--after {text!r} names no job: write for instance prepare:ok. Nothing was created.")
    return [part.strip() for text in after for part in text.split(",") if part.strip()]


def named(option: str, text: str) -> str:
    """Return the name. Raises PhalanxError if it is not a valid name."""
    if text and not _NAME.fullmatch(text):
        raise PhalanxError(
            f"{option} {text!r} cannot be a name: letters, digits, '-', '_' and '.', a letter or digit first and last. "
            "Nothing was created."
        )
    return text


def _nice(number: int | None) -> str:
    try:
        return str(whole(str(number), -(2**31))) if number is not None else ""
    except ValueError as error:
        raise PhalanxError(f"--nice {number}: {error}. Nothing was created.") from None


HOST_IMAGE = "host"
# Kubernetes' letters of generated names: without vowels they form no words.
SUFFIX_LETTERS = "bcdfghjklmnpqrstvwxz2456789"


@Parameter(name="*")
@dataclass(frozen=True, slots=True, kw_only=True)
class JobOptions:
    """The options that say what the pods of the job ask, and where they run."""

    name: str | None = None
    """The Job's name. [default: that of the program or script, and five letters]"""

    pods: Annotated[int, Parameter(alias="-p")] = 1
    """Pods that run the command at once and start together. Each has a name, NAME-INDEX.NAME, and RANK, WORLD_SIZE,
    MASTER_ADDR and MASTER_PORT, as torchrun and torch.distributed read them."""

    cpu: str = "1"
    """CPU of each pod: 2, 500m."""

    memory: str = ""
    """Memory of each pod, which it may not exceed: 512Mi, 16Gi."""

    gpu: int = 0
    """GPUs (nvidia.com/gpu) of each pod."""

    image: str = HOST_IMAGE
    """The container image; `host` is the machine's own file system."""

    directory: str | None = None
    """The working directory. [default: the current one with --image host, else the image's]"""

    env: tuple[str, ...] = ()
    """NAME=VALUE for the environment; may be given again."""

    retries: Annotated[int, Parameter(validator=Number(gte=0))] = 0
    """How often pods that fail are started again, in all."""

    output: str = ""
    """Write the output into this file of the pod, and not into its log: out.txt, run-%r.txt (%r is the pod's index, %a
    the array's task). [default: the log, which phalanx logs shows]"""

    ttl: str = ""
    """Delete the Job so long after its end: 12h, 7d. The ledger keeps its record, and one machine its output.
    [default: 1d; of `phalanx run` 1h]"""

    def request(
        self,
        command: Sequence[str],
        namespace: str,
        queue: str,
        keep_s: int | None = None,
        *,
        is_array: bool = False,
    ) -> ManifestRequest:
        """Return the request for a Job that runs the command. Raises PhalanxError for invalid options."""
        if "%a" in self.output and not is_array:
            raise PhalanxError(f"--output {self.output}: %a is the task of an array, and there is no --array.")
        suffix = "".join(secrets.choice(SUFFIX_LETTERS) for _ in range(5))
        here = os.getcwd() if self.image == HOST_IMAGE else ""
        return ManifestRequest(
            name=self.name or name_of(command, suffix),
            command=tuple(command),
            output=self.output,
            namespace=namespace,
            queue=queue,
            pods=self.pods,
            cpu=self.cpu,
            memory=self.memory,
            gpu=self.gpu,
            image=self.image,
            directory=here if self.directory is None else self.directory,
            environment=environment(self.env),
            keep_s=_length_s(self.ttl) if self.ttl else keep_s,
            retries=self.retries,
            chance=secrets.randbelow(1 << 30),
        )


def _length_s(text: str) -> int:
    try:
        return int(duration_s(text))
    except Misread:
        raise PhalanxError(f"--ttl {text!r}: write for instance 12h or 7d. Nothing was created.") from None


def given(options: JobOptions | WishOptions) -> str:
    """Return the first option that was given; "" if none was."""
    changed = (one.name for one in fields(options) if getattr(options, one.name) != one.default)
    return next((f"--{name.replace('_', '-')}" for name in changed), "")
