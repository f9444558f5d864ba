"""What commands and people exchange: `moments` (of the past), `columns` (of a table), `output` (tables and JSON),
`progress` (of a long command), `keys` (single keys of a terminal), `conversation` (with a command in a pod), `stopping`
(Ctrl-C and SIGTERM)."""
