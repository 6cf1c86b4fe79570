"""Stand-in provider servers over real HTTP, faithful to the wire formats, with faults on demand.

They import nothing of the product: what a provider knows is what came over the wire.
Shared pieces: ``clock`` (a clock that tests can drive), ``pacing`` (how fast rows are answered), ``faults``
(what goes wrong, and when), ``gateway`` (faults and counters around each call), ``control`` (the ``/_sim`` API),
``serving`` (run an app), ``commandline`` (the options of every provider), ``running`` (start one from a test or a
demo), ``remote`` (a client of ``/_sim``), ``settings``, ``rowfiles``, ``tables``, ``seen``, ``markers``, ``tokenizer``.
Providers: ``openai``, ``anthropic``, ``bedrock``; the last two answer through ``claude``.
What always holds: state derives from stored instants, so a killed simulator goes on where it would have been.
"""
