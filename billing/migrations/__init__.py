"""Billing's migrations; guards and functions are SQL files beside them."""
