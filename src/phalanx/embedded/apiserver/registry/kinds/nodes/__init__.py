"""Nodes: `scheduling` (taints, tolerations, affinity), `priority` (PriorityClass, RuntimeClass), `node`, `lease`."""
