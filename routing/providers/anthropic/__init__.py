"""Anthropic's Message Batches behind the provider port.

Public modules: ``requests`` (chat rows to Messages), ``answers`` (messages to chat completions) and ``usage``, which
serve every seller of Claude; ``wire`` (rows out, result lines in), ``jobs`` (batch objects, lists, refusals),
``client`` (network). Always holds: only ``client`` imports the SDK; everything else computes on bytes.
"""
