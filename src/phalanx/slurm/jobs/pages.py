"""Build the output of `scontrol show` for jobs, steps, nodes and partitions: pages with lines of NAME=VALUE words."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence

import msgspec

from phalanx.slurm.cluster.site import Partition
from phalanx.slurm.jobs import fields
from phalanx.slurm.jobs.ask import BATCH, Ask
from phalanx.slurm.jobs.fields import end_s, het_set, nodelist, oversubscribes, shown_partition, start_s, tres
from phalanx.slurm.jobs.names import file_name
from phalanx.slurm.jobs.nodes import NodeInfo, Used
from phalanx.slurm.jobs.steps.records import StepRecord
from phalanx.slurm.jobs.view import JobInfo
from phalanx.slurm.notation import amounts, times
from phalanx.slurm.notation.hostlist import compress

Page = Sequence[Sequence[str]]


def job(found: JobInfo, *, details: bool = False) -> Page:
    ask, null = found.ask, "(null)"

    def extra(name: str) -> str:
        return ask.shown.get(name, "*")

    pending = found.state == "PENDING"
    dependency = ask.dependency if pending else ""
    ends = times.moment(end_s(found), "Unknown")
    starts = start_s(found) if found.live or found.start_s is not None else found.end_s
    is_due = found.eligible_s is not None and (found.state != "PENDING" or found.reason != "BeginTime")
    tasks = found.tasks if found.live or found.start_s is not None else "N/A"
    throttle = f" ArrayTaskThrottle={ask.throttle}" if ask.throttle else ""
    task = f" ArrayJobId={found.base} ArrayTaskId={_tasks(found)}{throttle}" if ask.task is not None else ""
    number = f"JobId={found.own}{task}"
    if ask.het is not None:
        number = f"JobId={found.number} HetJobId={ask.het} HetJobOffset={ask.het_offset}"
    ranged = f"{ask.nodes}-{ask.max_nodes}" if ask.said_nodes else str(ask.shown_nodes)
    count = ranged if pending else str(ask.node_count)
    return [
        [number, f"JobName={ask.name}"],
        *([[f"HetJobIdSet={het_set(ask)}"]] if ask.het is not None else []),
        [f"UserId={ask.user}({ask.uid}) GroupId={ask.group}({ask.gid}) MCS_label=N/A"],
        [f"Priority={found.priority} Nice={ask.nice} Account={ask.account} QOS={ask.qos}"],
        [f"JobState={found.state} Reason={found.reason.replace(' ', '_')} Dependency={dependency or null}"],
        [
            f"Requeue={int(ask.requeue)} Restarts={found.restarts} BatchFlag={int(ask.kind == BATCH)} Reboot=0",
            f"ExitCode={found.status}",
        ],
        *([[f"DerivedExitCode={_derived(found)}"]] if details else []),
        [
            f"RunTime={times.long_elapsed(found.elapsed_s)} TimeLimit={times.limit(ask.limit_min, long=True)}",
            f"TimeMin={'N/A' if ask.least_min is None else times.limit(ask.least_min, long=True)}",
        ],
        [f"SubmitTime={times.moment(found.submit_s)} EligibleTime={times.moment(found.eligible_s, 'Unknown')}"],
        [f"AccrueTime={times.moment(found.eligible_s if is_due else None, 'Unknown')}"],
        [
            f"StartTime={times.moment(starts, 'Unknown')} EndTime={ends}",
            f"Deadline={times.moment(ask.deadline_s)}",
        ],
        [
            f"SuspendTime=None SecsPreSuspend=0 LastSchedEval={times.moment(found.start_s or found.submit_s)}",
            "Scheduler=Main",
        ],
        [f"Partition={shown_partition(found)} AllocNode:Sid={ask.host}:{ask.pid}"],
        [f"ReqNodeList={compress(ask.wanted) or null} ExcNodeList={compress(ask.excluded) or null}"],
        [f"NodeList={nodelist(found)}"],
        *([[f"BatchHost={found.nodes[0]}"]] if found.nodes else []),
        [
            f"NumNodes={count} NumCPUs={found.cpus} NumTasks={tasks}",
            f"CPUs/Task={ask.cpus_per_task} ReqB:S:C:T=0:0:{extra('cores')}:{extra('threads')}",
        ],
        [f"TRES={tres(found)}"],
        [
            f"Socks/Node={extra('sockets')}",
            f"NtasksPerN:B:S:C={ask.tasks_per_node}:0:{extra('per_socket')}:{extra('per_core')} CoreSpec=*",
        ],
        *(_details(found) if details else []),
        *_wishes(found),
    ]


def _derived(found: JobInfo) -> str:
    """Return the exit code and signal of the step with the highest exit code: `code:signal`."""
    worst = max(found.steps.values(), key=lambda one: (one.code, one.signal), default=None)
    return worst.status if worst is not None else "0:0"


def _tasks(found: JobInfo) -> str:
    """Return the array tasks that the page describes: `3`, or `4-6%2` for several pending tasks on one page."""
    return found.id.partition("_")[2].strip("[]") if found.others else str(found.ask.task)


def _wishes(found: JobInfo) -> Page:
    """Return the second half of a job's page: other requests of the job, and its files."""
    ask, null, extra = found.ask, "(null)", found.ask.shown
    # A page for several tasks has no single file name.
    of = msgspec.structs.replace(ask, task=None) if found.others else ask
    memory = extra.get("memory") or (fields.memory(found) if ask.memory_mib else "0")
    per_cpu = ask.per_cpu or (found.state == "PENDING" and "waiting_memory" in extra)
    own = [[f"{name}={extra[name]}"] for name in ("ClusterFeatures",) if name in extra]
    return [
        [
            f"MinCPUsNode={max(1, ask.cpus_per_task * max(1, ask.tasks_per_node))}",
            f"MinMemory{'CPU' if per_cpu else 'Node'}={memory}",
            f"MinTmpDiskNode={amounts.memory(ask.tmp_mib) if ask.tmp_mib else 0}",
        ],
        [f"Features={ask.features.replace(',', '&') or null} DelayBoot={extra.get('DelayBoot', '00:00:00')}"],
        *own,
        *([[f"Prefer={ask.preferred}"]] if ask.preferred else []),
        [
            f"OverSubscribe={oversubscribes(ask)} Contiguous={int(ask.contiguous)} Licenses={ask.licenses or null}",
            f"Network={extra.get('Network', null)}",
        ],
        [f"Command={ask.command or null}"],
        [f"WorkDir={ask.workdir}"],
        *([[f"Comment={ask.comment}"]] if ask.comment is not None else []),
        [f"StdErr={file_name(ask.stderr or ask.stdout, of, found.own)}"],
        [f"StdIn={os.path.join(ask.workdir, ask.stdin)}"],
        [f"StdOut={file_name(ask.stdout, of, found.own)}"],
        *[[f"{name}={extra[name]}"] for name in ("Switches", "BurstBuffer") if name in extra],
        *([[extra["frequency"]]] if "frequency" in extra else []),
        [f"Power={extra.get('Power', '')}"],
        *([[extra["flags"]]] if "flags" in extra else []),
        *([[f"{name}={text}"] for name, text in _tres(ask)]),
        *([[f"MailUser={ask.mail_user} MailType={ask.mail}"]] if ask.mail else []),
        ["", ""],
    ]


