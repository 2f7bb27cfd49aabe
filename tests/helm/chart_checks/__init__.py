"""What the rendered chart has to keep to. A check takes a system and yields a sentence for each thing that is wrong."""
