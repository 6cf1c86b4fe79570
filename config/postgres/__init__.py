"""What the embedded PostgreSQL stands on: its binaries, the account it runs under, and the processes it left behind.

Public modules: ``installation``, ``account``, ``secrets``, ``processes``. The server itself is
``config.embedded_postgres``. Always holds: nothing here imports Django, and nothing outside the given folders is opened
to other users.
"""
