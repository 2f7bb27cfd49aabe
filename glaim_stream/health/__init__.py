"""Sensor health: events about sensors that are frozen, at a limit, spiking, drifting, chattering, late, or silent.

`habits.learn` finds out from readings what is usual for each sensor, and which thresholds keep false alarms at a stated
rate. `detect.detect` finds events in later readings. Both are functions of series on an even grid; an event depends on
`detect.MEMORY` steps at most, so that a restart that reads as many steps again finds the same events.
"""
