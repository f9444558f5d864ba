"""Parse Phalanx's own settings. The functions get the content of a file or object as mappings, and return values of the
package `model`. Each error names the path of the wrong field.

Parts, lowest first:

    fields       reads the fields of a mapping by name and type; unknown fields are errors
    depth        rejects YAML that is too deep or too large for its loader
    queue        a queue
    policy       the settings of a whole cluster; a flavor; a reservation
    recording    events and decisions as plain values, and back
"""
