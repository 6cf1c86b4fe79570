"""Reconciliation: provider invoices against our own attempts, and a name for every difference.

``domain`` reads provider reports to one normal form and names differences (pure); ``services`` import, match, decide
and close; ``selectors`` read.
Always holds: every line of a file is stored, as read or as bad with its reason; the breaks of an invoice and what still
waits for the provider add up to invoiced less ours, to the pico-USD; a closed period changes no more (triggers).
"""
