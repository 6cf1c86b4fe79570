"""Migrations of the catalog."""
