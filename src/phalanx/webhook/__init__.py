"""The fallback of the admission policies: a webhook that does what they would, its certificates, and its port."""
