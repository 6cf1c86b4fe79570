"""The books as finance reads them: accounts, entries, statements, balances at any instant, and their proof.

Always holds: a balance from a snapshot equals the sum from the first leg on, by effective and by booked time; reading
changes nothing.
"""
