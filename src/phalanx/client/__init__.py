"""A client of any Kubernetes API: connection, list and watch, quantities. It knows nothing of scheduling."""
