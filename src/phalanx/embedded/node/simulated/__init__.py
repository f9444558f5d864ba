"""Nodes that exist in the API alone: `stages` (how a pod ends, and when all pods of a Job are ready),
`nodes`."""
