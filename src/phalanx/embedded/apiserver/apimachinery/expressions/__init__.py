"""Expressions over objects.

jsonpath           paths of printed columns and of the scale subresource
cel                CEL: compiled once, looked at lazily
admission_policy   ValidatingAdmissionPolicy and MutatingAdmissionPolicy, as far as they are pure
"""
