"""The wiring: definitions, resources, partitions, jobs, sensors, schedules and the commands."""
