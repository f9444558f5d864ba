"""What commands and people exchange: `moments` (of the past), `columns` (of a table), `output` (tables and JSON),
`keys` (single keys of a terminal), `conversation` (with a command in a pod), `stopping` (Ctrl-C and SIGTERM)."""
