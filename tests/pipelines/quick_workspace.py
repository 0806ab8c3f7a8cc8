"""The workspace, but for its patience: sensors every second, and a failed run's minute is a second."""

from pipelines import launches
from pipelines.definitions import definitions

launches.MINUTE_SECONDS = 1.0
defs = definitions(every_seconds=1)
