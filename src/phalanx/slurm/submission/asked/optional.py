"""Read options that few jobs use: mail, licenses, disk space, preferred features, and the image of a container.

Every option either has its effect or is refused. An option that Phalanx would have to ignore is never accepted.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence

from phalanx.slurm.cluster.site import Site
from phalanx.slurm.jobs.ask import Ask
from phalanx.slurm.notation import amounts, times
from phalanx.slurm.options import Usage, say
from phalanx.slurm.submission.asked.forms import MAIL_OF_ALL, MAIL_TYPES
from phalanx.slurm.submission.asked.size import FAILED, choices, fails

_MEASURED_S = 2
_MOUNT = re.compile(r"(/[^:,]*):(/[^:,]*)(?::(ro|rw))?")
Options = Mapping[str, str | None]


def read_optional(ask: Ask, said: Options, site: Site) -> None:
    """Set the fields of the request that these options determine. `said`: the options of the job. Raises Usage."""
    ask.mail, ask.mail_user = _mail(said, site, ask.user)
    ask.tmp_mib = _tmp(said)
    ask.contiguous = "contiguous" in said
    if said.get("exclusive") not in (None, "user", "mcs"):
        raise Usage("sbatch: error: Invalid --exclusive specification", 255)
    ask.overcommit, ask.oversubscribe = "overcommit" in said, "oversubscribe" in said
    ask.preferred = said.get("prefer") or ""
    ask.least_min = _least(said)
    ask.licenses = _licenses(ask, said, site)
    ask.image, ask.mounts = _container(said)
    _require_rights(ask, said)
    if said.get("exclusive") in ("user", "mcs"):
        ask.shown["OverSubscribe"] = (said["exclusive"] or "").upper()


def _require_rights(ask: Ask, said: Options) -> None:
    """Raise Usage for options that only root may use, for options that the site does not allow, and for features in
    --batch that --constraint does not name."""
    if "gid" in said and os.getuid() != 0:
        raise Usage("sbatch: error: --gid only permitted by root user", 255)
    if "reboot" in said:
        raise Usage(f"sbatch: error: rebooting of nodes is only allowed for admins\n{FAILED}Access/permission denied")
    if _frequency_s(said.get("acctg-freq") or ""):
        raise fails("Invalid accounting frequency requested")
    features = {name for choice in choices(ask.features) for name in choice}
    if not {name for choice in choices(said.get("batch") or "") for name in choice} <= features:
        raise fails("Job --batch option is invalid or not a subset of --constraints")


def _frequency_s(text: str) -> bool:
    """Return True if --acctg-freq turns the measurement of tasks off, or requests a longer interval than that of the
    site (2 seconds). Slurm refuses both values."""
    for part in text.split(","):
        what, _, count = part.rpartition("=")
        if what.lower() in ("", "task") and count.isdecimal() and not 0 < int(count) <= _MEASURED_S:
            return True
    return False


def _mail(said: Options, site: Site, user: str) -> tuple[str, str]:
    """Return the mail events in the notation of `scontrol show job`, and the recipient; both are empty if the job sends
    no mail."""
    words = [one for one in (said.get("mail-type") or "").upper().split(",") if one]
    # `forms` has checked the command line, but not the #SBATCH lines.
    if any(one not in (*MAIL_TYPES, "ALL", "NONE") for one in words):
        raise Usage("sbatch: error: Invalid --mail-type specification", 255)
    if not words or "NONE" in words:
        return "", ""
    found = mail_types(words)
    if not os.path.exists(site.mail_program):
        say(
            f"sbatch: warning: a node without the MailProg {site.mail_program} sends no mail; "
            "this machine does not have the program"
        )
    return ",".join(found), said.get("mail-user") or user


def mail_types(words: Sequence[str]) -> list[str]:
    """Return the mail events that the words name, in the notation and order of scontrol. Return an empty list if a word
    is not a mail event."""
    if any(one not in (*MAIL_TYPES, "ALL") for one in words):
        return []
    return [one for one in MAIL_TYPES if one in words or ("ALL" in words and one in MAIL_OF_ALL)]


def _tmp(said: Options) -> int:
    if (text := said.get("tmp")) is None:
        return 0
    return amounts.read_mib(text)


def _least(said: Options) -> int | None:
    """Return the value of --time-min, the shortest acceptable time limit, in minutes. Return 0 for `UNLIMITED`, which a
    later check refuses, and None without the option."""
    if (text := said.get("time-min")) is None:
        return None
    return times.read_limit_min(text) or 0


def _licenses(ask: Ask, said: Options, site: Site) -> str:
    """Return the requested license. Set the limit on the number of jobs that may run with the license at the same time;
    each job counts as one license."""
    text = said.get("licenses") or ""
    if not text:
        if "licenses" in said:
            ask.shown["Licenses"] = ""
        return ""
    name, _, count = text.replace("*", ":").partition(":")
    if name not in site.licenses or not (count or "1").isdecimal():
        raise Usage(f"{FAILED}Invalid license specification")
    if (count or "1") != "1" or "," in text or "%" in (said.get("array") or ""):
        raise Usage(
            "sbatch: error: --licenses: Phalanx supports one license for a job, and none for arrays with %n "
            "(docs/guide/slurm.md)"
        )
    ask.cap, ask.cap_group, ask.cap_reason = site.licenses[name], f"license-{name}", "Licenses"
    return name


def _container(said: Options) -> tuple[str, list[str]]:
    """Return the image of --container-image in the notation of Kubernetes, and the mounts of --container-mounts. The
    values of both options have the form of pyxis: the image may be REGISTRY#NAME, and may begin with docker://."""
    image = (said.get("container-image") or "").removeprefix("docker://").replace("#", "/", 1)
    mounts = [one for one in (said.get("container-mounts") or "").split(",") if one]
    for one in mounts:
        if _MOUNT.fullmatch(one) is None:
            raise Usage(f"sbatch: error: pyxis: --container-mounts: invalid format: {one}", 255)
    if mounts and not image:
        raise Usage("sbatch: error: --container-mounts needs --container-image", 255)
    return image, mounts


def mail_words(ask: Ask, site: Site) -> dict[str, str]:
    """Return the environment variables with which the launcher calls the mail program; empty if the job sends no
    mail."""
    if not ask.mail:
        return {}
    return {"PHALANX_MAIL": site.mail_program, "PHALANX_MAIL_TO": ask.mail_user, "PHALANX_MAIL_WHEN": ask.mail}
