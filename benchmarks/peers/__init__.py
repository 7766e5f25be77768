"""What a user would pick instead: peers at equal work and equal time, docs/peers.md."""
