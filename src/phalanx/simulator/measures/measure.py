"""Compute the measures of a schedule. docs/guide/simulate.md defines each measure, under the same name.

The docstrings of this module use these letters for a job: s is its submission time, b the time of its first start, e
the time of its end, p its run time without lost work, and n its size in the counted resource (processors or GPUs). C is
the capacity of the cluster. A job that never ended only counts in the measures `jobs` and `unfinished`.

The first part of the module measures deadlines: how many jobs were admitted and ended in time, by how much other jobs
missed their deadlines, and the attained value. In a trace, a job may have a *worth*: a list of pairs (time, value of
the job if it ends by this time). (Chronus, SoCC'21, calls falling values a soft deadline.) A job that has only a
deadline has the value 1 if it ends by the deadline. If all jobs have only a deadline, the attained value is
ElasticFlow's *deadline satisfactory ratio* (ASPLOS'23). A failed job has the value 0.

The second part of the module computes all measures, including the measures of deadlines.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import fsum
from typing import Any

from phalanx.model.job import Outcome
from phalanx.simulator.measures.fairness import dominance, fairness
from phalanx.simulator.measures.fragmentation import closeness, fragmentation
from phalanx.simulator.schedule import Fate, Schedule, bill, capacity, held, mean, percentile, sizes, spans, window
from phalanx.simulator.workload import Task, Worth


def deadlines(fates: Sequence[Fate]) -> dict[str, float]:
    """Return the measures of the jobs with a deadline or a worth; empty if no job has one."""
    due = [(fate, fate.task.job.deadline_s) for fate in fates if fate.task.job.deadline_s is not None]
    return {**(punctuality(due) if due else {}), **value_attained(fates)}


def punctuality(due: Sequence[tuple[Fate, float]]) -> dict[str, float]:
    """Return the measures of lateness. `due`: pairs of a job and its deadline. Deadlines are in the simulated time."""
    late = [fate.end_s - at_s for fate, at_s in due if fate.end_s is not None and fate.end_s > at_s]
    never = sum(fate.end_s is None for fate, _ in due)
    return {
        "jobs_with_deadline": len(due),
        "deadline_admission_ratio": mean([float(fate.start_s is not None) for fate, _ in due]),
        "deadline_miss_ratio": (len(late) + never) / len(due),
        "mean_tardiness_s": mean(late),
        "max_tardiness_s": max(late, default=0.0),
    }


def value_attained(fates: Sequence[Fate]) -> dict[str, float]:
    """Return the value that all jobs together attained, divided by the greatest value that they could have attained."""
    worths = [(fate, worth) for fate in fates if (worth := worth_of(fate.task))]
    most = fsum(max(value for _, value in worth) for _, worth in worths)
    return {"value_attained_ratio": fsum(attained(*each) for each in worths) / most} if most else {}


def worth_of(task: Task) -> Worth:
    if task.worth or task.job.deadline_s is None:
        return task.worth
    return ((task.job.deadline_s - task.job.submitted_s, 1.0),)


def attained(fate: Fate, worth: Worth) -> float:
    if fate.end_s is None or fate.outcome is not Outcome.SUCCEEDED:
        return 0.0
    took_s = fate.end_s - fate.task.job.submitted_s
    return max((value for within_s, value in worth if took_s <= within_s), default=0.0)


# --- all measures -----------------------------------------------------------------------------------------------------

TAU_S = 10.0  # tau, the shortest run time with which a bounded slowdown is computed (Feitelson)
HOUR_S = 3600.0
MONTH_S = 30 * 86_400.0
PARTS = (("median", 0.5), ("p90", 0.9), ("p95", 0.95), ("p99", 0.99))
OF_GROUPS = frozenset({"mean", "median", "p95", "p99"})


def measure(schedule: Schedule) -> dict[str, Any]:
    """Return all measures. The values are numbers or texts, except for `by_level`, `by_queue`, `by_size`
    and `by_month`."""
    done = list(schedule.finished())
    return {
        "trace": schedule.workload.name,
        "policy": schedule.policy,
        "estimates": schedule.estimates,
        "seed": schedule.seed,
        "jobs": len(schedule.fates),
        "finished": len(done),
        "unfinished": len(schedule.fates) - len(done),
        **times(done),
        **per_processor(schedule),
        **use(schedule),
        **shortest(schedule),
        **fidelity(schedule),
        **fragmentation(schedule),
        **closeness(schedule),
        **fairness(schedule),
        **dominance(schedule),
        **deadlines(schedule.fates),
        **stops(schedule),
        **bill(schedule),
        **preemptions(schedule),
        "by_queue": by(schedule, [fate.task.queue for fate in schedule.fates]),
        "by_size": by(schedule, [size_class(size) for size in sizes(schedule)]),
        **by_month(schedule),
        "interrupted": schedule.interrupted,
        **speed(schedule, len(done)),
        "schedule_sha256": schedule.sha256(),
    }


def speed(schedule: Schedule, done: int) -> dict[str, float]:
    """Return how long the simulation and its decisions took on this machine, and the number of scheduling passes."""
    since_s, until_s = window(schedule)
    per_s = 1.0 / schedule.wall_s if schedule.wall_s else 0.0
    return {
        "passes": schedule.passes,
        **summary(schedule.decisions_s, "decision_s"),
        "wall_s": round(schedule.wall_s, 6),
        "jobs_per_s": round(done * per_s, 1),
        "passes_per_s": round(schedule.passes * per_s, 1),
        "times_real_time": round((until_s - since_s) * per_s, 1),
        "peak_rss_bytes": schedule.peak_rss_bytes,
    }


def wait_s(fate: Fate) -> float:
    """Return the wait of a job before its first start: the time of its first start minus its submission time."""
    assert fate.start_s is not None
    return fate.start_s - fate.task.job.submitted_s


def jct_s(fate: Fate) -> float:
    """Return the completion time of a job, also called turnaround or flow time: its end minus its submission time."""
    assert fate.end_s is not None
    return fate.end_s - fate.task.job.submitted_s


def bounded_slowdown(fate: Fate) -> float:
    """Return the bounded slowdown of a job: max(1, (e - s) / max(p, tau)), with its submission time s, its end e, its
    run time p, and tau = `TAU_S`. For an undisturbed rigid job this is (wait + run) / max(run, tau)."""
    return max(1.0, jct_s(fate) / max(fate.ran_s, TAU_S))


def times(done: Sequence[Fate]) -> dict[str, float]:
    return {
        **summary(map(wait_s, done), "wait_s"),
        **summary(map(jct_s, done), "jct_s"),
        **summary(map(bounded_slowdown, done), "bounded_slowdown"),
    }


def per_processor(schedule: Schedule) -> dict[str, float]:
    """Return the measures of the slowdown per processor, max(1, (e - s) / (n max(p, tau))), for a job of size n (other
    letters as in `bounded_slowdown`). In these measures, the wait of a large job counts less than the wait of a small
    job (Zotkin and Keleher 1999; Feitelson 2001)."""
    both = zip(schedule.fates, sizes(schedule), strict=True)
    values = (
        max(1.0, jct_s(fate) / (max(1.0, size) * max(fate.ran_s, TAU_S)))
        for fate, size in both
        if fate.end_s is not None
    )
    return summary(values, "per_processor_slowdown")


def summary(values: Iterable[float], name: str) -> dict[str, float]:
    ordered = sorted(values)
    return {
        f"mean_{name}": mean(ordered),
        **{f"{part}_{name}": percentile(ordered, at) for part, at in PARTS},
        f"max_{name}": ordered[-1] if ordered else 0.0,
    }


def use(schedule: Schedule) -> dict[str, float]:
    """Return measures of the cluster's utilisation between the first submission and the last end."""
    has, (since_s, until_s) = capacity(schedule), window(schedule)
    span_s = until_s - since_s
    spent = [
        (stint, n * (stint.end_s - stint.start_s)) for stint, n in zip(schedule.stints, held(schedule), strict=True)
    ]
    allocated = fsum(each for _, each in spent)
    wasted = lost(schedule) + fsum(each for stint, each in spent if not stint.works)
    idle_in_need = fsum(
        (span.end_s - span.start_s) * (has - span.busy)
        for span in spans(schedule)
        if span.least is not None and span.least <= has - span.busy
    )
    last_submission_s = max((fate.task.job.submitted_s for fate in schedule.fates), default=0.0)
    asked = fsum(
        size * min(fate.work_s, limit_of(fate)) for fate, size in zip(schedule.fates, sizes(schedule), strict=True)
    )
    total = has * span_s
    offered_s = last_submission_s - since_s
    return {
        "makespan_s": span_s,
        "utilisation": allocated / total if total else 0.0,
        "goodput": 1.0 - wasted / allocated if allocated else 1.0,
        "loss_of_capacity": idle_in_need / total if total else 0.0,
        "offered_load": asked / (has * offered_s) if has * offered_s > 0 else 0.0,
    }


