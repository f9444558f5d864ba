"""Deletion of objects, and of the objects that depend on them.

ownership           decide about an object whose owners are deleted
garbage             the garbage collector
pod_gc              too many finished pods, and pods of deleted nodes; finished Jobs
namespace           the content of terminating namespaces; the default objects of each namespace
"""
