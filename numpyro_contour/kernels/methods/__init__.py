"""The methods around the moves: plain, contour, climbing, cyclical and replica exchange.

It may import `adaptation`, `core` and the root's `checks` and `schedules`.
"""
