"""What a file of readings is, and a recipe for it, when nobody says."""
