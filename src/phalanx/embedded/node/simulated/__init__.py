"""Simulate nodes, which exist only in the API. `stages` decides how a pod ends and when all pods of a job are ready.
`nodes` runs the simulated nodes."""
