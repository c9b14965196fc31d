"""A model that is not decoupled and has one slot: one answer for each request, which takes as long as it has tokens."""

import time

import triton_python_backend_utils as pb_utils

SECONDS_A_TOKEN = 0.02


class TritonPythonModel:
    def execute(self, requests):
        answers = []
        for request in requests:
            tokens = pb_utils.get_input_tensor_by_name(request, "tokens").as_numpy()
            time.sleep(SECONDS_A_TOKEN * int(tokens[0]))
            answers.append(pb_utils.InferenceResponse([pb_utils.Tensor("answer", tokens)]))
        return answers
