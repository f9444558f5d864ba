"""Build the request of a job (`Ask`) from the options of sbatch, salloc or srun: read the values, add the defaults of
the site, and refuse requests that can never be satisfied.

If Slurm has a message for an error, this message is used, because scripts search for it.
"""

from __future__ import annotations

import os
import pwd
import re
import socket
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

import msgspec

from phalanx.errors import PhalanxError
from phalanx.slurm.accounts.multifactor import rank
from phalanx.slurm.cluster.site import Partition, Site
from phalanx.slurm.jobs.ask import TEXT_MOST, Ask
from phalanx.slurm.notation import times
from phalanx.slurm.notation.arrays import Array, ArrayError, read_array
from phalanx.slurm.notation.hostlist import expand
from phalanx.slurm.notation.signals import read_warning
from phalanx.slurm.options import Usage
from phalanx.slurm.submission.asked.forms import read_nice, shown
from phalanx.slurm.submission.asked.optional import read_optional
from phalanx.slurm.submission.asked.size import (
    CONFIGURATION,
    FAILED,
    Hardware,
    fails,
    partition_limit,
    read_size,
    require_features,
    require_fit,
    require_gres,
)

_ENVIRONMENT_NAME = re.compile(r"[-._a-zA-Z][-._a-zA-Z0-9]*")
_VALUE_BYTES = 120_000

Options = Mapping[str, str | None]


class SubmissionRequest(msgspec.Struct, frozen=True, kw_only=True):
    """A request that is ready for submission. `array`: None for a single job. `said`: the options. `environment`: the
    environment variables of the caller that are passed to the job; all tasks of an array share them."""

    ask: Ask
    array: Array | None
    said: Options
    environment: Mapping[str, str] = {}


def request(
    said: Options, site: Site, hardware: Hardware, script: str | None, args: list[str], line: str
) -> SubmissionRequest:
    """Return the request for these options. `hardware`: the hardware of the partitions that `partitions` returns.
    `script`: the name of the script; None for standard input or --wrap. `args`: its arguments. `line`: the complete
    command line. Raises Usage."""
    require_gres(said)
    named = partitions(said, site)
    partition = named[0]
    now_s = time.time()
    who = _who(said)
    ask = Ask(
        name=(said["job-name"] or "")
        if "job-name" in said
        else ("wrap" if script is None and "wrap" in said else os.path.basename(script or "sbatch")),
        user=who.pw_name,
        uid=who.pw_uid,
        gid=who.pw_gid,
        group=_group(who.pw_gid),
        account=_account(said, site, who.pw_name),
        partition=partition.name,
        partitions=[one.name for one in named] if len(named) > 1 else [],
        submit_s=now_s,
        comment=(said["comment"] or "")[:TEXT_MOST] if "comment" in said else None,
        reservation=said.get("reservation") or "",
        command=" ".join([script, *args])[:TEXT_MOST] if script is not None else "",
        workdir=os.path.join(os.getcwd(), said.get("chdir") or "").rstrip("/") or "/",
        line=line[:TEXT_MOST],
        host=socket.gethostname(),
        pid=os.getppid(),
        features=said.get("constraint") or "",
        wanted=expand(said.get("nodelist") or ""),
        excluded=expand(said.get("exclude") or ""),
        exclusive="exclusive" in said,
        requeue="no-requeue" not in said,
        shown=shown(said),
        nice=_nice(said),
        hold="JobHeldUser" if "hold" in said else "",
        begin_s=_moment(said, "begin", now_s),
        deadline_s=_moment(said, "deadline", now_s),
    )
    ask.warning, ask.wckey = _warning(said), said.get("wckey") or ""
    if ask.wckey and site.wckeys and ask.wckey not in site.wckeys.get(ask.user, ()):
        raise fails("Invalid wckey specification")
    ask.qos = _qos(said, site, ask)
    read_size(ask, said, partition, hardware)
    read_optional(ask, said, site)
    ask.limit_min = _limit(said, partition)
    _check(ask, hardware, now_s, site.all, {one.name: (one, _limit(said, one)) for one in named})
    _fit_to_deadline(ask, now_s)
    ask.rank, ask.rank_per_s = rank(ask, site, hardware.every)
    array = None
    if spec := said.get("array"):
        try:
            array = read_array(spec, site.max_array)
        except ArrayError:
            raise fails("Invalid job array specification") from None
    _files(ask, said, array is not None)
    around = {**os.environ, **_of_file(said["export-file"])} if said.get("export-file") else os.environ
    return SubmissionRequest(ask=ask, array=array, said=said, environment=exported(said.get("export"), around))


