"""Tables with holes in, the same tables with the holes filled out."""
