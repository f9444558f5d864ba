"""Nodes: `node_health` (those that are silent are tainted), `taint_eviction` (pods that do not tolerate a taint go)."""
