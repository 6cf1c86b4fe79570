"""Low-balance alerts: one mail and one webhook event each time a wallet falls below a threshold.

Always holds: a crossing is told of once; the alert is armed again when the balance is back at the threshold; the event
is made with the crossing, the mail is due until it was sent.
"""
