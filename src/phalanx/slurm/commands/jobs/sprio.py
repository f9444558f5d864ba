"""sprio: show the factors of the priority of pending jobs, by Slurm's formula and the weights of the site's
slurm.conf."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from phalanx.slurm.accounts.multifactor import MOST, Factors, factors_of, priority, total, tres, weighted
from phalanx.slurm.accounts.tree import tree, usage
from phalanx.slurm.cluster import site
from phalanx.slurm.cluster.api import ApiClient
from phalanx.slurm.cluster.site import Site, Weights
from phalanx.slurm.jobs.chosen import NoJob, chosen, is_user
from phalanx.slurm.jobs.nodes import nodes
from phalanx.slurm.jobs.view import JobInfo, jobs
from phalanx.slurm.notation.amounts import read_width
from phalanx.slurm.options import OptionReader, Usage, declare, require_cluster, say

OPTIONS = declare(
    "noheader,h jobs,j=? long,l cluster|clusters,M= norm,n format,o= sort,S= partition,p= users|user,u= verbose,v "
    "version,V weights,w federation help local sib|sibling usage"
)
_READER = OptionReader("sprio", OPTIONS)
LONG = "%.15i %9r %.8u %.10Y %.10S %.10A %.10B %.10F %.10J %.10P %.10Q %.11N %.20T"
NORMAL = "%.15i %9r %.8u %10y %10a %10b %10f %10j %10p %10q %20t"
_LETTER = re.compile(r"%(\.?)(\d*)([a-zA-Z])")
_PART = re.compile(r"\.?\d*(.?).*", re.DOTALL)


@dataclass(frozen=True, slots=True)
class PriorityLine:
    job: JobInfo
    factors: Factors
    weights: Weights

    @property
    def priority(self) -> int:
        return 0 if self.job.held else priority(self.factors, self.weights)

    @property
    def part(self) -> str:
        """Return the priority as a fraction of the highest possible priority."""
        found = 0.0 if self.job.held else total(self.factors, self.weights)
        return f"{found / MOST:.14f}"


def run(words: Sequence[str]) -> int:
    typed, rest = _READER.read(words, _check)
    said: dict[str, str | None] = dict(typed)
    usage_line = "Usage: sprio [OPTIONS]\n" + " ".join(f"--{one.spelled}" for one in OPTIONS)
    if "help" in said or "usage" in said:
        print(usage_line)
        return 0
    api = ApiClient.open()
    here = site.load(api)
    if "format" in said and "long" in said:
        raise Usage(
            "sprio: fatal: Options -o(--format) and -l(--long) are mutually exclusive. Please remove one and retry."
        )
    if "jobs" in said and rest:  # the list of jobs may be a word of its own
        _require_ids(rest[0])
        said["jobs"] = rest.pop(0)
    if rest:
        print(usage_line)
        raise Usage(f"sprio: error: Unrecognized option: {rest[0]}")
    form = _form(said, here.weights)
    if said.get("jobs") == "":
        print("Unable to find jobs matching user/id(s) specified")
        return 0
    lines = found(api, here, said) if "weights" not in said or said.get("jobs") else []
    if "weights" in said:
        lines = []
    if "noheader" not in said:
        print(_filled(form, lambda letter: _FIELDS[letter][0]))
    if "weights" in said:
        print(_filled(form, lambda letter: _weight(letter, here.weights)))
    for line in _sorted(lines, said):
        print(_filled(form, lambda letter, line=line: _FIELDS[letter][1](line)))  # type: ignore[misc]  # bound now
    return 0


def _check(typed: Sequence[tuple[str, str | None]]) -> None:
    """Raise Usage if the value of the last option is invalid. Report unknown users. `typed`: the options so far."""
    name, value = typed[-1]
    if name == "clusters":
        require_cluster("sprio", value or "", site.load(ApiClient.open()).cluster)
    elif name == "jobs":
        _require_ids(value or "")
    elif name == "user":
        for user in filter(None, (value or "").split(",")):
            if not is_user(user):
                say(f"sprio: error: Invalid user: {user}")


def _require_ids(text: str) -> None:
    for one in filter(None, text.split(",")):
        if not one.isdecimal() or not int(one):
            raise Usage(f"sprio: error: Invalid job id: {one}")


def _sorted(lines: list[PriorityLine], said: Mapping[str, str | None]) -> list[PriorityLine]:
    """Return the lines in the order of --sort. Raises Usage."""
    # as in Slurm, --sort is not checked if there are no lines
    for key in reversed((said.get("sort") or "").split(",")) if lines else ():
        word = key.strip().lstrip("+-")
        if not word:
            continue
        if word[0] not in _FIELDS:
            raise Usage(f"sprio: error: Invalid sort specification: {word[0]}")
        show = _FIELDS[word[0]][1]

        def value(line: PriorityLine, show: Callable[[PriorityLine], str] = show) -> tuple[float, str]:
            text = show(line)
            return (float(text), "") if text.replace(".", "", 1).isdecimal() else (0.0, text)

        lines = sorted(lines, key=value, reverse=key.strip().startswith("-"))
    return lines


def found(api: ApiClient, here: Site, said: Mapping[str, str | None]) -> list[PriorityLine]:
    """Return a line for each pending job that the options select, sorted by job number. Raises Usage."""
    try:
        asked = chosen(said)
    except NoJob as error:
        raise Usage(f"sprio: error: Invalid job id: {error}") from None
    known = jobs(api, asked.numbers, places=False)
    now_s = time.time()  # as in Slurm, jobs whose begin time has not come are left out
    pending = [
        job
        for job in known
        if job.state == "PENDING" and not job.held and (job.ask.begin_s or 0.0) <= now_s and asked.has(job)
    ]
    waiting = list({job.own: job for job in pending}.values())  # as in Slurm, pending tasks of an array share a line
    if asked.ids and not waiting:
        print("Unable to find jobs matching user/id(s) specified")
        raise Usage("", 0)
    _, shares = tree(here, usage(api))
    factors = {key: share.factor or 0.0 for key, share in shares.items()}
    every = nodes(api)
    now_s = time.time()
    return [
        PriorityLine(
            job,
            factors_of(job.ask, here, every, factors.get((job.ask.account, job.ask.user), 0.0), _age_s(job, now_s)),
            here.weights,
        )
        for job in waiting
    ]


def _age_s(job: JobInfo, now_s: float) -> float:
    return 0.0 if job.eligible_s is None else max(0.0, now_s - job.eligible_s)


def _form(said: Mapping[str, str | None], weights: Weights) -> str:
    if (text := said.get("format")) is not None:
        return _known(text)
    if "long" in said:
        return NORMAL if "norm" in said else LONG
    shown = {"A": weights.age, "B": weights.assoc, "F": weights.fair_share, "J": weights.job_size}
    shown |= {"P": weights.partition, "Q": weights.qos}
    cluster = "%.8c " if "sibling" in said and not {"local", "clusters"} & said.keys() else ""
    user = cluster + ("%.8u " if "user" in said else "")
    if "norm" in said:
        parts = [f"%.15i %9r {user}%10y", *(f"%10{letter.lower()}" for letter, weight in shown.items() if weight)]
        return " ".join([*parts, *(["%20t"] if weights.tres else [])])
    parts = [f"%.15i %9r {user}%.10Y %.10S", *(f"%.10{letter}" for letter, weight in shown.items() if weight)]
    return " ".join([*parts, *(["%.20T"] if weights.tres else [])])


def _known(text: str) -> str:
    """Report the unknown letters of a format. Return the format without these letters and without the text after each
    of them."""
    found, _, rest = text.partition("%")
    for word in filter(None, rest.split("%")):
        match = _PART.fullmatch(word)
        assert match is not None  # each part may be empty
        if match[1] in _FIELDS:
            found += f"%{word}"
        else:
            say(f"sprio: error: Invalid job format specification: {match[1]}")
    return found


def _weight(letter: str, weights: Weights) -> str:
    known = {
        "i": "Weights", "S": "1", "A": weights.age, "B": weights.assoc, "F": weights.fair_share, "J": weights.job_size,
        "P": weights.partition, "Q": weights.qos, "r": "",
        "T": ",".join(f"{_NAMES.get(name, name)}={weight:g}" for name, weight in weights.tres.items()) or "(null)",
    }  # fmt: skip
    known |= {small.lower(): known[small] for small in "ABFJPQST"}
    return str(known.get(letter, ""))


_NAMES = {"cpu": "CPU", "mem": "Mem"}


def _filled(form: str, text_of: Callable[[str], str]) -> str:
    def one(match: re.Match[str]) -> str:
        text, width = text_of(match[3]), read_width(match[2] or "0")
        text = text[:width] if width else text
        return text.rjust(width) if match[1] else text.ljust(width)

    return _LETTER.sub(one, form)


def _adds(name: str) -> Callable[[PriorityLine], str]:
    return lambda line: f"{weighted(line.factors, line.weights)[name]:.0f}"


def _is(name: str) -> Callable[[PriorityLine], str]:
    """Return a function that returns the factor `name` of a line as text. As in Slurm, a factor without a weight is
    0."""
    return lambda line: f"{getattr(line.factors, name) if getattr(line.weights, name) else 0.0:.7f}"


_FIELDS: dict[str, tuple[str, Callable[[PriorityLine], str]]] = {
    "i": ("JOBID", lambda line: str(line.job.own)),
    "c": ("CLUSTER", lambda line: "(null)"),
    "r": ("PARTITION", lambda line: line.job.ask.partition),
    "u": ("USER", lambda line: line.job.ask.user),
    "Y": ("PRIORITY", lambda line: str(line.priority)),
    "y": ("PRIORITY", lambda line: line.part),
    "S": ("SITE", lambda line: "0"),
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
