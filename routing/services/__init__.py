"""Writes of routing: one transaction each; network and blobs outside of it."""
