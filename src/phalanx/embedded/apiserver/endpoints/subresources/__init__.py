"""What is beneath an object, or answered by another process: `pods` (binding and eviction), `scale`, `node_client` (how
nodes are asked), `logs`, `metrics`, `streams` (exec, attach, port-forward: two connections joined), `proxy`,
`aggregated` (by the scheduler)."""
