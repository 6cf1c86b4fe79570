"""Settings: ``base`` holds everything and reads the environment; ``test`` changes what tests must have otherwise."""