def _tres(ask: Ask) -> Iterator[tuple[str, str]]:
    """Yield the name and value of each GPU option of the job, in the order in which Slurm prints them."""
    of = {**ask.shown, "TresPerNode": ask.tres_per_node}
    for name in ("CpusPerTres", "MemPerTres", "TresBind", "TresFreq", "TresPerJob", "TresPerNode", "TresPerSocket",
                 "TresPerTask", "NtasksPerTRES"):  # fmt: skip
        if text := of.get(name):
            yield name, text


def _details(found: JobInfo) -> Page:
    """Return the lines with the job's resources on each node. The real ids of the CPUs are not known, so the page
    numbers the CPUs from 0."""
    ask = found.ask
    lines = [["JOB_GRES=(null)" if not ask.gpus_per_node else f"JOB_GRES=gpu:{ask.total_gpus}"]]
    for node, cpus in zip(sorted(found.nodes) if found.live else (), ask.cpus_of_nodes, strict=False):
        mib = (ask.memory_mib or 0) * (cpus if ask.per_cpu else 1)
        gres = f"gpu:{ask.gpus_per_node}" if ask.gpus_per_node else ""
        ids = f"0-{cpus - 1}" if cpus > 1 else "0"
        lines.append([f"  Nodes={node} CPU_IDs={ids} Mem={mib} GRES={gres}"])
    return lines


