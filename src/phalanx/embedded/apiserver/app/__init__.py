"""The application: it dispatches each request to its handler and returns the response.

request_terms  what a request asks for, in the terms of its handlers
engine         what works on stored objects of all kinds: reads, writes, deletions, reconcilers
connections    connections to pods, services and nodes; logs, and measured usage
reads          the verbs get, list and watch
writes         the verbs create, update and patch
deletes        the verbs delete and deletecollection
objects        the verbs on objects
paths          paths that name no object
api            the steps in which a request is handled
"""
