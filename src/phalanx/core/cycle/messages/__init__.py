"""The reasons why requests wait in one cycle.

Parts, lowest first:

    known   the reasons why requests cannot start: known ones, and computed ones
    report  which job reports which reason, within a budget"""
