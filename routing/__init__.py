"""Routing: the quote path, and the engine that carries an accepted batch to one results file and one settlement.

Public modules: ``domain`` (pure), ``providers`` (the port and its adapters), ``services``, ``selectors``, ``api``.
Always holds: rows in = rows over sub-lanes = rows out; the row of a table is the queue, a message is only a hint;
every step is claimed with a fenced lease, does its network work outside transactions, and moves on in one.
"""
