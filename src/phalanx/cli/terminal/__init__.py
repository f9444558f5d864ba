"""What commands and people exchange: `moments` (of the past), `output` (tables and JSON), `stopping` (Ctrl-C and
SIGTERM)."""
