"""The catalog's data: ``catalog.json`` is loaded by ``load_catalog``; ``build`` and ``reviewed`` make it from facts."""
