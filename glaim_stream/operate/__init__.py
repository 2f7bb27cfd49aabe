"""Commands of an operator: audit, completeness report, check, dead letters, explanations, learning a form."""

__all__: list[str] = []
