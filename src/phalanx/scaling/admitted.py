"""The waiting jobs that their quotas admit together. Only for these may an autoscaler add nodes.

Each of two jobs may be within a quota that is too small for both. If the pods of both were reported as unschedulable,
an autoscaler would add nodes that one of the jobs cannot use. `kube.write.events` asks this module before it reports
pods.
"""

from __future__ import annotations

from collections.abc import Collection
from itertools import islice

from phalanx.model.policy import Policy
from phalanx.scaling.waiting import JOBS, Waiting
from phalanx.state.cluster import Cluster
from phalanx.state.pending.request_class import Candidate, Request, RequestClass


def admitted_together(cluster: Cluster, policy: Policy, now_s: float, jobs: Collection[str]) -> frozenset[str]:
    """Return the jobs, among the waiting `jobs`, that their quotas admit together, in the order in which nodes would be
    requested for them: of a strict queue only the first of a class. A job that delays its request (`Job.nodes_after_s`)
    is left out until then. `now_s`: seconds since the epoch."""
    waiting, found = Waiting(cluster, policy, now_s, classes_of(cluster, jobs)), set[str]()
    for request_class in sorted(waiting.request_classes, key=waiting.rank):
        asking = (entry for entry in request_class if entry.request.job in jobs)
        for entry in islice(asking, 1 if request_class.strict else JOBS):
            delay_s = cluster.jobs[entry.request.job].job.nodes_after_s
            if delay_s and now_s < entry.arrival_s + delay_s:
                continue
            offers = waiting.state.offers(Candidate(request_class, entry))
            offer = next((offer for offer in offers if offer.short is None), None)
            if offer is None:
                break
            waiting.state.ledger.grant(offer.charge)
            found.add(entry.request.job)
    return frozenset(found)


def classes_of(cluster: Cluster, jobs: Collection[str]) -> list[RequestClass]:
    """Return the request classes with requests of these jobs: of queued jobs, and of open slots of started jobs."""
    requests = (
        request
        for name in jobs
        if (record := cluster.jobs.get(name)) is not None
        for request in (Request(name), *(Request(name, slot) for slot in record.open))
    )
    found = (cluster.pending.request_class_of.get(request) for request in requests)
    return list(dict.fromkeys(each for each in found if each is not None))