def steps(found: JobInfo) -> list[str]:
    """Return the names of the job's running steps: `batch` for the script, and the numbers of the others."""
    own = ["batch"] if found.ask.kind == BATCH and not found.ask.het_offset else []
    return [*own, *(str(number) for number, step in found.steps.items() if step.end_s is None)]


def step(found: JobInfo, name: str) -> Page:
    ask, batch = found.ask, name == "batch"
    record = StepRecord(name="batch", nodes=list(found.nodes[:1]), start_s=found.start_s or 0.0)
    record = record if batch else found.steps[int(name)]
    mib = (ask.memory_mib or 0) * (record.cpus if ask.per_cpu else len(record.nodes))
    amount = f",mem={amounts.memory(mib)}" if mib else ""
    gpus = f",gres/gpu={ask.gpus_per_node * len(record.nodes)}" if ask.gpus_per_node else ""
    held = "(null)" if batch else f"cpu={record.cpus}{gpus}{amount},node={len(record.nodes)}"
    listed = compress(record.nodes, ordered=True)
    return [
        [f"StepId={found.id}.{name} UserId={ask.uid} StartTime={times.moment(record.start_s)} TimeLimit=UNLIMITED"],
        [f"State=RUNNING Partition={ask.partition} NodeList={listed}"],
        [f"Nodes={len(record.nodes)} CPUs={0 if batch else record.cpus} Tasks={record.tasks} Name={record.name}",
         "Network=(null)"],
        [f"TRES={held}"],
        ["ResvPorts=(null)"],
        ["CPUFreqReq=Default", *([] if batch else [f"Dist={record.layout}"])],
        [f"SrunHost:Pid={'(null)' if batch else ask.host}:{record.pid}"],
        *([[f"TresPerNode={ask.tres_per_node}"]] if ask.tres_per_node and not batch else []),
    ]  # fmt: skip


