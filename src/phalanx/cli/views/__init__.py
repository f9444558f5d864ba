"""State as people see it: `node_view`, `queue_view`, `job_view`. Pure: a snapshot in, rows or text out."""
