"""Expressions over objects.

jsonpath           paths of printed columns and of the scale subresource
pattern            regular expressions
metering           what an expression may cost, and the names that it may use
type_check         what can be said of an expression before it is evaluated
cel                CEL: compiled once, looked at lazily
authorizer         what expressions may ask of the user's rights
admission_policy   ValidatingAdmissionPolicy and MutatingAdmissionPolicy, as far as they are pure
policy_types       the types of what their expressions speak of
"""
