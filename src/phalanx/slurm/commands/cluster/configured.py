"""Print what scontrol shows of the site itself: its configuration, its licences, and parts of Slurm that Phalanx does
not have."""

from __future__ import annotations

import time

from phalanx.slurm.cluster import site
from phalanx.slurm.cluster.api import Api
from phalanx.slurm.cluster.site import Site
from phalanx.slurm.jobs.view import jobs
from phalanx.slurm.notation import times


def show_config() -> int:
    """Print the settings of slurm.conf that have a meaning in Phalanx, in Slurm's form."""
    api = Api.open()
    here = site.load(api)
    print(f"Configuration data as of {times.moment(time.time())}")
    for name, text in settings(here):
        print(f"{name:<23} = {text}")
    api.get("/version")
    print("\nSlurmctld(primary) at the API server is UP")
    return 0


def settings(here: Site) -> list[tuple[str, str]]:
    weights = here.weights
    tres = ",".join(f"{name}={weight:g}" for name, weight in weights.tres.items())
    found = {
        "AccountingStorageEnforce": "associations,limits,qos",
        "AccountingStorageTRES": "cpu,mem,energy,node,billing,fs/disk,vmem,pages,gres/gpu",
        "ClusterName": here.cluster, "Epilog": here.epilog, "FirstJobId": str(here.first_job), "GresTypes": "gpu",
        "JobRequeue": "1", "KillWait": f"{here.kill_wait_s} sec",
        "Licenses": ",".join(f"{name}:{count}" for name, count in sorted(here.licenses.items())),
        "MailProg": here.mail_program, "MaxArraySize": str(here.max_array), "MinJobAge": f"{here.keep_s} sec",
        "PriorityFavorSmall": "Yes" if weights.favor_small else "No",
        "PriorityFlags": "SMALL_RELATIVE_TO_TIME" if weights.relative_to_time else "",
        "PriorityMaxAge": times.long_elapsed(weights.max_age_s),
        "PriorityType": "priority/multifactor" if weights.any else "priority/basic",
        "PriorityWeightAge": str(weights.age), "PriorityWeightAssoc": str(weights.assoc),
        "PriorityWeightFairShare": str(weights.fair_share), "PriorityWeightJobSize": str(weights.job_size),
        "PriorityWeightPartition": str(weights.partition), "PriorityWeightQOS": str(weights.qos),
        "PriorityWeightTRES": tres, "Prolog": here.prolog, "SchedulerType": "phalanx",
        "SLURM_VERSION": "22.05.8",
    }  # fmt: skip
    return [(name, text or "(null)") for name, text in sorted(found.items(), key=lambda one: one[0].lower())]


def show_licenses() -> int:
    api = Api.open()
    here = site.load(api)
    if not here.licenses:
        print("No licenses configured in Slurm.")
        return 0
    used: dict[str, int] = {}
    for job in jobs(api, places=False):
        if job.state in ("RUNNING", "SUSPENDED") and job.ask.licenses:
            used[job.ask.licenses] = used.get(job.ask.licenses, 0) + 1
    for name, total in sorted(here.licenses.items()):
        taken = used.get(name, 0)
        print(f"LicenseName={name}\n    Total={total} Used={taken} Free={max(0, total - taken)} Reserved=0 Remote=no")
    return 0
