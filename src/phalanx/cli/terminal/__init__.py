"""What commands and people exchange: `moments` (of the past), `columns` (of a table), `output` (tables and JSON),
`progress` (of a long command), `conversation` (with a command in a pod, and single keys of a terminal), `stopping`
(Ctrl-C and SIGTERM)."""
