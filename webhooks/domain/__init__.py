"""Rules of sending, in plain Python: signatures, the ladder, outcomes, addresses."""
