"""What a stand-in Claude says and counts, whoever sells it: the Messages shapes shared by Anthropic and Bedrock.

Public: ``parameters.require_valid`` (the verdict on one request), ``tokens`` (what it counts), ``caching`` (what of it
is read from or written to the prompt cache), ``answering`` (the message), ``rows`` (stretches of rows under faults and
markers), ``store`` and ``lifecycle`` (batches whose state follows from stored instants), ``settings``.
What always holds: the same request gets the same text and the same token counts; cached tokens stand beside
``input_tokens``, never inside. Tokens are counted with cl100k, an independent stand-in: Claude's own vocabulary is not
public.
"""
