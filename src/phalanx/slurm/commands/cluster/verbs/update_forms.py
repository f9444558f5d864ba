"""The parameters of scontrol update for the request of a job, and the check of the form of their values.

The check happens before scontrol looks for the job (`require_readable`). `update_asked` makes the changes."""

from __future__ import annotations

import re
from collections.abc import Mapping

from phalanx.slurm.notation import times
from phalanx.slurm.options import Usage, say

# parameter whose value is a number -> its name in Slurm's messages
_COUNTS = {
    "corespec": "CoreSpec", "cpuspertask": "CPUsPerTask", "mincpusnode": "MinCPUsNode",
    "minmemorycpu": "MinMemoryCPU", "minmemorynode": "MinMemoryNode", "mintmpdisknode": "MinTmpDiskNode",
    "numtasks": "NumTasks", "reqcores": "ReqCores", "reqsockets": "ReqSockets", "reqthreads": "ReqThreads",
    "threadspec": "ThreadSpec",
}  # fmt: skip
_COUNT = re.compile(r"\s*\+?(\d{1,9})")
RANGE = re.compile(r"(\d{1,9})(?:-(\d{1,9}))?")
_WORDS = {"contiguous": "Contiguous", "oversubscribe": "OverSubscribe", "shared": "OverSubscribe", "reboot": "reboot"}
_YES_NO = re.compile(r"yes|no|\d*", re.IGNORECASE)
OPERATORS = frozenset({
    "admincomment", "contiguous", "corespec", "deadline", "oversubscribe", "reboot", "shared", "sitefactor",
    "threadspec",
})  # fmt: skip
# Parameters that Slurm allows to change only while a job is pending.
PENDING_ONLY = frozenset({
    "account", "contiguous", "corespec", "cpuspertask", "dependency", "eligibletime", "excnodelist", "features", "gres",
    "mincpusnode", "minmemorycpu", "minmemorynode", "mintmpdisknode", "numcpus", "numtasks", "oversubscribe",
    "prefer", "qos", "reqcores", "reqsockets", "reqthreads", "shared", "starttime", "stdout", "threadspec", "wckey",
    "workdir",
})  # fmt: skip
ALWAYS_REFUSED = {
    "burstbuffer": "Requested operation not supported on this system",
    "clusters": "Unspecified error",
    "clusterfeatures": "Unspecified error",
}
SHOWN = {"reqcores": "cores", "reqsockets": "sockets", "reqthreads": "threads"}  # only `show job` uses these values
IGNORED = frozenset({"delayboot", "resetaccruetime", "switches"})  # accepted without an effect
NAMES = frozenset({*_COUNTS, *_WORDS, *OPERATORS, *PENDING_ONLY, *ALWAYS_REFUSED, *IGNORED, "endtime", "licenses",
                   "mailtype", "mailuser", "numnodes", "nodelist", "partition", "reqnodelist", "reservationname",
                   "timemin"})  # fmt: skip


def require_readable(said: Mapping[str, str]) -> bool:
    """Check the form of the values. Return False after an error that Slurm only reports, with exit code 0. Raises Usage
    for other errors."""
    for name, value in said.items():
        if name in _COUNTS and _COUNT.fullmatch(value) is None:
            raise Usage(f"scontrol: error: Invalid {_COUNTS[name]} value: {value}")
        if name in _WORDS and _YES_NO.fullmatch(value) is None:
            raise Usage(f"scontrol: error: Invalid {_WORDS[name]} value: {value}")
        if name == "numcpus":
            _require_range(value)
        if name == "delayboot" and re.fullmatch(r"-?\d+(:\d+)*", value) is None:
            raise Usage("scontrol: error: Invalid DelayBoot value")
        if name == "mailtype" and not read_mail_types(value):
            raise Usage(f"Invalid MailType: {value}")
        if name == "timemin":
            read_time_min(value)
        if name == "numnodes" and RANGE.fullmatch(value) is None:
            say(f'scontrol: error: Invalid numeric value "{value}" for requested node count.')
            return False
    return True


def _require_range(value: str) -> None:
    found = RANGE.fullmatch(value)
    numeric = "" if found is not None else f'scontrol: error: Invalid numeric value "{value}" for NumCPUs.\n'
    if found is None or not int(found[1]) or (found[2] and int(found[2]) < int(found[1])):
        raise Usage(f"{numeric}scontrol: error: Invalid NumCPUs value: {value}")


def read_time_min(value: str) -> int | None:
    try:
        return times.read_limit_min(value)
    except times.TimeError:
        raise Usage("scontrol: error: Invalid TimeMin value") from None


def read_mail_types(value: str) -> list[str]:
    from phalanx.slurm.submission.asked.optional import mail_types

    return mail_types(value.upper().split(","))


def read_count(value: str) -> int:
    found = _COUNT.fullmatch(value)
    return int(found[1]) if found is not None else 0
