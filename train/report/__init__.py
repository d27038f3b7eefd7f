"""The report on trained runs: a page, its numbers as CSV and JSON, its figures, terminal tables.

    load.py      run folders and data -> the table of all rows
    table.py     arms, means over seeds with their intervals, comparisons seed by seed (pandas)
    sections/    each a filter of the rows, and figures of them; content.py what they consist of
    figures/     matplotlib; palette.py its colours, formats.py how numbers are written
    page.py      the files; page.html.j2 and page.css the page

It measures nothing: every number was made by a training, an evaluation or data preparation.
"""
