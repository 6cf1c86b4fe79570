"""New rates: drafted by one person or by a price file, compared with what is live, approved by another.

Always holds: a version is never edited and begins when another ends, so a card has no gap and no overlap; who drafted
it does not approve it; what is far from the live rates, or above 1,000 USD a million tokens, needs a tick of its own.
"""
