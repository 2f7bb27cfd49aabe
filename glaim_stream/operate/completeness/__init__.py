"""How complete the readings were: what was expected, arrived, late, filled and null, by sensor and day."""
