"""A run in segments, each of which is kept in a Zarr store before the next one begins.

Files import what they need from each other.
"""
