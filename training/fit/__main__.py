"""`python -m training.fit`."""

import sys

from training.fit.command import main

if __name__ == "__main__":
    sys.exit(main())
