"""The report on trained runs: a page, its numbers as CSV and JSON, its figures, terminal tables.

load.py      run folders and data -> the table of all rows; labels.py: what runs are called
table.py     arms, means over seeds with their intervals, comparisons per seed (pandas)
sections/    each selects rows and draws figures of them, from the parts in content.py; curves.py
             is what most of them draw
figures/     matplotlib; colours in palette.py, number formats in formats.py
page.py      the files; page.html.j2 and page.css are the page
"""
