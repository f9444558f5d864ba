"""Nodes that exist in the API alone: `gangs` (when all pods of a Job are ready), `nodes`."""
