"""What commands and people exchange: `moments` (of the past), `columns` (of a table), `output` (tables and JSON),
`stopping` (Ctrl-C and SIGTERM)."""
