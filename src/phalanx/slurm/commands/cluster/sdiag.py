"""sdiag: show the numbers of jobs that were submitted and ended since midnight, and statistics of the scheduler's
cycles.

The numbers of jobs come from the ledger (the accounting database) and from the API server. The statistics come from the
scheduler's metrics page at the address in $PHALANX_METRICS (`phalanx up --metrics-address 127.0.0.1:9090`). Without
this variable sdiag prints a note instead of the statistics.
"""

from __future__ import annotations

import http.client
import os
import re
import time
from collections.abc import Iterator, Mapping, Sequence
from urllib.parse import urlsplit

from phalanx.errors import PhalanxError
from phalanx.slurm.cluster.api import ApiClient
from phalanx.slurm.cluster.ledger import LedgerReader, Part, ledger_url
from phalanx.slurm.jobs.view import jobs
from phalanx.slurm.notation import times
from phalanx.slurm.options import OptionReader, Usage, declare, say

OPTIONS = declare("all,a help,h usage sort-by-id,i sort-by-time,t sort-by-time2,T version,V") + declare(
    "reset,r cluster,M= json yaml", refused=True
)
_READER = OptionReader("sdiag", OPTIONS)
_STARS = "*" * 55
_SAMPLE = re.compile(r"(\w+)(?:\{(.*)\})? ([-+0-9.eE]+|NaN|\+Inf)")
_LABEL = re.compile(r'(\w+)="((?:[^"\\]|\\.)*)"')
Sample = tuple[str, Mapping[str, str], float]


def run(words: Sequence[str]) -> int:
    typed, _ = _READER.read(words)
    said = dict(typed)
    if "help" in said or "usage" in said:
        print("Usage: sdiag [OPTIONS]\n" + "\n".join(f"  --{one.name}" for one in OPTIONS if not one.refused))
        return 0
    now_s = time.time()
    since_s = times.read_moment("today", now_s)
    print(_STARS)
    print(f"sdiag output at {_long(now_s)}\nData since      {_long(since_s)}\n{_STARS}")
    for line in [*_jobs(since_s, now_s), *_scheduler(said)]:
        print(line)
    return 0


def _long(at_s: float) -> str:
    return f"{time.strftime('%a %b %d %H:%M:%S %Y', time.localtime(at_s))} ({int(at_s)})"


def _jobs(since_s: float, now_s: float) -> Iterator[str]:
    """Yield the lines about jobs: how many jobs of all kinds were submitted, started and ended since `since_s`, and how
    many Slurm jobs are pending and running now."""
    live = jobs(ApiClient.open(), places=False)
    if ledger_url():
        with LedgerReader.open(Part(since_s=since_s)) as ledger:
            [(submitted,)] = ledger.rows("SELECT COUNT(*) FROM ledger_job WHERE submit_s >= ?", [since_s])
            [(started,)] = ledger.rows(
                "SELECT COUNT(*) FROM ledger_start s JOIN ledger_job j ON j.id = s.job_id "
                "WHERE (j.end_s IS NULL OR j.end_s >= ?) AND s.at_s >= ?",
                [since_s, since_s],
            )
            by_state = "SELECT state, COUNT(*) FROM ledger_job WHERE end_s >= ? GROUP BY state"
            ended = {str(state): int(count) for state, count in ledger.rows(by_state, [since_s])}
        failed = ended.get("FAILED", 0) + ended.get("TIMEOUT", 0)
        yield f"\nJobs submitted: {submitted}\nJobs started:   {started}\nJobs completed: {ended.get('COMPLETED', 0)}"
        yield f"Jobs canceled:  {ended.get('CANCELLED', 0)}\nJobs failed:    {failed}"
    yield f"\nJob states ts:  {_long(now_s)}"
    yield f"Jobs pending:   {sum(job.state == 'PENDING' for job in live)}"
    yield f"Jobs running:   {sum(job.state in ('RUNNING', 'SUSPENDED') for job in live)}"


def _scheduler(said: Mapping[str, str | None]) -> Iterator[str]:
    url = os.environ.get("PHALANX_METRICS", "")
    if not url:
        say("sdiag: the statistics of the scheduler are not shown: set PHALANX_METRICS to the address of its metrics")
        return
    found = list(_samples(_page(url)))
    cycles = sum(value for name, _, value in found if name == "phalanx_cycle_seconds_count") / max(
        1, len({labels.get("phase") for name, labels, _ in found if name == "phalanx_cycle_seconds_count"})
    )
    spent_s = sum(value for name, _, value in found if name == "phalanx_cycle_seconds_sum")
    waiting = sum(value for name, _, value in found if name == "phalanx_waiting_jobs")
    starts = sum(
        value for name, labels, value in found if name == "phalanx_decisions_total" and labels.get("action") == "start"
    )
    yield "\nMain schedule statistics (microseconds):"
    yield f"\tTotal cycles: {cycles:.0f}"
    yield f"\tMean cycle:   {1e6 * spent_s / cycles if cycles else 0:.0f}"
    yield f"\tJobs started: {starts:.0f}\n\tLast queue length: {waiting:.0f}"
    yield "\nRemote Procedure Call statistics by message type"
    for name, count, total_us in _sorted(_calls(found), said):
        yield f"\t{name:<39} count:{count:<6.0f} ave_time:{total_us / count:<6.0f} total_time:{total_us:.0f}"


def _calls(found: Sequence[Sample]) -> list[tuple[str, float, float]]:
    """Return (verb and resource, number of calls, sum of their times in microseconds) for each kind of API call."""
    sums: dict[str, list[float]] = {}
    for name, labels, value in found:
        if name in ("phalanx_api_call_seconds_count", "phalanx_api_call_seconds_sum"):
            key = f"{labels.get('verb', '')} {labels.get('group', '')}/{labels.get('resource', '')}".replace(" /", " ")
            sums.setdefault(key, [0.0, 0.0])[name.endswith("_sum")] += value
    return [(key, count, 1e6 * total_s) for key, (count, total_s) in sums.items() if count]


def _sorted(
    calls: Sequence[tuple[str, float, float]], said: Mapping[str, str | None]
) -> list[tuple[str, float, float]]:
    if "sort-by-id" in said:
        return sorted(calls)
    if "sort-by-time2" in said:
        return sorted(calls, key=lambda call: -call[2] / call[1])
    return sorted(calls, key=lambda call: -call[2] if "sort-by-time" in said else -call[1])


def _page(url: str) -> str:
    where = urlsplit(url if "://" in url else f"http://{url}")
    if where.scheme != "http" or not where.hostname:
        raise Usage(f"sdiag: error: PHALANX_METRICS={url}: write http://HOST:PORT")
    try:
        connection = http.client.HTTPConnection(where.hostname, where.port or 80, timeout=5)
        connection.request("GET", where.path.rstrip("/") or "/metrics")
        answer = connection.getresponse()
        if answer.status != 200:
            raise PhalanxError(f"{url} answered with status {answer.status} instead of metrics")
        return answer.read().decode(errors="replace")
    except (OSError, http.client.HTTPException, ValueError) as error:
        raise PhalanxError(f"the metrics of {url} cannot be read: {error}") from None


def _samples(page: str) -> Iterator[Sample]:
    """Yield the samples (name, labels, value) of a page in Prometheus's text format."""
    for line in page.splitlines():
        match = _SAMPLE.match(line)
        if match is not None:
            yield match[1], dict(_LABEL.findall(match[2] or "")), float(match[3])
