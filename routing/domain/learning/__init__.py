"""What settled rows teach the estimator, as plain arithmetic.

Public modules: ``tallies`` (a ratio with shrinkage, forgetting and bounds), ``spreads`` (how far estimates lay from
what was settled), ``jobs`` (which rows are one job), ``records`` (what a quote may use), ``lessons`` (what a batch's
settled rows say), ``states`` (what is kept of them, and how a lesson changes it).
Always holds: the same lessons in the same order give the same states; no row moves a ratio by more than its step, and
nothing moves it beyond its bounds. Ratios leave here as whole parts per million; floats are statistics, never money.
"""
