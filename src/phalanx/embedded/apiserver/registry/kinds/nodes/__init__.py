"""Nodes: `scheduling` (taints, tolerations, affinity; PriorityClass, RuntimeClass), `node` (with Lease)."""
