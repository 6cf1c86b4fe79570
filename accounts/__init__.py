"""Accounts: organisations, members with roles, API keys, sign-in.

Public modules: ``selectors``, ``services``, ``domain.keys``, ``pages``, ``once``, ``audit`` (who did what, written with
the deed).
Always holds: a key's secret is stored as a hash only; an organisation and its test twin never share data; every read
takes the organisation; the audit log is append-only.
"""
