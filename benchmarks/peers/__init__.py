"""Alternatives that a user could pick: peers at equal work and equal time, docs/peers.md."""
