"""Kinds about nodes: `scheduling` (taints, tolerations, affinities, PriorityClass and RuntimeClass) and `node` (Node,
Namespace and Lease)."""
