"""Billing's pure rules: money, rating, and the records that cross billing's border."""
