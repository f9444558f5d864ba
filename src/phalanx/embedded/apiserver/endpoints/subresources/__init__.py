"""Subresources of objects, and paths to which other processes respond: `pods` (binding and eviction), `scale`,
`node_client` (requests to nodes), `logs`, `metrics`, `streams` (exec, attach, port-forward), `proxy`, and `aggregated`
(paths that the scheduler serves)."""
