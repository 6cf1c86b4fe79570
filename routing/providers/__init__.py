"""Providers behind one small port: submit a job, find it again, poll it, stream its results, cancel it.

Public modules: ``base`` (the port and its records), ``registry`` (provider name to adapter; the only importer of
adapters). Each adapter is a package: ``wire`` (pure: bytes in, records out) and ``client`` (network, the SDK).
Always holds: nothing here touches the database, every call ends within a stated time, every failure is a
:class:`ground.errors.ProviderError`, and no id issued by a provider stands in what a customer gets.
"""
