"""Reports of schedules.

chart    inline SVG
style    one style sheet, light and dark
picture  a schedule, reduced to what a page draws
page     one self-contained HTML page
"""
