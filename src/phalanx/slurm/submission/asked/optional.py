"""Options that few jobs have: mail, licences, disk, softer wishes, and the image of a container.

Each is carried out, or refused where it could not be: what would be passed over is never accepted.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping

from phalanx.slurm.cluster.site import Site
from phalanx.slurm.jobs.ask import Ask
from phalanx.slurm.notation import amounts, times
from phalanx.slurm.options import Usage, say

FAILED = "sbatch: error: Batch job submission failed: "
# --mail-type -> as scontrol shows it (measured, 22.05)
_ALL = ("INVALID_DEPEND", "BEGIN", "END", "FAIL", "REQUEUE", "STAGE_OUT")
_MAIL = (*_ALL, "ARRAY_TASKS", "TIME_LIMIT", "TIME_LIMIT_90", "TIME_LIMIT_80", "TIME_LIMIT_50")
_SENT = ("BEGIN", "END", "FAIL")  # the others are about what no pod knows of
_MOUNT = re.compile(r"(/[^:,]*):(/[^:,]*)(?::(ro|rw))?")
Options = Mapping[str, str | None]


def read_optional(ask: Ask, said: Options, site: Site, node_mib: int) -> None:
    """Fill in what these options ask. `node_mib`: memory of the largest node. Raises Usage."""
    ask.mail, ask.mail_user = _mail(said, site, ask.user)
    ask.tmp_mib = _tmp(said)
    ask.contiguous = "contiguous" in said
    if ask.contiguous and ask.node_count > 1:
        raise Usage("sbatch: error: --contiguous with several nodes is not supported by Phalanx (docs/guide/slurm.md)")
    if said.get("exclusive") not in (None, "user", "mcs"):
        raise Usage("sbatch: error: Invalid --exclusive specification", 255)
    ask.overcommit, ask.oversubscribe = "overcommit" in said, "oversubscribe" in said
    ask.preferred = said.get("prefer") or ""
    ask.least_min = _least(said)
    ask.licenses = _licenses(ask, said, site)
    ask.image, ask.mounts = _container(said)
    _per_gpu(ask, said, node_mib)
    if (said.get("kill-on-invalid-dep") or "no").lower() not in ("no", "n"):
        raise Usage("sbatch: error: --kill-on-invalid-dep=yes is not supported by Phalanx (docs/guide/slurm.md)")
    if (text := said.get("gid")) is not None and os.getuid() != 0 and text not in (str(ask.gid), ask.group):
        raise Usage("sbatch: error: --gid only permitted by root user", 255)


def _mail(said: Options, site: Site, user: str) -> tuple[str, str]:
    """When, as scontrol shows it, and to whom."""
    words = [one for one in (said.get("mail-type") or "").upper().split(",") if one]
    if any(one not in (*_MAIL, "ALL", "NONE") for one in words):
        raise Usage("sbatch: error: Invalid --mail-type specification", 255)
    if not words or "NONE" in words:
        return "", ""
    found = [one for one in _MAIL if one in words or ("ALL" in words and one in _ALL)]
    if "ALL" not in words and (other := [one for one in found if one not in _SENT]):
        raise Usage(f"sbatch: error: --mail-type={other[0]} is not supported by Phalanx (docs/guide/slurm.md)")
    if not os.path.exists(site.mail_program):
        say(f"sbatch: warning: no mail will be sent where the MailProg {site.mail_program} is missing, as it is here")
    return ",".join(found), said.get("mail-user") or user


def _tmp(said: Options) -> int:
    if (text := said.get("tmp")) is None:
        return 0
    try:
        return amounts.read_mib(text)
    except amounts.AmountError:
        raise Usage("sbatch: error: Invalid --tmp specification", 255) from None


def _least(said: Options) -> int | None:
    """--time-min: Slurm may give a job less time than it asks, and this says how much less. It gets its whole limit."""
    if (text := said.get("time-min")) is None:
        return None
    try:
        return times.read_limit_min(text)
    except times.TimeError:
        raise Usage("sbatch: error: Invalid --time-min specification", 255) from None


def _licenses(ask: Ask, said: Options, site: Site) -> str:
    """A licence is a cap on how many jobs that ask for it run at a time: one, one of it."""
    text = said.get("licenses") or ""
    if not text:
        return ""
    name, _, count = text.replace("*", ":").partition(":")
    if name not in site.licenses or not (count or "1").isdigit():
        raise Usage(f"{FAILED}Invalid license specification")
    if (count or "1") != "1" or "," in text or "%" in (said.get("array") or ""):
        raise Usage(
            "sbatch: error: --licenses: one licence a job, and none for arrays with %n, is what Phalanx counts "
            "(docs/guide/slurm.md)"
        )
    ask.cap, ask.cap_group, ask.cap_reason = site.licenses[name], f"license-{name}", "Licenses"
    return name


def _container(said: Options) -> tuple[str, list[str]]:
    """The image as Kubernetes names it (pyxis writes REGISTRY#NAME, or docker://), and what is mounted."""
    image = (said.get("container-image") or "").removeprefix("docker://").replace("#", "/", 1)
    mounts = [one for one in (said.get("container-mounts") or "").split(",") if one]
    for one in mounts:
        if _MOUNT.fullmatch(one) is None:
            raise Usage(f"sbatch: error: pyxis: --container-mounts: invalid format: {one}", 255)
    if mounts and not image:
        raise Usage("sbatch: error: --container-mounts needs --container-image", 255)
    return image, mounts


def _per_gpu(ask: Ask, said: Options, node_mib: int) -> None:
    try:
        if text := said.get("mem-per-gpu"):
            ask.memory_mib, ask.per_cpu = min(amounts.read_mib(text) * ask.gpus_per_node, node_mib), False
        if text := said.get("cpus-per-gpu"):
            ask.min_cpus = max(ask.min_cpus, int(text) * ask.gpus_per_node)
    except (amounts.AmountError, ValueError):
        raise Usage("sbatch: error: Invalid generic resource (gres) specification") from None
    if not ask.gpus_per_node and (said.get("mem-per-gpu") or said.get("cpus-per-gpu")):
        raise Usage("sbatch: error: Invalid generic resource (gres) specification")


def mail_words(ask: Ask, site: Site) -> dict[str, str]:
    """Return what the launcher needs to call the program."""
    if not ask.mail:
        return {}
    return {"PHALANX_MAIL": site.mail_program, "PHALANX_MAIL_TO": ask.mail_user, "PHALANX_MAIL_WHEN": ask.mail}
