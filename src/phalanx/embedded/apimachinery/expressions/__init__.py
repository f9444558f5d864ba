"""Expressions over objects: JSONPath, regular expressions and CEL.

jsonpath           JSONPath, for printed columns and the scale subresource
pattern            regular expressions
functions          functions for addresses, networks and URLs; the names of all functions
metering           the limits of an expression's cost, and the names that it may use
type_check         the type errors of an expression, before it is evaluated
cel                CEL: compiles and evaluates expressions
authorizer         the variable by which expressions check the user's rights
admission_policy   ValidatingAdmissionPolicy and MutatingAdmissionPolicy: applies them to a request
policy_types       the types of the variables in the expressions of these policies
"""
