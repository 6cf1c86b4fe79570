"""Webhooks: endpoints, events, deliveries.

Public modules: ``services.events`` (publish an event), ``services.endpoints``, ``services.deliveries`` (resend),
``selectors``, ``sender`` (the network), ``domain``.
Always holds: an event is a type and frozen bytes, and this app never looks into them; an event and its deliveries are
made in the transaction that makes the fact; a due delivery is sent at least once, always with the event's id as
``webhook-id``; each send that began has one row in the log; no address inside the network is ever connected to unless
its host and port are on the operator's list.
"""
