"""Input and output at the terminal: `moments` (read times in the past), `columns` (fit the columns of a table),
`output` (print tables and JSON), `progress` (show a progress bar), `conversation` (connect the terminal with a command
in a pod; read single keys), `stopping` (handle Ctrl-C and SIGTERM)."""
