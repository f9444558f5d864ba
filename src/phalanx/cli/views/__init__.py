"""State as people see it: a snapshot or an entry of the ledger in, rows or text out. The parts are `expected_start`,
`node_view`, `queue_view`, `told_numbers`, `job_view`, `job_row`, `top_view` (the screen of `phalanx top`),
`entry_view`, and `page` (what a browser shows)."""
