"""Reports of schedules.

chart    inline SVG
picture  the data of a schedule that a page shows
page     one self-contained HTML page; one style sheet, light and dark
"""
