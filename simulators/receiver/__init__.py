"""A stand-in webhook receiver, as a customer would run one: it takes what comes and shows it.

``POST /hooks`` takes a call; ``GET /received`` gives all calls, oldest first: headers, and the body's text.
Always holds: what was answered with 200 is on disk; it checks no signature, because checking is its reader's part.
"""
