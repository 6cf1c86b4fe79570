"""Adjustments: what finance does to a customer's money beside top-ups and settlements.

Always holds: each is a document of its own that names what it adjusts, posted once, never edited; above the limit only
a second person posts it, and never the one who asked; grants are burned before bought credit.
"""
