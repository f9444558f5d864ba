"""State as people see it: `expected_start`, `node_view`, `queue_view`, `told_numbers`, `job_view`, `job_row`,
`entry_view`: a
snapshot or an entry of the ledger in, rows or text out; and `page`, what a browser is shown."""
