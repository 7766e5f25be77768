"""The warm-up: a table of stages, one file for each stage, and the driver that runs them.

It may import `core` and the root's `checks` and `schedules`.
"""
