"""The options of `phalanx run` and `phalanx submit` that describe a Job.

`JobOptions` describes the pods of a Job that is made without YAML. `WishOptions` has the time limit, the begin time,
the dependencies and the priority. `WishOptions.words` converts these options to annotations of the Job; `--priority`
sets the PriorityClass of its pods. The scheduler's own code parses each of these options, so an invalid value is
refused before any object is created."""

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
    """The options for the time of the job's start and end, its dependencies and its priority."""

    time_limit: Annotated[str, Parameter(alias="-t")] = ""
    """End the job when it has run for this time: 90s, 30m, 1d12h, 2:30:00, 1-12:00:00. With a time limit, the job may
    start before other waiting jobs (backfill), and the start of jobs behind it can be forecast."""

    begin: str = ""
    """Do not start the job before this time: 18:00, 2026-01-31T18:00 (in the time zone of this machine, unless it ends
    with Z or +01:00), or +2h from now."""

    deadline: str = ""
    """Do not start the job if it could not end before this time."""

    after: Annotated[tuple[str, ...], Parameter(alias="--depends-on")] = ()
    """Wait for another job: prepare:ok (until it has succeeded; the same as prepare), :not-ok (failed), :any (ended),
    :start (started). The option may be repeated; then the job waits for all of them."""

    singleton: str = ""
    """Any name. Of your jobs with the same name here, only one runs at a time."""

    priority: str = ""
    """The name of the PriorityClass of the job's pods."""

    qos: str = ""
    """The QOS of the job, in a queue with the order `multifactor`."""

    nice: int | None = None
    """Subtract this from the priority of the job, in a queue with the order `multifactor`."""

    reservation: str = ""
    """Run the job in this reservation."""

    hold: bool = False
    """Keep the job queued until `phalanx release NAME`."""

    def words(self, now_s: float) -> dict[str, str]:
        """Return the annotations for these options. `now_s`: the present time, in seconds since the epoch. Raises
        PhalanxError if a value is invalid."""
        limit_s = length_s(self.time_limit) if self.time_limit else None
        begin_s = moment_s("--begin", self.begin, now_s) if self.begin else None
        deadline_s = moment_s("--deadline", self.deadline, now_s) if self.deadline else None
        if deadline_s is not None and deadline_s < max(now_s, begin_s or 0.0) + (limit_s or 0.0):
            raise PhalanxError(
                f"--deadline {self.deadline} ({write_moment(deadline_s)}): the job could not end by then, if it began "
                f"{write_moment(max(now_s, begin_s or 0.0))} and used its whole time limit. Nothing was created."
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
    """Return a time limit in seconds. Raises PhalanxError if the text is invalid. A number without a unit is refused,
    because it could mean seconds or minutes."""
    unit = "Write the unit: for example 90s, 30m, 2h, 1d12h, 2:30:00 or 1-12:00:00 (days-hours:minutes:seconds)"
    if re.fullmatch(r"\d+(\.\d+)?", text):
        raise PhalanxError(f"--time-limit {text}: seconds, minutes or hours? {unit}. Nothing was created.")
    try:
        seconds = duration_s(text)
    except Misread:
        raise PhalanxError(f"--time-limit {text!r} is not a length of time. {unit}. Nothing was created.") from None
    if seconds < 1.0:
        raise PhalanxError(f"--time-limit {text}: the shortest is one second. Nothing was created.")
    return seconds


def moment_s(option: str, text: str, now_s: float) -> float:
    """Return a future time that a user typed, in seconds since the epoch. Raises PhalanxError, which names `option`, if
    the text is invalid."""
    try:
        if text.startswith("+"):
            return now_s + duration_s(text[1:])
        if clock := _TIME_OF_DAY.fullmatch(text):
            return _next(int(clock[1]), int(clock[2]), now_s)
        # a time without a zone is in the time zone of the machine
        return read_moment(datetime.fromisoformat(text).astimezone())
    except (Misread, MomentError, ValueError, OverflowError):
        raise PhalanxError(
            f"{option} {text!r} is not a point in time. Write for example +2h (from now), 18:00, 2026-01-31T18:00 (in "
            "the time zone of this machine) or 2026-01-31T18:00:00Z. Nothing was created."
        ) from None


def _next(hour: int, minute: int, now_s: float) -> float:
    """Return the next time at which the local clock shows this hour and minute, in seconds since the epoch."""
    now = datetime.fromtimestamp(now_s)
    today = now.replace(hour=hour, minute=minute, second=0, microsecond=0)
    return (today if today > now else today + timedelta(days=1)).timestamp()


def awaited(after: Sequence[str]) -> list[str]:
    """Check the values of --after, and return all dependencies. A value may have several dependencies, separated by
    commas. Raises PhalanxError if one of them is invalid."""
    for text in after:
        try:
            jobs = [each.job for each in dependencies(text, "here")]
        except ValueError as error:
            raise PhalanxError(
                f"--after {text!r}: {error}. Write the name of a job and how it must have ended: prepare:ok, "
                "prepare:any. Nothing was created."
            ) from None
        if not jobs or not all(_JOB.fullmatch(job) for job in jobs):
            raise PhalanxError(f"--after {text!r} names no job: write for example prepare:ok. Nothing was created.")
    return [part.strip() for text in after for part in text.split(",") if part.strip()]


def named(option: str, text: str) -> str:
    """Return `text`, the value of `option`. Raises PhalanxError if it is not a valid name."""
    if text and not _NAME.fullmatch(text):
        raise PhalanxError(
            f"{option} {text!r} is not a valid name: use letters, digits, '-', '_' and '.', with a letter or digit "
            "first and last. Nothing was created."
        )
    return text


def _nice(number: int | None) -> str:
    try:
        return str(whole(str(number), -(2**31))) if number is not None else ""
    except ValueError as error:
        raise PhalanxError(f"--nice {number}: {error}. Nothing was created.") from None


HOST_IMAGE = "host"
# The letters that Kubernetes uses in generated names. Without vowels, the letters form no words.
SUFFIX_LETTERS = "bcdfghjklmnpqrstvwxz2456789"


@Parameter(name="*")
@dataclass(frozen=True, slots=True, kw_only=True)
class JobOptions:
    """The options for the number of pods of a job, their resources, their image and their environment."""

    name: str | None = None
    """The name of the Job. [default: the name of the program or script, with five random letters]"""

    pods: Annotated[int, Parameter(alias="-p")] = 1
    """The number of pods. All of them run the command, and they start together. Each pod has the host name
    NAME-INDEX.NAME, and the environment variables RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT, which torchrun and
    torch.distributed read."""

    cpu: str = "1"
    """The CPU of each pod: 2, 500m."""

    memory: str = ""
    """The memory of each pod, which the pod cannot exceed: 512Mi, 16Gi."""

    gpu: int = 0
    """The number of GPUs (nvidia.com/gpu) of each pod."""

    image: str = HOST_IMAGE
    """The container image. `host` means the file system of the machine itself."""

    directory: str | None = None
    """The working directory. [default: the current directory with --image host, else the directory that the image
    sets]"""

    env: tuple[str, ...] = ()
    """An environment variable, NAME=VALUE. The option may be repeated."""

    retries: Annotated[int, Parameter(validator=Number(gte=0))] = 0
    """The number of times that failed pods are started again, for all pods of the job together."""

    output: str = ""
    """Write the output into this file instead of the log of the pod: out.txt, run-%r.txt (%r is the index of the pod,
    %a the number of the array's task). [default: the log, which `phalanx logs` shows]"""

    ttl: str = ""
    """Delete the Job this time after its end: 12h, 7d. The ledger keeps its record, and `phalanx up` keeps its output.
    [default: 1d; for `phalanx run` 1h]"""

    def request(
        self,
        command: Sequence[str],
        namespace: str,
        queue: str,
        keep_s: int | None = None,
        *,
        is_array: bool = False,
    ) -> ManifestRequest:
        """Return the request for a Job that runs the command with these options. `keep_s`: the seconds from the end of
        the Job to its deletion, if --ttl is not given. Raises PhalanxError for invalid options."""
        if "%a" in self.output and not is_array:
            raise PhalanxError(
                f"--output {self.output}: %a is the number of an array's task, but --array is not given."
            )
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
        raise PhalanxError(f"--ttl {text!r}: write for example 12h or 7d. Nothing was created.") from None


def given(options: JobOptions | WishOptions) -> str:
    """Return the first option whose value is not the default, as `--name`; "" if there is none."""
    changed = (one.name for one in fields(options) if getattr(options, one.name) != one.default)
    return next((f"--{name.replace('_', '-')}" for name in changed), "")
