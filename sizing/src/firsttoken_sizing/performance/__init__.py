"""Performance of one replica: closed loop, Poisson, measured points, and the monotone table that the operator reads.

Only the table is imported here: it is all that the operator needs at a tick.
"""

from firsttoken_sizing.performance.table import CapacityTable, Operating

__all__ = ["CapacityTable", "Operating"]
