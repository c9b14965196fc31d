"""Parts of the benchmark at scale: many resources on the local control plane, ours and KEDA's in one run."""

import sys
from pathlib import Path

# NB: a script has its own folder on the path, and not the root, where `tools` and `demo` are.
sys.path.append(str(Path(__file__).resolve().parents[2]))
