"""Expressions over objects: JSONPath, regular expressions and CEL.

jsonpath           paths of printed columns and of the scale subresource
pattern            regular expressions
functions          functions for addresses, networks and URLs; the names of all functions
metering           the limits of an expression's cost, and the names that it may use
type_check         the type errors of an expression, before it is evaluated
cel                CEL: compiled once; objects are converted only as far as an expression reads them
authorizer         what expressions may ask of the user's rights
admission_policy   ValidatingAdmissionPolicy and MutatingAdmissionPolicy, as far as they are pure
policy_types       the types of what their expressions speak of
"""
