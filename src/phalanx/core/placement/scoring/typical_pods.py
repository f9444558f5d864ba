"""The pods that are expected: those of the policy, or else those of the known jobs."""

from __future__ import annotations

from collections import Counter

from phalanx.core.placement.draft import Expected
from phalanx.core.placement.scoring.score import BY_FRAGMENTATION
from phalanx.model.pod import Shape
from phalanx.model.policy import Policy
from phalanx.state.cluster import Cluster

GROWN = 1.25  # jobs are counted again when their number has changed by this factor


def expected_pods(cluster: Cluster, policy: Policy) -> Expected:
    """Return (shape, frequency) of the expected pods for strategies by fragmentation; an empty result for other
    strategies.

    Known jobs are counted again only when their number has changed by a quarter, because expectations need not follow
    every job."""
    if policy.typical or policy.score not in BY_FRAGMENTATION:
        return policy.typical
    jobs, scores = len(cluster.jobs), cluster.columns.scores
    then, known = scores.typical
    if known is None or not jobs / GROWN <= then <= jobs * GROWN:
        counts: Counter[Shape] = Counter()
        for record in cluster.jobs.values():
            for role in record.gang.roles:
                counts[role.shape] += role.count
        known = tuple((shape, float(count)) for shape, count in counts.most_common())
        scores.typical = (jobs, known)
    found: Expected = known
    return found
