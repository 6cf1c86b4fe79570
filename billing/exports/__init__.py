"""Exports: what is on screen, and the books, as files that tie to the ledger.

Public modules: ``scope`` (what is asked for), ``writing`` (the file), ``reading`` (the list of exports); ``focus`` and
``journal`` know their formats, ``tables`` the others; ``api`` is ``/v1/exports``.
Always holds: a file comes from one snapshot of the database, in an order of its own, and says no time of its making, so
the same question about what is over gives the same bytes; row count, control totals and SHA-256 are kept beside it.
"""
