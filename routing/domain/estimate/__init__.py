"""Estimating tokens without a tokenizer.

Public modules: ``tables`` (vocabularies and their packaged weights), ``weights`` (sum of weights per row),
``spelling`` (JSON escapes as they are weighed), ``images`` (size formulas), ``tools`` (counting rules), ``tokens``
(input, output and ceiling of a group's rows).
Always holds: a row's estimate depends on that row alone, never on its neighbours; everything is an integer.
"""
