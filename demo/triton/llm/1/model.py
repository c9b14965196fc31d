"""A model that takes its time as an LLM on a GPU does: prompts go before tokens, and who comes later shares the batch.

How long a step takes is in `times.json` beside this file. A word of a prompt is a token. An answer comes in two pieces,
the first token and the rest, each when it is due. Triton's own Python runs this: the standard library and numpy.
"""

from __future__ import annotations

import json
import threading
import time
from collections import deque
from pathlib import Path
from typing import Any

import numpy as np
import triton_python_backend_utils as pb_utils


class TritonPythonModel:
    """Model in the form in which Triton's Python backend calls it."""

    def initialize(self, _args: dict[str, str]) -> None:
        """Begin to work."""
        self._times: dict[str, Any] = json.loads(Path(__file__).with_name("times.json").read_text())
        self._waiting: deque[Answer] = deque()
        self._changed = threading.Condition()
        self._ends = False
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def execute(self, requests: list[Any]) -> None:
        """Take requests, and leave them to the batch."""
        with self._changed:
            for request in requests:
                (prompt,) = pb_utils.get_input_tensor_by_name(request, "text_input").as_numpy()
                (words,) = pb_utils.get_input_tensor_by_name(request, "max_tokens").as_numpy()
                self._waiting.append(Answer(len(prompt.split()), int(words), request.get_response_sender()))
            self._changed.notify()

    def finalize(self) -> None:
        """End with whatever is under way."""
        with self._changed:
            self._ends = True
            self._changed.notify()
        self._thread.join()

    def _run(self) -> None:
        running: list[Answer] = []
        at = 0.0
        while not self._ends:
            with self._changed:
                if not running and not self._waiting:
                    self._changed.wait_for(lambda: self._waiting or self._ends)
                    at = time.monotonic()
                fresh = self._admitted(len(running))
            # NB: by the clock and not by sleeps, whose lateness would add up.
            at += self._step_seconds(running, fresh)
            time.sleep(max(0.0, at - time.monotonic()))
            running += fresh
            for answer in running:
                answer.take_step()
            running = [answer for answer in running if answer.left]

    def _admitted(self, running: int) -> list[Answer]:
        """Whole prompts, at least one where there is room."""
        fresh: list[Answer] = []
        tokens = 0
        while self._waiting and running + len(fresh) < self._times["max_batch"]:
            tokens += self._waiting[0].tokens
            if fresh and tokens > self._times["tokens_per_step"]:
                break
            fresh.append(self._waiting.popleft())
        return fresh

    def _step_seconds(self, running: list[Answer], fresh: list[Answer]) -> float:
        batch, prompts = len(running), [answer.tokens for answer in fresh]
        seconds: float = self._times["batch"][batch] + self._times["context"][batch] * sum(
            one.tokens for one in running
        )
        for tokens in prompts:
            seconds += self._times["prefill"] * tokens + self._times["prefill_squared"] * tokens**2
        return seconds


class Answer:
    """A request: tokens of its context, tokens that are left to give, and where they go."""

    def __init__(self, tokens: int, left: int, sender: Any) -> None:
        self.tokens, self.left = tokens, left
        self._sender, self._words = sender, left

    def take_step(self) -> None:
        """Get a token, and send what is due."""
        self.left -= 1
        self.tokens += 1
        if self.left == self._words - 1:
            self._send(1)
        if self.left == 0:
            self._send(self._words - 1)
            self._sender.send(flags=pb_utils.TRITONSERVER_RESPONSE_COMPLETE_FINAL)

    def _send(self, words: int) -> None:
        if words:
            text = pb_utils.Tensor("text_output", np.array([b" word" * words], dtype=object))
            self._sender.send(pb_utils.InferenceResponse([text]))
