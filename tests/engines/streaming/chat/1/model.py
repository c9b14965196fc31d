"""A decoupled model with one slot: an answer is streamed word by word, and the next request waits for its end."""

import time

import numpy as np
import triton_python_backend_utils as pb_utils

SECONDS_A_WORD = 0.02


class TritonPythonModel:
    def execute(self, requests):
        for request in requests:
            (prompt,) = pb_utils.get_input_tensor_by_name(request, "text_input").as_numpy()
            (words,) = pb_utils.get_input_tensor_by_name(request, "max_tokens").as_numpy()
            if prompt == b"fail":
                raise ValueError("asked to fail")
            sender = request.get_response_sender()
            for _ in range(words):
                time.sleep(SECONDS_A_WORD)
                word = pb_utils.Tensor("text_output", np.array([b" word"], dtype=object))
                sender.send(pb_utils.InferenceResponse([word]))
            sender.send(flags=pb_utils.TRITONSERVER_RESPONSE_COMPLETE_FINAL)
