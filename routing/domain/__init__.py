"""Routing's pure heart: reading files, pricing, scoring, splitting, stitching. No Django, no clock, no network."""
