"""sprio: what a waiting job's priority is made of, by Slurm's formula and the weights of the site's slurm.conf."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from phalanx.slurm.accounts.fair_tree import walk
from phalanx.slurm.accounts.multifactor import MOST, Factors, job_size, priority, total, tres, weighted
from phalanx.slurm.accounts.tree import tree, usage
from phalanx.slurm.cluster import site
from phalanx.slurm.cluster.api import Api
from phalanx.slurm.cluster.site import Site, Weights
from phalanx.slurm.jobs.chosen import NoJob, chosen
from phalanx.slurm.jobs.nodes import Node, nodes
from phalanx.slurm.jobs.view import Job, jobs
from phalanx.slurm.notation.amounts import read_width
from phalanx.slurm.options import Reader, Usage, declare, say

OPTIONS = declare(
    "format,o= help jobs,j= long,l noheader,h norm,n partition,p= sort,S= user,u= usage verbose,v version,V weights,w"
) + declare("clusters,M= federation local sibling", refused=True)
_READER = Reader("sprio", OPTIONS)
LONG = "%.15i %9r %.8u %.10Y %.10S %.10A %.10B %.10F %.10J %.10P %.10Q %.11N %.20T"
NORMAL = "%.15i %9r %.8u %10y %10a %10b %10f %10j %10p %10q %20t"
_LETTER = re.compile(r"%(\.?)(\d*)([a-zA-Z])")


@dataclass(frozen=True, slots=True)
class Line:
    job: Job
    factors: Factors
    weights: Weights

    @property
    def priority(self) -> int:
        return 0 if self.job.held else priority(self.factors, self.weights)

    @property
    def part(self) -> str:
        """The priority as a part of the greatest, with eight digits, cut: what is behind its point counts here."""
        found = 0.0 if self.job.held else total(self.factors, self.weights)
        return f"0.{int(found * 100_000_000 / MOST):08}"


def run(words: Sequence[str]) -> int:
    typed, _ = _READER.read(words)
    said: dict[str, str | None] = dict(typed)
    if "help" in said or "usage" in said:
        say("Usage: sprio [OPTIONS]")
        return 0
    api = Api.open()
    here = site.load(api)
    form = _form(said, here.weights)
    lines = [] if "weights" in said else found(api, here, said)
    if "noheader" not in said:
        print(_filled(form, lambda letter: _FIELDS[letter][0]))
    if "weights" in said:
        print(_filled(form, lambda letter: _weight(letter, here.weights)))
    for line in lines:
        print(_filled(form, lambda letter, line=line: _FIELDS[letter][1](line)))  # type: ignore[misc]  # bound now
    return 0


def found(api: Api, here: Site, said: Mapping[str, str | None]) -> list[Line]:
    """The jobs that wait, by number. Raises Usage."""
    try:
        asked = chosen(said)
    except NoJob as error:
        raise Usage(f"sprio: error: Invalid job id: {error}") from None
    waiting = [job for job in jobs(api, asked.numbers, places=False) if job.state == "PENDING" and asked.has(job)]
    if asked.ids and not waiting:
        raise Usage("Unable to find jobs matching user/id(s) specified", 0)
    shares = {
        (account.name, user.name): user.fair_share
        for account in walk(tree(here, usage(api)))
        if not account.user
        for user in account.below
        if user.user
    }
    every = nodes(api)
    return [Line(job, factors(job, here, every, shares, time.time()), here.weights) for job in waiting]


def factors(
    job: Job, here: Site, every: Sequence[Node], shares: Mapping[tuple[str, str], float], now_s: float
) -> Factors:
    """Of a job that waits. `every`: all nodes. `shares`: (account, user) -> FairShare."""
    ask, weights = job.ask, here.weights
    partition = here.partition(ask.partition)
    within = [one for one in every if partition is None or not partition.nodes or one.name in partition.nodes]
    held_s = 0.0 if job.eligible_s is None else max(0.0, now_s - job.eligible_s)
    asked = {"cpu": ask.cpus, "mem": ask.total_mib, "node": ask.node_count, "gres/gpu": ask.total_gpus}
    there = {
        "cpu": sum(one.cpus for one in within), "mem": sum(one.memory_mib for one in within), "node": len(within),
        "gres/gpu": sum(one.gpus for one in within),
    }  # fmt: skip
    return Factors(
        age=min(1.0, held_s / weights.max_age_s) if weights.max_age_s else 0.0,
        fair_share=shares.get((ask.account, ask.user), 0.0),
        job_size=job_size(ask.node_count, ask.cpus, len(every), sum(one.cpus for one in every), ask.limit_min, weights),
        partition=_part(partition.priority if partition is not None else 0, (one.priority for one in here.all)),
        qos=_part(
            here.qos[ask.qos].priority if ask.qos in here.qos else 0, (one.priority for one in here.qos.values())
        ),
        tres={name: asked[name] / there[name] if there.get(name) else 0.0 for name in weights.tres if name in asked},
        nice=ask.nice,
    )


def _part(value: int, every: Iterable[int]) -> float:
    most = max(every, default=0)
    return value / most if most else 0.0


def _form(said: Mapping[str, str | None], weights: Weights) -> str:
    if text := said.get("format"):
        for match in _LETTER.finditer(text):
            if match[3] not in _FIELDS:
                raise Usage(f"sprio: error: Invalid job format specification: {match[3]}")
        return text
    if "norm" in said:
        return NORMAL
    if "long" in said:
        return LONG
    shown = {"A": weights.age, "B": weights.assoc, "F": weights.fair_share, "J": weights.job_size}
    shown |= {"P": weights.partition, "Q": weights.qos}
    user = "%.8u " if said.get("user") else ""
    parts = [f"%.15i %9r {user}%.10Y %.10S", *(f"%.10{letter}" for letter, weight in shown.items() if weight)]
    return " ".join([*parts, *(["%.20T"] if weights.tres else [])])


def _weight(letter: str, weights: Weights) -> str:
    known = {
        "i": "Weights", "S": "1", "A": weights.age, "B": weights.assoc, "F": weights.fair_share, "J": weights.job_size,
        "P": weights.partition, "Q": weights.qos,
        "T": ",".join(f"{_NAMES.get(name, name)}={weight:g}" for name, weight in weights.tres.items()),
    }  # fmt: skip
    return str(known.get(letter, ""))


_NAMES = {"cpu": "CPU", "mem": "Mem"}


def _filled(form: str, text_of: Callable[[str], str]) -> str:
    def one(match: re.Match[str]) -> str:
        text, width = text_of(match[3]), read_width(match[2] or "0")
        return text.rjust(width) if match[1] else text.ljust(width)

    return _LETTER.sub(one, form)


def _adds(name: str) -> Callable[[Line], str]:
    return lambda line: f"{weighted(line.factors, line.weights)[name]:.0f}"


def _is(name: str) -> Callable[[Line], str]:
    return lambda line: f"{getattr(line.factors, name):.7f}"


_FIELDS: dict[str, tuple[str, Callable[[Line], str]]] = {
    "i": ("JOBID", lambda line: line.job.id),
    "r": ("PARTITION", lambda line: line.job.ask.partition),
    "u": ("USER", lambda line: line.job.ask.user),
    "o": ("ACCOUNT", lambda line: line.job.ask.account),
    "n": ("QOS_NAME", lambda line: line.job.ask.qos),
    "Y": ("PRIORITY", lambda line: str(line.priority)),
    "y": ("PRIORITY", lambda line: line.part),
    "S": ("SITE", lambda line: "0"),
    "s": ("SITE", lambda line: "0"),
    "A": ("AGE", _adds("age")),
    "a": ("AGE", _is("age")),
    "B": ("ASSOC", _adds("assoc")),
    "b": ("ASSOC", _is("assoc")),
    "F": ("FAIRSHARE", _adds("fair_share")),
    "f": ("FAIRSHARE", _is("fair_share")),
    "J": ("JOBSIZE", _adds("job_size")),
    "j": ("JOBSIZE", _is("job_size")),
    "P": ("PARTITION", _adds("partition")),
    "p": ("PARTITION", _is("partition")),
    "Q": ("QOS", _adds("qos")),
    "q": ("QOS", _is("qos")),
    "N": ("NICE", lambda line: str(line.factors.nice)),
    "T": (
        "TRES",
        lambda line: ",".join(f"{name}={value:.0f}" for name, value in tres(line.factors, line.weights).items()),
    ),
    "t": ("TRES", lambda line: ",".join(f"{name}={value:.2f}" for name, value in line.factors.tres.items())),
}
