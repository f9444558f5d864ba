"""Build the JSON document of `sacct --json`. Its fields have the names of Slurm's REST API of 22.05
(openapi/dbv0.0.38)."""

from __future__ import annotations

import signal
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from phalanx.slurm.commands.accounting.sacct_fields import SacctLine, elapsed_s, eligible_s
from phalanx.slurm.commands.jobs.document import head
from phalanx.slurm.jobs.steps.records import StepRecord
from phalanx.slurm.jobs.view import JobInfo
from phalanx.slurm.notation.hostlist import compress

_TYPES = {"cpu": 1, "mem": 2, "energy": 3, "node": 4, "billing": 5}  # TRES -> its id in Slurm's database
_GPU = 1001
_NO_TIME = {"seconds": 0, "microseconds": 0}
_LOWEST: tuple[str, ...] = ("max", "min", "average", "total")


def document(cluster: str, lines: Sequence[SacctLine]) -> str:
    """Return the document about these jobs and their steps. `cluster`: the name of the cluster."""
    found: list[dict[str, Any]] = []
    for line in lines:
        if not line.step:
            found.append(_job(cluster, line))
        elif found:
            found[-1]["steps"].append(_step(line))
    content = {**head("openapi/dbv0.0.38", "Slurm OpenAPI DB v0.0.38"), "jobs": found}
    return msgspec.json.format(msgspec.json.encode(content), indent=2).decode()


def _job(cluster: str, line: SacctLine) -> dict[str, object]:
    job, ask = line.job, line.job.ask
    worst = max(job.steps.values(), key=lambda one: one.code, default=StepRecord())
    cancelled = job.state == "CANCELLED"
    return {
        "account": ask.account, "comment": {"administrator": None, "job": ask.comment or None, "system": None},
        "allocation_nodes": ask.node_count if job.start_s is not None else 0, "array": _array(job),
        "association": {"account": ask.account, "cluster": cluster, "partition": None, "user": ask.user},
        "cluster": cluster, "constraints": ask.features, "container": None,
        "derived_exit_code": _exit(worst.code, 0), "time": {
            **_times(line), "eligible": int(eligible_s(job) or 0), "submission": int(job.submit_s),
            "limit": ask.limit_min,
        },
        "exit_code": _exit(0, 0) if cancelled else _exit(job.exit_code, job.signal), "flags": [], "group": ask.group,
        "het": {"job_id": ask.het or 0, "job_offset": ask.het_offset if ask.het is not None else None},
        "job_id": job.number, "name": ask.name, "mcs": {"label": ""},
        "nodes": compress(job.nodes, ordered=True) or "None assigned", "partition": ask.partition,
        "priority": job.priority, "qos": ask.qos, "required": {"CPUs": ask.cpus, "memory": ask.memory_mib or 0},
        "kill_request_user": job.cancelled_by or None, "reservation": {"id": 0, "name": ask.reservation or 0},
        "state": {"current": job.state, "reason": job.reason if job.start_s is None else "None"}, "steps": [],
        "tres": {
            "allocated": _tres(job.cpus, job.total_mib, ask.node_count, ask.total_gpus, job.cpus)
            if job.start_s is not None else [],
            "requested": _tres(ask.cpus, ask.total_mib, ask.node_count, ask.total_gpus, ask.cpus),
        },
        "user": ask.user, "wckey": {"wckey": ask.wckey, "flags": []}, "working_directory": ask.workdir,
    }  # fmt: skip


def _array(job: JobInfo) -> dict[str, object]:
    ask = job.ask
    together = job.id.partition("_")[2].strip("[]") if job.others else None
    return {
        "job_id": ask.array or 0, "limits": {"max": {"running": {"tasks": ask.throttle}}}, "task": together,
        "task_id": None if together else ask.task,
    }  # fmt: skip


def _step(line: SacctLine) -> dict[str, object]:
    step, job = line.record, line.job
    mib = (job.ask.memory_mib or 0) * (step.cpus if job.ask.per_cpu else max(1, len(step.nodes)))
    nothing: Mapping[str, list[object]] = {name: [] for name in _LOWEST}
    listed = compress(step.nodes, ordered=True)
    return {
        "nodes": {"list": step.nodes, "count": len(step.nodes), "range": listed},
        "tres": {
            "requested": nothing, "consumed": nothing,
            "allocated": _tres(step.cpus, mib, max(1, len(step.nodes)), 0, 0),
        },
        "time": _times(line), "exit_code": _exit(step.code, step.signal), "tasks": {"count": step.tasks}, "pid": None,
        "CPU": {"requested_frequency": {"min": 0, "max": 0}, "governor": []},
        "kill_request_user": step.cancelled or None, "state": step.state,
        "statistics": {"CPU": {"actual_frequency": 0}, "energy": {"consumed": 0}},
        "step": {
            "job_id": job.number, "het": {"component": None},
            "id": int(line.step) if line.step.isdecimal() else line.step, "name": step.name,
        },
        "task": {"distribution": step.layout},
    }  # fmt: skip


def _times(line: SacctLine) -> dict[str, object]:
    of = line.record if line.step else line.job
    used = _NO_TIME if not line.step or line.record.cpu_s is None else _parts(line.record.cpu_s)
    return {
        "elapsed": elapsed_s(line), "end": int(of.end_s or 0), "start": int(of.start_s or 0), "suspended": 0,
        "system": _NO_TIME, "total": used, "user": used,
    }  # fmt: skip


def _parts(seconds: float) -> dict[str, int]:
    return {"seconds": int(seconds), "microseconds": int(seconds % 1 * 1_000_000)}


def _exit(code: int, number: int) -> dict[str, object]:
    if number:
        named = {"signal_id": number, "name": signal.strsignal(number)}
        return {"status": "SIGNALED", "return_code": None, "signal": named}
    return {"status": "ERROR" if code else "SUCCESS", "return_code": code}


def _tres(cpus: int, mib: int, nodes: int, gpus: int, billing: int) -> list[dict[str, Any]]:
    counts = {"cpu": cpus, "mem": mib, "node": nodes, "billing": billing}
    found = [
        {"type": name, "name": None, "id": _TYPES[name], "count": count} for name, count in counts.items() if count
    ]
    return [*found, {"type": "gres", "name": "gpu", "id": _GPU, "count": gpus}] if gpus else found
