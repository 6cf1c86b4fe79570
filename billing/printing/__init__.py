"""Receipts and statements as PDF.

Public modules: ``documents`` (what stands on each), ``pdf`` (the sheet).
Always holds: the figures are those of the page, the JSON and the CSV; a document says no time of its making, so the
same one has the same bytes.
"""
