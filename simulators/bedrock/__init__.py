"""A stand-in Bedrock: model invocation jobs of Claude over real HTTP, with S3 beside them.

Public: ``app.create_app`` (an ASGI app on a state directory; ``app.state.s3_url`` is where its S3 listens),
``settings.Settings`` (speed, quotas, bad keys), ``running.running_simulator`` (for tests), ``python -m
simulators.bedrock`` (writes two lines: its URL and the URL of S3). Pure parts: ``wire`` (object shapes), ``intake``
(the verdict on an input object), ``requests`` (the verdict on a create).
What always holds: a job's state follows from stored instants and the clock. The input is copied when the job is made.
The output is put into S3 when somebody asks for the job (or for the simulator's state) after its end.
S3 is moto's, which keeps everything in memory: ``objects`` also keeps each object on disk and brings them back after a
restart (buckets and contents; not types, tags, versions or policies). Signatures are taken by their shape, unchecked.
"""
