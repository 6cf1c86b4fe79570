"""AWS Bedrock's model invocation jobs behind the provider port, for Claude's models.

Public modules: ``account`` (an account's fields), ``wire`` (records out, output lines in), ``jobs`` (job objects,
lists, refusals), ``sending`` (botocore's requests under our deadlines), ``client`` (network). What rows and messages
look like is Claude's, shared with ``anthropic``. Always holds: only ``client`` and ``sending`` import the SDK.
"""
