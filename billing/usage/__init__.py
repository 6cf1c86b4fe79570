"""Usage: what was charged, by quarter of an hour, key, model, lane and batch.

Public modules: ``facts`` (what writes), ``reading`` (what reads), ``api`` (``/v1/usage``).
Always holds: a receipt is counted in the transaction that makes it, so the sum of any days is their range, and the
ledger's; the roll-up is the sum of its facts.
"""
