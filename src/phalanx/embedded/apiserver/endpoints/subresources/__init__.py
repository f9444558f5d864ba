"""What is beneath an object, or answered by another process: `pods` (binding and eviction), `scale`, `node_client` (how
nodes are asked), `logs`, `metrics`, `tunnel` (two connections joined), `streams` (exec, attach, port-forward), `proxy`,
`aggregated` (by the scheduler)."""
