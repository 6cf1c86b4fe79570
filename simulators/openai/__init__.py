"""A stand-in OpenAI: Files and Batches over real HTTP.

Public: ``app.create_app`` (an ASGI app on a state directory), ``settings.Settings`` (speed, limits, bad keys),
``python -m simulators.openai``. Pure parts: ``wire`` (object shapes), ``tokens`` (what a request counts),
``answering`` (the answer of one row), ``validation`` (the verdict on an input file).
What always holds: a batch's state follows from stored instants and the clock; each answered row is in exactly one
of the two files; the same request always gets the same text and the same token counts.
"""
