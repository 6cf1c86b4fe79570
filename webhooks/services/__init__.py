"""Writes: events, endpoints, deliveries, and the turn that sends what is due."""
