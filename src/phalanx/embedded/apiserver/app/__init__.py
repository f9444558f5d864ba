"""The application: it dispatches each request to its handler and returns the response.

request_terms  the rights, bodies, options and media types of a request
engine         the parts that handle stored objects of all kinds: reads, writes, deletions, reconcilers
connections    connections to pods, services and nodes; logs and metrics
reads          the verbs get, list and watch
writes         the verbs create, update and patch
deletes        the verbs delete and deletecollection
objects        calls the handler of each verb on objects
paths          handles paths that name no object
api            handles each request step by step
"""
