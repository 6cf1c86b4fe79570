"""Catalog: providers, models, lanes, rate versions, SLA snapshots.

Public modules: ``selectors`` (the in-process catalog and reads), ``services`` (loading, rotation, SLA), ``domain``.
Always holds: rates are integers in micro-USD per million tokens, dated and never edited; a model is one snapshot and a
lane is known by (model, lane id); every change moves the catalog version, so that each process replaces its map
within a second.
"""
