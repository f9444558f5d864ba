"""WFP3 (Tang et al., IPDPS 2009): a job gains priority with the cube of its wait over its time limit, times its size.

phalanx simulate LOG --policy easy wfp3.py
"""

from phalanx import WaitingJob

policy = {"backfill": "easy"}


def priority(job: WaitingJob) -> float:
    limit_s = job.limit_s or 7 * 86400.0
    return (job.waited_s / limit_s) ** 3 * job.requests.get("cpu", 1.0)
