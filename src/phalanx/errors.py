"""The one base of every error that a user can cause.

An error says four things: what is wrong, where, so what, now what. The command line catches `PhalanxError` once,
prints its text and exits with 1; anything else that escapes is a defect of ours and shows its traceback.
"""


class PhalanxError(Exception):
    """Something that the user can mend; its text says how."""
