"""State as people see it: `expected_start`, `node_view`, `queue_view`, `job_view`. Pure: a snapshot in,
rows or text out."""
