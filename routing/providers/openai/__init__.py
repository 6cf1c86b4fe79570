"""OpenAI's Files and Batches behind the provider port.

Public modules: ``wire`` (rows out, result lines in), ``jobs`` (batch objects, lists, refusals), ``client`` (network).
Always holds: only ``client`` imports the SDK; ``wire`` and ``jobs`` compute on bytes.
"""
