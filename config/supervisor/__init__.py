"""One command that runs the whole product: ``python -m config.supervisor`` (``make run``).

Modules: ``state`` (the state directory: lock, keys, kept ports, env file), ``environment`` (what children are told),
``children`` (start, restart, stop), ``running`` (the order of things). Always holds: one supervisor a state directory;
PostgreSQL is stopped last; nothing it started outlives it, whichever way it ends.
"""
