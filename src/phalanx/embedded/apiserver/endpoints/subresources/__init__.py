"""Subresources: `pods` (binding and eviction), `logs`, `streams` (exec, attach, port-forward), `scale`."""
