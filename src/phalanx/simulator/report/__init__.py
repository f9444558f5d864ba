"""Reports of schedules.

chart    inline SVG
style    one style sheet, light and dark
picture  a schedule, reduced to the data that a page draws
page     one self-contained HTML page
"""
