"""The methods around the moves: plain, contour, climbing, cyclical and replica exchange.

It may import `warmup.stages`, `core` and the root's `checks` and `schedules`.
"""

from numpyro_contour.kernels.methods.climbing import Climbing
from numpyro_contour.kernels.methods.contour import Contour
from numpyro_contour.kernels.methods.cyclical import Cyclical
from numpyro_contour.kernels.methods.method import Method
from numpyro_contour.kernels.methods.plain import Plain
from numpyro_contour.kernels.methods.replica_exchange import ReplicaExchange

__all__ = ["Climbing", "Contour", "Cyclical", "Method", "Plain", "ReplicaExchange"]
