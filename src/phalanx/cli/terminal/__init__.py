"""Input and output at the terminal: `moments` (points in the past that users write), `columns` (widths of a table's
columns), `output` (tables and JSON), `progress` (of a long command), `conversation` (connect the terminal with a
command in a pod; read single keys), `stopping` (Ctrl-C and SIGTERM)."""
