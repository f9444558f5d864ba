"""Subresources: `pods` (binding and eviction), `logs`, `scale`."""