def node(
    found: NodeInfo,
    state: str,
    held: Used,
    partitions: Sequence[str],
    counted: str = "gres/gpu",
    details: bool = False,
) -> Page:
    """Return the page of a node. `held`: the amounts that pods request on the node. `counted`: the name of the TRES
    under which the site accounts GPUs; empty if the site does not account them. `details`: True if --details was given
    and the site has GPUs.

    Values that Kubernetes does not report are shown as N/A or None.
    """
    features = ",".join(found.features) or "(null)"
    reason = [[f"Reason={found.reason} [{found.reason_by}@{found.reason_s}]"]] if found.reason else []
    cpus, states = found.cpus, "+".join([_STATES[state], *_power(found)])
    sockets, cores, threads = (found.shape or f"1:{cpus}:1").split(":")
    gpus = f",{counted}={found.gpus}" if found.gpus and counted else ""
    allocated = [
        *([f"cpu={held.cpus}"] if held.cpus else []),
        *([f"mem={amounts.memory(held.memory_mib)}"] if held.memory_mib and held.cpus else []),
        *([f"{counted}={held.gpus}"] if held.gpus and counted else []),
    ]
    return [
        [f"NodeName={found.name} Arch=x86_64 CoresPerSocket={cores} "],
        [f"CPUAlloc={held.cpus} CPUEfctv={cpus} CPUTot={cpus} CPULoad=N/A"],
        [f"AvailableFeatures={features}"],
        [f"ActiveFeatures={features}"],
        [f"Gres={f'gpu:{found.gpus}' if found.gpus else '(null)'}"],
        *([["GresDrain=N/A"], [f"GresUsed=gpu:{held.gpus}"]] if details else []),
        [f"NodeAddr={found.address or found.name} NodeHostName={found.name} Port=6818 Version=22.05.8"],
        [f"OS=Linux {found.kernel} "],
        [f"RealMemory={found.memory_mib} AllocMem={held.memory_mib} FreeMem=N/A Sockets={sockets} Boards=1"],
        [f"State={states} ThreadsPerCore={threads} TmpDisk=0 Weight=1 Owner=N/A MCS_label=N/A"],
        [f"Partitions={','.join(partitions)} "],
        [f"BootTime=None SlurmdStartTime={times.moment(found.made_s or None, 'None')}"],
        ["LastBusyTime=None"],
        [f"CfgTRES=cpu={cpus},mem={amounts.memory(found.memory_mib)},billing={cpus}{gpus}"],
        [f"AllocTRES={','.join(allocated)}"],
        ["CapWatts=n/a"],
        ["CurrentWatts=0 AveWatts=0"],
        ["ExtSensorsJoules=n/s ExtSensorsWatts=0 ExtSensorsTemp=n/s"],
        *reason,
    ]


def _power(found: NodeInfo) -> list[str]:
    states = {"~": ["POWERED_DOWN"], "#": ["POWERING_UP"], "%": ["POWERING_DOWN"]}
    return ["CLOUD", *states.get(found.power, [])] if found.cloud else []


_STATES = {
    "idle": "IDLE", "allocated": "ALLOCATED", "mixed": "MIXED", "down": "DOWN", "drained": "IDLE+DRAIN",
    "draining": "MIXED+DRAIN",
}  # fmt: skip


def partition(found: Partition, nodes: Sequence[NodeInfo], counted: str = "gres/gpu") -> Page:
    cpus, memory = sum(node.cpus for node in nodes), sum(node.memory_mib for node in nodes)
    gpus = sum(node.gpus for node in nodes)
    gres = f",{counted}={gpus}" if gpus and counted else ""
    default = times.limit(found.default_min, long=True, none="NONE")
    per_cpu = (
        [f"DefMemPerCPU={found.mem_per_cpu_mib}"] if found.mem_per_cpu_mib is not None else ["DefMemPerNode=UNLIMITED"]
    )
    return [
        [f"PartitionName={found.name}"],
        [f"AllowGroups=ALL AllowAccounts={','.join(found.accounts) or 'ALL'} AllowQos=ALL"],
        [f"AllocNodes=ALL Default={'YES' if found.default else 'NO'} QoS=N/A"],
        [f"DefaultTime={default} DisableRootJobs=NO ExclusiveUser=NO GraceTime=0 Hidden=NO"],
        [
            f"MaxNodes={found.max_nodes or 'UNLIMITED'} MaxTime={times.limit(found.max_min, long=True)}",
            "MinNodes=0 LLN=NO MaxCPUsPerNode=UNLIMITED",
        ],
        [f"Nodes={compress((node.name for node in nodes), ordered=True)}"],
        [f"PriorityJobFactor={found.priority} PriorityTier=1 RootOnly=NO ReqResv=NO OverSubscribe=NO"],
        ["OverTimeLimit=NONE PreemptMode=OFF"],
        [f"State={found.state} TotalCPUs={cpus} TotalNodes={len(nodes)} SelectTypeParameters=NONE"],
        ["JobDefaults=(null)"],
        [*per_cpu, "MaxMemPerNode=UNLIMITED"],
        [f"TRES=cpu={cpus},mem={amounts.memory(memory)},node={len(nodes)},billing={cpus}{gres}"],
    ]
