"""Ground: what every floor stands on.

Public modules: ``errors`` (the error hierarchy), ``ids`` (public ids), ``clock`` (the one clock), ``wake`` (the only
door to the broker), ``leases`` (claiming a due row), ``filters`` (what lists are filtered by), ``page_cache`` (large
blobs out of memory), ``fault_points`` (where tests kill a process). Its migrations make the database roles' default
grants, ``lanehouse_now()`` and the broker's queues.
Always holds: imports nothing else of ours, and knows no entity.
"""
