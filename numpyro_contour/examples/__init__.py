"""Targets, data sets and runs for the demo, the notebooks, the documentation and the tests.

It may import every room.
"""