def shortest(schedule: Schedule) -> dict[str, float]:
    """Return a lower bound for the length of any schedule of the ended jobs, and the length of this schedule relative
    to the bound. The bound is the larger of two values. The first is the latest end if every job started at its
    submission. The second is the largest value, over all submissions, of (time of the submission + work submitted at
    that time or later / capacity)."""
    since_s, until_s = window(schedule)
    has, work, bound_s = capacity(schedule), 0.0, 0.0
    both = [pair for pair in zip(schedule.fates, sizes(schedule), strict=True) if pair[0].end_s is not None]
    for fate, size in sorted(both, key=lambda pair: pair[0].task.job.submitted_s, reverse=True):
        work += size * fate.ran_s
        after_s = fate.task.job.submitted_s - since_s
        bound_s = max(bound_s, after_s + fate.ran_s, after_s + work / has if has else 0.0)
    return {"makespan_bound_s": bound_s, "makespan_to_bound": (until_s - since_s) / bound_s if bound_s else 1.0}


def fidelity(schedule: Schedule) -> dict[str, float]:
    """Return the fraction of jobs that waited as long as in the trace, to the second. Jobs whose wait in the trace is
    unknown are left out."""
    known = [(fate, fate.task.waited_s) for fate in schedule.fates if fate.task.waited_s is not None]
    same = [fate.start_s is not None and abs(wait_s(fate) - waited_s) < 1.0 for fate, waited_s in known]
    return {"as_in_trace_ratio": mean(list(map(float, same)))} if known else {}


