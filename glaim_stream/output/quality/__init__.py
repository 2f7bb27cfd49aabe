"""Live accuracy: errors and coverage of what was filled, summed over stretches of event time, as records."""