# --- user, account and partition ------------------------------------------------------------------------------------


def _who(said: Options) -> pwd.struct_passwd:
    """Return the user of the job: the user in --uid, or else the caller. Only root may set --uid. Raises Usage."""
    text = said.get("uid")
    if text is None:
        return pwd.getpwuid(os.getuid())
    if os.getuid() != 0:
        raise Usage("sbatch: error: --uid only permitted by root user", 255)
    try:
        return pwd.getpwuid(int(text)) if text.isdecimal() else pwd.getpwnam(text)
    except KeyError:
        raise Usage(f'sbatch: error: --uid="{text}" invalid', 255) from None


def _group(gid: int) -> str:
    import grp

    try:
        return grp.getgrgid(gid).gr_name
    except KeyError:
        return str(gid)


def partitions(said: Options, site: Site) -> list[Partition]:
    """Return the partitions that --partition names, in this order, or else the default partition. Raises Usage."""
    if "partition" not in said:
        if site.default is None:
            raise fails("No partition specified or system default partition")
        return [site.default]
    names = [name for name in (said["partition"] or "").split(",") if name] or ["(null)"]
    found = [site.partition(name) for name in names]
    for name, one in zip(names, found, strict=True):
        if one is None:
            raise Usage(f"sbatch: error: invalid partition specified: {name}\n{FAILED}Invalid partition name specified")
    return [one for one in found if one is not None]


def _account(said: Options, site: Site, user: str) -> str:
    account = (said.get("account") or "").lower()
    if not site.users:
        return account or "default"
    theirs = [one.account for one in site.users.get(user, ())]
    if not theirs and not account and user == "root":
        return "root"  # as in Slurm, root needs no association
    if not theirs or ("account" in said and account not in theirs):
        raise fails("Invalid account or account/partition combination specified")
    return account or theirs[0]


def _qos(said: Options, site: Site, ask: Ask) -> str:
    theirs = next((one for one in site.users.get(ask.user, ()) if one.account == ask.account), None)
    if said.get("qos") == "":
        raise fails("Invalid qos specification")
    wanted = said.get("qos") or (theirs.default_qos if theirs is not None else "") or "normal"
    # As in Slurm, an association without QOS allows only the QOS `normal`.
    if theirs is not None and wanted not in (theirs.qos or ("normal",)):
        raise fails("Invalid qos specification")
    return wanted


# --- when ---------------------------------------------------------------------------------------------------------


def _limit(said: Options, partition: Partition) -> int | None:
    text = said.get("time")
    if text is None:
        return partition.default_min if partition.default_min is not None else partition.max_min
    return times.read_limit_min(text) or None  # as in Slurm, --time=0 means no limit