def limit_of(fate: Fate) -> float:
    stop_s = fate.task.stop_s
    return fate.work_s if stop_s is None else stop_s


def stops(schedule: Schedule) -> dict[str, float]:
    """Return the number of jobs that were stopped at their requested limit, measures of restarts, and the lost run time
    (in seconds, and in resource hours)."""
    again = [max(0, fate.starts - 1) for fate in schedule.fates]
    return {
        "stopped_at_limit": sum(fate.outcome is Outcome.FAILED for fate in schedule.fates),
        "restarts": sum(again),
        "restarted_jobs": sum(each > 0 for each in again),
        "max_restarts": max(again, default=0),
        "lost_s": fsum(fate.lost_s for fate in schedule.fates),
        "lost_resource_hours": lost(schedule) / HOUR_S,
    }


def preemptions(schedule: Schedule) -> dict[str, float]:
    counts, cascades = [fate.preemptions for fate in schedule.fates], schedule.cascades
    return {
        "preemptions": sum(counts),
        "max_preemptions": max(counts, default=0),
        "mean_cascade": mean([float(length) for length in cascades]),
        "max_cascade": max(cascades, default=0),
    }


def lost(schedule: Schedule) -> float:
    """Return the sum of (lost run time times size) over all jobs, in processor seconds or GPU seconds."""
    return fsum(fate.lost_s * size for fate, size in zip(schedule.fates, sizes(schedule), strict=True) if fate.lost_s)


def by(schedule: Schedule, groups: Sequence[str]) -> dict[str, dict[str, float | None]]:
    """Return the main measures of each group of jobs. `groups`: for each job, the name of its group. In a group without
    ended jobs, means and percentiles are None."""
    members: dict[str, list[Fate]] = {}
    for fate, group in zip(schedule.fates, groups, strict=True):
        members.setdefault(group, []).append(fate)
    found: dict[str, dict[str, float | None]] = {}
    for group in sorted(members, key=natural):
        done = [fate for fate in members[group] if fate.end_s is not None]
        main = {name: value for name, value in times(done).items() if name.partition("_")[0] in OF_GROUPS}
        found[group] = {
            "jobs": len(members[group]),
            "finished": len(done),
            **{name: value if done else None for name, value in main.items()},
        }
    return found


def by_month(schedule: Schedule) -> dict[str, object]:
    """Return the measures for each month of submission; empty if the trace covers only one month. A log that is
    divided into months gives several samples instead of one (Frachtenberg and Feitelson 2005)."""
    submitted_s = [fate.task.job.submitted_s for fate in schedule.fates]
    since_s = min(submitted_s, default=0.0)
    months = [str(int((at_s - since_s) // MONTH_S) + 1) for at_s in submitted_s]
    return {"by_month": by(schedule, months)} if len(set(months)) > 1 else {}


def size_class(size: float) -> str:
    """Return the name of the class to which a job's size belongs, such as `1`, `2`, `3-4` or `5-8`. The largest size of
    each class is a power of two. The class `<1` is for shares of a device, and the class `0` is for jobs that request
    none of the counted resource."""
    if size < 1:
        return "<1" if size > 0 else "0"
    upper = 2 ** max(0, (round(size + 0.499999) - 1).bit_length())
    lower = upper // 2 + 1
    return str(upper) if lower >= upper else f"{lower}-{upper}"


def natural(name: str) -> tuple[int, float, str]:
    """Return a sort key for names: names that begin with a number come first, sorted by the number."""
    first = name.split("-")[0]
    if name == "<1":
        return (0, 0.5, name)
    return (0, float(first), name) if first.isdecimal() else (1, 0.0, name)
