"""The webhook that evaluates the admission policies for API servers without MutatingAdmissionPolicy.

review      evaluate the policies on an AdmissionReview, and compute the response
serving     serve the HTTPS port
trust       manage the certificates, and the configuration that API servers read
"""
