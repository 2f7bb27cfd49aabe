"""The folder of the real data sets: the one that GLAIM_DATA names, or `shared/data` beside the checkout."""

import os
from pathlib import Path

from deploy.cache import CHECKOUT

DATA_SETS = Path(os.environ.get("GLAIM_DATA", CHECKOUT.parent / "shared" / "data"))
