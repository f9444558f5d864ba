"""Deletion of objects, and of the objects that depend on them.

ownership           decide about an object whose owners are deleted
garbage             the garbage collector
namespace           the content of terminating namespaces
ttl                 finished Jobs
pod_gc              too many finished pods, and pods of deleted nodes
accounts            the default objects of each namespace
"""
