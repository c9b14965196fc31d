"""The dynamic programme of the clairvoyant: the cheapest way through a table of sizes and minutes. Compiled.

It knows nothing of replicas or requests: a cost for being at a size in a minute, and costs for going up and down.
Imported only when it is asked, because compiling needs numba.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from firsttoken_sizing.simulation.compiled import compiled


@compiled
def cheapest_path(costs: NDArray[np.float64], up: float, down: float) -> NDArray[np.int64]:
    """The column of every row whose `costs` sum to the least, with `up` or `down` for every column further.

    O(rows x columns): the best column to come from is found for all columns in one pass for each direction.
    """
    rows, columns = costs.shape
    total = np.empty((rows, columns))
    came_from = np.zeros((rows, columns), np.int64)
    total[0] = costs[0]
    for row in range(1, rows):
        best, at = np.inf, 0
        for column in range(columns):
            best += up
            if total[row - 1, column] < best:
                best, at = total[row - 1, column], column
            total[row, column] = best
            came_from[row, column] = at
        best = np.inf
        for column in range(columns - 1, -1, -1):
            best += down
            if total[row - 1, column] < best:
                best, at = total[row - 1, column], column
            if best < total[row, column]:
                total[row, column] = best
                came_from[row, column] = at
            total[row, column] += costs[row, column]
    path = np.empty(rows, np.int64)
    path[rows - 1] = total[rows - 1].argmin()
    for row in range(rows - 1, 0, -1):
        path[row - 1] = came_from[row, path[row]]
    return path
