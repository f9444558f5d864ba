"""Six applications that deadlock each other pod by pod and all finish as gangs: its programs, and what it shows.

Knows the API and nothing of Phalanx's insides: what is shown here any user can do.
"""
