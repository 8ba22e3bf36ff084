"""A network that drops, delays, duplicates, reorders and damages for a while, everywhere."""

from collections.abc import Sequence

from quorum_simulation.faults.family import FaultContext, Kind
from quorum_simulation.network import Weather


class WeatherFaults:
    """See the module."""

    def __init__(self, context: FaultContext) -> None:
        self._context = context

    def kinds(self) -> Sequence[Kind]:
        """See `Family`."""
        return (
            Kind("drop", lambda: self._begin(Weather(drop=0.15))),
            Kind("delay", lambda: self._begin(Weather(delay_ms=60))),
            Kind("duplicate", lambda: self._begin(Weather(duplicate=0.3))),
            Kind("reorder", lambda: self._begin(Weather(reorder=0.5))),
            Kind("doubled answers", lambda: self._begin(Weather(doubled_answers=0.3))),
            Kind("damaged answers", lambda: self._begin(Weather(damaged_answers=0.1))),
        )

    def heal(self) -> None:
        """See `Family`."""
        self._set(Weather())

    def _begin(self, weather: Weather) -> bool:
        self._set(weather)
        self._context.later(200, 2000, self._clear, weather)
        return True

    def _clear(self, weather: Weather) -> None:
        if self._context.cluster.network.weather is weather:
            self._set(Weather())

    def _set(self, weather: Weather) -> None:
        for partition in self._context.cluster.partitions:
            partition.network.weather = weather
