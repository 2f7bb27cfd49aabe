"""The base classes of scikit-learn, or replacements where it is not installed."""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:

    class Estimator:
        """The methods that both kinds of base classes have."""

        def get_params(self, deep: bool = True) -> dict[str, Any]:
            """Return the parameters by name."""

        def set_params(self, **params: Any) -> Any:
            """Set parameters by name."""

        def __sklearn_tags__(self) -> Any: ...

    class NotFittedError(ValueError, AttributeError):
        """An estimator is used before its fit."""

else:
    try:
        from sklearn.base import BaseEstimator, TransformerMixin
        from sklearn.exceptions import NotFittedError

        class Estimator(TransformerMixin, BaseEstimator):
            """An estimator of scikit-learn."""

    except ImportError:

        class NotFittedError(ValueError, AttributeError):
            """An estimator is used before its fit."""

        class Estimator:
            """An estimator with parameters by name, like scikit-learn's."""

            def get_params(self, deep: bool = True) -> dict[str, Any]:
                """Return the parameters by name."""
                return {name: getattr(self, name) for name in inspect.signature(type(self)).parameters}

            def set_params(self, **params: Any) -> Any:
                """Set parameters by name."""
                known = self.get_params()
                for name, value in params.items():
                    if name not in known:
                        raise ValueError(f"expected a parameter of {', '.join(known)}, found {name!r}")
                    setattr(self, name, value)
                return self
