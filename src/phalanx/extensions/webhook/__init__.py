"""The webhook that evaluates the admission policies for API servers that do not serve them: certificates and port.

review      one AdmissionReview and its answer; the JSON patch between two objects
serving     the HTTPS port and its responses
trust       the certificates, and the configuration that API servers read
"""
