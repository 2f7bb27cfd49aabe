"""Decode, window, impute, blend and repair, without Kafka: driven by the worker and by replays alike."""
