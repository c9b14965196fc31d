"""`python -m firsttoken_operator.cli`: the same as the `firsttoken` script."""

import sys

from firsttoken_operator.cli import main

sys.exit(main())
