"""The forecast of one resource's arrival rate: what it is now, and the largest it will be when a new replica is ready.

`observe` takes one measurement a tick, `predict` answers, `learn` rebuilds a state from history; all pure and total,
tens of microseconds. Four textbook pieces, each online and each measuring what it needs instead of being tuned:

- `noise`: counting noise and movement told apart by the variogram at two lags; over-dispersion is measured;
- `level`: a Kalman filter of a local level with both variances from `noise`; jumps start it anew;
- `trend`, `season`: a damped trend (Holt; Gardner and McKenzie), and profiles of the hours of the day and the week;
- `score`: each method against persistence on what came, smoothed in hindsight; persistence unless another wins.

Worked, without counting noise: level, largest rate expected in 195 s (from the eighth row on in 600 s), and its
deviation, requests a second. Every day in the last three rows climbs from 10 at 8:00 to 40 at 10:00.

| what is seen | level | expected | deviation | method |
|---|---|---|---|---|
| the first window, at 10 | 10.0 | 10.0 | 0.5 | Persistence |
| the first hour at 10 | 10.0 | 10.0 | 0.1 | Persistence |
| a jump: one window at 15 | 15.0 | 15.0 | 0.2 | Persistence |
| and one at 20 | 20.0 | 20.0 | 0.3 | Persistence |
| an hour later: that jump was an error of the forecast | 20.0 | 20.0 | 3.0 | Persistence |
| a quiet night: two windows without a request | 0.0 | 0.0 | 0.0 | Persistence |
| eight hours of it | 0.0 | 0.0 | 0.0 | Persistence |
| another service, first day, 8:15 | 13.5 | 13.5 | 0.4 | Persistence |
| second day, 8:15: the climb of the first has proven a trend | 13.5 | 14.1 | 0.4 | Trend |
| fifth day, 8:15: and the hour of the day | 13.5 | 15.2 | 0.3 | SeasonTrend |
"""

from firsttoken_operator.estimate.forecast.engine import Forecast, ForecastState, Observation, learn, observe, predict
from firsttoken_operator.estimate.forecast.score import Method

__all__ = [
    "Forecast",
    "ForecastState",
    "Method",
    "Observation",
    "learn",
    "observe",
    "predict",
]
