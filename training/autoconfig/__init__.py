"""A run's configuration for a data file that comes without one."""
