"""Environment that servers of Hugging Face checkpoints share: where they keep what they download and compile.

Their images are made for root. A user that no image knows has no home and no name, which libraries ask for at once.
"""

from __future__ import annotations

CACHE_PATH = "/model-store"
TOKEN = "HF_TOKEN"
USER = 1000
ENVIRONMENT = {"HF_HOME": f"{CACHE_PATH}/huggingface", "HOME": "/tmp", "USER": "inference"}
