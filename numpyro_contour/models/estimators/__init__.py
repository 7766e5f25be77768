"""Estimators of the potential energy: a minibatch, a control variate, all rows, a callable.

It may import `models`, `core` and the root's `checks`.
"""
