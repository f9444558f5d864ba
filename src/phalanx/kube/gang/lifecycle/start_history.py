"""The failed starts of a gang: how many there were, and which nodes and clusters the gang avoids because of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from math import inf

from phalanx.kube.gang.spec.elsewhere import outside
from phalanx.kube.gang.spec.gang_spec import GangSpec
from phalanx.kube.read.pod import Pod
from phalanx.model.pod import NodePreference, Operator, Requirement


@dataclass(slots=True, kw_only=True)
class StartHistory:
    """Earlier starts that failed. `failures`: the number of failed starts in a row. `timeouts`: the number of starts in
    a row whose pods were bound, but did not become ready in time. `avoided`: the nodes on which pods did not become
    ready, or whose kubelets refused pods of this gang, each with the time until which other nodes are preferred
    (seconds since the epoch). `left_out`: the other clusters that could not run this gang, each with the time until
    which the gang is not sent to that cluster."""

    failures: int = 0
    timeouts: int = 0
    avoided: dict[str, float] = field(default_factory=dict)
    left_out: dict[str, float] = field(default_factory=dict)

    def forgive(self) -> None:
        """Reset the count of starts whose pods did not become ready, and no longer avoid any node. The caller calls
        this method when all pods of a later start are ready."""
        self.timeouts = 0
        self.avoided.clear()

    def avoid(self, node: str, until_s: float) -> None:
        """Prefer other nodes than `node` until `until_s` (seconds since the epoch)."""
        self.avoided[node] = max(until_s, self.avoided.get(node, 0.0))

    def time_out(self, late: Sequence[Pod], attempts: int) -> str:
        """Record that the pods `late` did not become ready in time, so that the next start avoids their nodes. Return
        why the gang is held; "" if it may start again. `attempts`: the number of starts with late pods after which the
        gang is held."""
        self.avoided |= {pod.node: inf for pod in late if pod.node}
        self.timeouts += 1
        self.failures = self.timeouts - 1
        if self.timeouts < attempts:
            return ""
        hold, self.timeouts = f"{self.timeouts} starts in a row failed", 0
        return hold

    def preference(self, now_s: float) -> NodePreference | None:
        """Return a preference against the avoided nodes; None if no node is avoided. An avoided node is still used if
        no other node fits."""
        nodes = tuple(node for node, until_s in self.avoided.items() if now_s < until_s)
        if not nodes:
            return None
        return NodePreference(100, (Requirement("metadata.name", Operator.NOT_IN, nodes, field=True),))

    def avoiding(self, spec: GangSpec, now_s: float) -> GangSpec:
        """Return the spec for the next start: it prefers other nodes to the avoided ones, and excludes the clusters
        that could not run the gang."""
        self.left_out = {cluster: until_s for cluster, until_s in self.left_out.items() if now_s < until_s}
        if self.left_out:
            job = replace(spec.job, roles=tuple(outside(role, tuple(self.left_out)) for role in spec.job.roles))
            spec = replace(spec, job=job)
        if (preference := self.preference(now_s)) is None:
            return spec
        shapes = (replace(r.shape, preferences=(*r.shape.preferences, preference)) for r in spec.job.roles)
        roles = tuple(replace(role, shape=shape) for role, shape in zip(spec.job.roles, shapes, strict=True))
        return replace(spec, job=replace(spec.job, roles=roles))
