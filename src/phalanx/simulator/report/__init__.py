"""Reports of schedules.

chart    inline SVG
picture  a schedule, reduced to the data that a page draws
page     one self-contained HTML page; one style sheet, light and dark
"""
