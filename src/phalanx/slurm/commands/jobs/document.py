"""Build the JSON document of `squeue --json`. Its fields have the names of Slurm's REST API of 22.05 (openapi/v0.0.38).

If Phalanx has no value for a field, the document has the value that Slurm shows for a job without this feature.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from phalanx.slurm.jobs import fields
from phalanx.slurm.jobs.ask import BATCH
from phalanx.slurm.jobs.names import file_name
from phalanx.slurm.jobs.view import JobInfo
from phalanx.slurm.notation import arrays
from phalanx.slurm.notation.hostlist import compress

_EMPTY_TEXTS = (
    "admin_comment", "batch_features", "burst_buffer_state", "federation_origin", "federation_siblings_active",
    "federation_siblings_viable", "mcs_label", "state_description", "system_comment",
)  # fmt: skip
_NOT_SET = (
    "core_spec", "thread_spec", "cores_per_socket", "cpu_frequency_minimum", "cpu_frequency_maximum",
    "cpu_frequency_governor", "tasks_per_core", "tasks_per_socket", "profile", "shared", "sockets_per_node",
    "threads_per_core",
)  # fmt: skip
_ZEROS = (
    "delay_boot", "tasks_per_board", "preempt_time", "pre_sus_time", "resize_time", "sockets_per_board", "suspend_time",
    "association_id",
)  # fmt: skip
_SHOWN = {
    "burst_buffer": "BurstBuffer", "cluster_features": "ClusterFeatures", "container": "Container",
    "cpus_per_tres": "CpusPerTres", "memory_per_tres": "MemPerTres", "tres_bind": "TresBind", "tres_freq": "TresFreq",
    "tres_per_job": "TresPerJob", "tres_per_socket": "TresPerSocket", "tres_per_task": "TresPerTask",
}  # fmt: skip


def document(cluster: str, found: Sequence[JobInfo]) -> str:
    """Return the document about these jobs. As in Slurm, all pending tasks of an array are one entry."""
    content = {**head("openapi/v0.0.38", "Slurm OpenAPI v0.0.38"), "jobs": [
        _job(cluster, job) for job in fields.shown_together(found)
    ]}  # fmt: skip
    return msgspec.json.format(msgspec.json.encode(content), indent=2).decode()


def head(kind: str, name: str) -> dict[str, Any]:
    """Return the fields of a document that come before its entries: the versions of the plugin and of Slurm, and an
    empty list of errors. `kind`, `name`: the type and the name of the plugin."""
    slurm = {"version": {"major": 22, "micro": 8, "minor": 5}, "release": "22.05.8"}
    return {"meta": {"plugin": {"type": kind, "name": name}, "Slurm": slurm}, "errors": []}


def _job(cluster: str, job: JobInfo) -> dict[str, object]:
    ask, started = job.ask, job.state != "PENDING" and job.start_s is not None
    together = (
        arrays.shown([ask.task, *job.others], ask.throttle).strip("[]") if ask.task is not None and job.others else ""
    )
    return {
        **dict.fromkeys(_EMPTY_TEXTS, ""), **dict.fromkeys(_NOT_SET), **dict.fromkeys(_ZEROS, 0),
        **{name: ask.shown.get(shown, "") for name, shown in _SHOWN.items()},
        "account": ask.account, "accrue_time": _second(job.eligible_s),
        "array_job_id": ask.array or 0, "array_task_id": None if together else ask.task,
        "array_max_tasks": ask.throttle, "array_task_string": together,
        "batch_flag": ask.kind == BATCH, "batch_host": job.nodes[0] if started and job.nodes else "",
        "flags": [], "cluster": cluster, "command": ask.command, "comment": ask.comment or "",
        "contiguous": ask.contiguous,
        "billable_tres": float(job.cpus) if started else None,
        "cpus_per_task": ask.cpus_per_task if ask.cpus_per_task > 1 else None, "deadline": _second(ask.deadline_s),
        "dependency": ask.dependency if job.state == "PENDING" else "",
        "derived_exit_code": max((step.code for step in job.steps.values()), default=0) << 8,
        "eligible_time": _second(job.eligible_s), "end_time": _second(fields.end_s(job)),
        "excluded_nodes": compress(ask.excluded), "exit_code": job.signal or job.exit_code << 8,
        "features": ask.features, "gres_detail": [f"gpu:{ask.gpus_per_node}" for _ in job.nodes if ask.gpus_per_node],
        "group_id": ask.gid, "group_name": ask.group, "job_id": job.own, "job_resources": _resources(job),
        "job_state": job.state, "last_sched_evaluation": _second(job.start_s or job.submit_s),
        "licenses": ask.licenses, "max_cpus": 0, "max_nodes": ask.max_nodes, "name": ask.name,
        "nodes": fields.nodelist(job), "nice": ask.nice or None, "tasks_per_node": ask.tasks_per_node,
        "cpus": job.cpus, "node_count": job.node_count,
        "tasks": job.tasks, "het_job_id": ask.het or 0, "het_job_id_set": fields.het_set(ask),
        "het_job_offset": ask.het_offset, "partition": fields.shown_partition(job), "prefer": ask.preferred,
        "memory_per_node": None if ask.per_cpu else ask.memory_mib,
        "memory_per_cpu": ask.memory_mib if ask.per_cpu else None,
        "minimum_cpus_per_node": max(ask.min_cpus, ask.cpus_per_task * max(1, ask.tasks_per_node)),
        "minimum_tmp_disk_per_node": ask.tmp_mib, "priority": job.priority, "qos": ask.qos, "reboot": False,
        "required_nodes": compress(ask.wanted), "requeue": ask.requeue, "restart_cnt": job.restarts,
        "resv_name": ask.reservation, "show_flags": ["SHOW_ALL", "SHOW_DETAIL", "SHOW_LOCAL"],
        "start_time": _second(fields.start_s(job)), "state_reason": job.reason,
        "standard_error": file_name(ask.stderr, ask, job.own) if ask.stderr else "", "standard_input": ask.stdin,
        "standard_output": file_name(ask.stdout, ask, job.own), "submit_time": _second(job.submit_s),
        "time_limit": ask.limit_min, "time_minimum": ask.least_min or 0, "tres_per_node": ask.tres_per_node,
        "tres_req_str": fields.tres(job, asked=True), "tres_alloc_str": fields.tres(job) if started else "",
        "user_id": ask.uid, "user_name": ask.user, "wckey": ask.wckey, "current_working_directory": ask.workdir,
    }  # fmt: skip


def _second(at_s: float | None) -> int:
    return int(at_s or 0)


def _resources(job: JobInfo) -> dict[str, object]:
    """Return the field `job_resources`: the CPUs and the memory that a started job has on each node. The numbers of the
    cores are not known."""
    if not job.nodes or job.state == "PENDING":
        return {}
    ask, cpus = job.ask, job.ask.cpus_of_nodes
    nodes = [
        {
            "nodename": node, "cpus_used": 0, "memory_used": 0,
            "memory_allocated": (ask.memory_mib or 0) * (each if ask.per_cpu else 1),
        }
        for node, each in zip(job.nodes, cpus, strict=False)
    ]  # fmt: skip
    return {
        "nodes": compress(job.nodes, ordered=True), "allocated_cpus": job.cpus, "allocated_hosts": len(job.nodes),
        "allocated_nodes": nodes,
    }  # fmt: skip