def _fit_to_deadline(ask: Ask, now_s: float) -> None:
    """Shorten the time limit so that the job can end by its deadline, but not below --time-min. Slurm shortens the
    limit when the job starts; Phalanx shortens it at submission."""
    if ask.deadline_s is not None and ask.least_min is not None and ask.limit_min is not None and not ask.hold:
        ask.limit_min = min(ask.limit_min, max(ask.least_min, int((ask.deadline_s - int(now_s)) // 60)))


def _warning(said: Options) -> str:
    """Return the value of --signal in the form `10 90 batch`: the signal number, the seconds before the time limit, and
    `batch` or `steps` as the recipient. Return "" without the option."""
    text = said.get("signal")
    if text is None:
        return ""
    found = read_warning(text)
    if found is None:
        raise Usage("sbatch: error: Invalid --signal specification", 255)
    return f"{found[0]} {found[1]} {'batch' if found[2] else 'steps'}"


def _nice(said: Options) -> int:
    nice = read_nice(said["nice"]) if "nice" in said else 0
    if nice < 0 and os.getuid() != 0:
        raise fails("Invalid --nice value")
    return nice


def _moment(said: Options, name: str, now_s: float) -> float | None:
    text = said.get(name)
    if text is None:
        return None
    try:
        return times.read_moment(text, now_s)
    except times.TimeError as error:
        raise Usage(
            f"Invalid time specification (pos={error.at}): {text}\nsbatch: error: Invalid --{name} specification", 255
        ) from None


def _check(
    ask: Ask,
    hardware: Hardware,
    now_s: float,
    site_partitions: Sequence[Partition],
    limits: Mapping[str, tuple[Partition, int | None]],
) -> None:
    """Raise Usage if the job can never run. As in Slurm, a job that only exceeds limits of its partitions is accepted
    and held with the name of the limit as its reason. A job with --hold is checked when it is released.
    `site_partitions`: all partitions. `limits`: name of a requested partition -> (the partition, the job's time limit
    in it, in minutes)."""
    named = [one for one, _ in limits.values()]
    if ask.deadline_s is not None and ask.deadline_s < int(now_s):
        raise fails("Requested time limit is invalid (missing or exceeds some limit)")
    if ask.begin_s is not None and ask.begin_s <= now_s:
        ask.begin_s = None
    nodes = {node for one in named for node in one.nodes} if all(one.nodes for one in named) else set()
    if any(one.state in ("INACTIVE", "DRAIN") for one in named):
        raise fails("Required partition not available (inactive or drain)")
    if set(ask.wanted) & set(ask.excluded):
        raise fails("Invalid node name specified")
    if nodes and set(ask.wanted) - nodes:
        known = {node for one in site_partitions for node in one.nodes}
        raise fails(CONFIGURATION if set(ask.wanted) <= known else "Invalid node name specified")
    if hardware.names and (set(ask.excluded) | set(ask.wanted)) - hardware.names:
        raise fails("Invalid node name specified")
    require_features(ask, hardware)
    most_min = min((each for each in (ask.limit_min, named[0].max_min) if each is not None), default=None)
    if ask.least_min is not None and (not ask.least_min or (most_min is not None and ask.least_min > most_min)):
        raise fails("Invalid time-min specification (exceeds job's time or other limits)")
    if ask.exclusive:
        ask.min_cpus = max(ask.min_cpus, hardware.cpus)
    if ask.hold:
        return
    reasons = [partition_limit(ask, one, hardware, limit_min) for one, limit_min in limits.values()]
    open_ones = [one for one, reason in zip(named, reasons, strict=True) if not reason]
    if open_ones:
        ask.limit_min = limits[open_ones[0].name][1]
    if open_ones and len(named) > 1:
        ask.partition, ask.usable = open_ones[0].name, [one.name for one in open_ones]
    if not open_ones:
        ask.hold = reasons[-1]  # as in Slurm, the reason for the last partition is shown
    elif not ask.hold:
        require_fit(ask, hardware)


# --- files and environment ------------------------------------------------------------------------------------------


def _files(ask: Ask, said: Options, array: bool) -> None:
    ask.stdout = said.get("output") or ("slurm-%A_%a.out" if array else "slurm-%j.out")
    ask.stderr = said.get("error") or ""
    ask.stdin = said.get("input") or "/dev/null"


def exported(said: str | None, environment: Mapping[str, str]) -> dict[str, str]:
    """Return the environment variables of the caller that the job gets. `said`: the value of --export: ALL, NONE, or
    names and NAME=VALUE; None means ALL. Variables whose values are not UTF-8 are left out, because Kubernetes cannot
    store them."""
    words = (said or "ALL").split(",")
    found: dict[str, str] = {}
    if "ALL" in words:
        found = {name: text for name, text in environment.items() if not name.startswith("SLURM_")}
    for word in words:
        name, equals, value = word.partition("=")
        if equals:
            found[name] = value
        elif word not in ("ALL", "NONE", "NIL") and word in environment:
            found[word] = environment[word]
    if "ALL" not in words:
        found.setdefault("PATH", environment.get("PATH", "/usr/local/bin:/usr/bin:/bin"))
        found["PHALANX_NO_HOME"] = "1"
    return {
        name: text
        for name, text in found.items()
        if _ENVIRONMENT_NAME.fullmatch(name) and _is_unicode(text) and len(os.fsencode(text)) < _VALUE_BYTES
    }


def _is_unicode(text: str) -> bool:
    return text.isascii() or not any("\ud800" <= letter <= "\udfff" for letter in text)


def _of_file(name: str | None) -> dict[str, str]:
    """Return the variables in the file of --export-file. Each entry is NAME=VALUE and ends with a null byte."""
    words = Path(name or "").read_text(errors="surrogateescape").split("\0")
    return {name: value for name, equals, value in (word.partition("=") for word in words) if equals}


def require_room(environment: Mapping[str, str]) -> None:
    """Raise PhalanxError if the environment is larger than a Secret may be."""
    size = sum(len(name) + len(os.fsencode(text)) for name, text in environment.items())
    if size > 900_000:
        raise PhalanxError(
            f"the environment and the script have {size} bytes; at most 900000 are allowed: --export less"
        )
