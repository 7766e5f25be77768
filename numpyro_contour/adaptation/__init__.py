"""Warm-up: what the user does not give is found before the first draw is kept."""
