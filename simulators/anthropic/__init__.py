"""A stand-in Anthropic: Message Batches over real HTTP.

Public: ``app.create_app`` (an ASGI app on a state directory), ``settings.Settings`` (speed, limits, bad keys),
``running.running_simulator`` (for tests), ``python -m simulators.anthropic``. Pure parts: ``wire`` (object shapes),
``intake`` (the verdict on a create).
What always holds: a batch's state follows from stored instants and the clock; the five counts add up to the number of
requests at every moment, and only ``processing`` is not zero before the end.
"""
