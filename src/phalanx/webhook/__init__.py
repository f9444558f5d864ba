"""The webhook that evaluates the admission policies for API servers that do not serve them: certificates and port."""
