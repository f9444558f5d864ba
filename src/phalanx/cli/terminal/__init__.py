"""What commands and people exchange: `output` (tables and JSON), `stopping` (Ctrl-C and SIGTERM)."""
