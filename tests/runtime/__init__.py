"""The runtime: embedded PostgreSQL, broker, beat, supervisor."""
