"""Rules for the rendered chart. A check takes a system and yields one message per problem."""
