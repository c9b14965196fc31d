"""Objects with a field that is no field, of the wrong type, or out of bounds: refused by the schema."""

from __future__ import annotations

from tests.operator.api.bad_objects import BENCHMARK, DEPLOYMENT, POOL, REMOVED, BadObject

REFUSED_BY_SCHEMA = (
    BadObject(
        "a misspelled field",
        DEPLOYMENT,
        {"spec.traffic.inputToken": 2000},
        field="spec.traffic.inputToken",
        problem="unknown field",
        fix="did you mean inputTokens or inputTokensP99?",
        server=(
            'InferenceDeployment in version "v1alpha1" cannot be handled as a InferenceDeployment: strict decoding '
            'error: unknown field "spec.traffic.inputToken"'
        ),
    ),
    BadObject(
        "a field of a config.json that is not read",
        DEPLOYMENT,
        {"spec.model.architecture": {"hidden_size": 4096, "bos_token_id": 1}},
        field="spec.model.architecture.bos_token_id",
        problem="unknown field",
        fix="leave it out",
        server=(
            'InferenceDeployment in version "v1alpha1" cannot be handled as a InferenceDeployment: strict decoding '
            'error: unknown field "spec.model.architecture.bos_token_id"'
        ),
    ),
    BadObject(
        "a number of a config.json that is nested",
        DEPLOYMENT,
        {"spec.model.architecture": {"hidden_size": [[[4096]]]}},
        field="spec.model.architecture.hidden_size",
        problem="a list is not an integer",
        fix="write an integer",
        server=(
            'spec.model.architecture.hidden_size: Invalid value: "array": spec.model.architecture.hidden_size in '
            'body must be of type integer: "array"'
        ),
        rules_skipped=True,
    ),
    BadObject(
        "a missing section",
        DEPLOYMENT,
        {"spec.hardware": REMOVED},
        field="spec.hardware",
        problem="is required",
        fix="add it",
        server="spec.hardware: Required value",
        rules_skipped=True,
    ),
    BadObject(
        "a rate with four decimals",
        DEPLOYMENT,
        {"spec.traffic.peakRequestsPerSecond": "200.0001"},
        field="spec.traffic.peakRequestsPerSecond",
        problem="'200.0001' is not a decimal number with at most three decimals",
        fix='write an integer or a decimal such as "28.54"',
        of_form=True,
    ),
    BadObject(
        "a rate that is a float",
        DEPLOYMENT,
        {"spec.traffic.averageRequestsPerSecond": 28.54},
        field="spec.traffic.averageRequestsPerSecond",
        problem="28.54 is a float",
        fix='quote it: "28.54"',
        server=(
            'spec.traffic.averageRequestsPerSecond: Invalid value: "number": spec.traffic.averageRequestsPerSecond '
            'in body must be of type integer,string: "number"'
        ),
        rules_skipped=True,
    ),
    BadObject(
        "a negative rate",
        DEPLOYMENT,
        {"spec.traffic.averageRequestsPerSecond": -1},
        field="spec.traffic.averageRequestsPerSecond",
        problem="-1 is out of range",
        fix="write a number from 0 to 1000000000",
        server=(
            "[spec.traffic.averageRequestsPerSecond: Invalid value: -1: spec.traffic.averageRequestsPerSecond in "
            "body should be greater than or equal to 0, spec.traffic.averageRequestsPerSecond: Invalid value: "
            "averageRequestsPerSecond must be above 0 and at most 1000000; write requests per second, such as "
            '"28.54"]'
        ),
    ),
    BadObject(
        "an unknown percentile",
        DEPLOYMENT,
        {"spec.sla.timeToFirstToken.percentile": "P96"},
        field="spec.sla.timeToFirstToken.percentile",
        problem='"P96" is not supported',
        fix="use one of Mean, P50, P90, P95, P99",
        server=(
            'spec.sla.timeToFirstToken.percentile: Unsupported value: "P96": supported values: "Mean", "P50", '
            '"P90", "P95", "P99"'
        ),
        rules_skipped=True,
    ),
    BadObject(
        "an unknown SLA mode",
        DEPLOYMENT,
        {"spec.sla.mode": "Realtime"},
        field="spec.sla.mode",
        problem='"Realtime" is not supported',
        fix="use one of Streaming, Sequential, Offline",
        server='spec.sla.mode: Unsupported value: "Realtime": supported values: "Streaming", "Sequential", "Offline"',
        rules_skipped=True,
    ),
    BadObject(
        "a scaling mode that YAML 1.1 takes for false",
        DEPLOYMENT,
        {"spec.scaling.mode": False},
        field="spec.scaling.mode",
        problem="false is not supported",
        fix="use one of Active, Advisory, Paused",
        server=(
            'spec.scaling.mode: Invalid value: "boolean": spec.scaling.mode in body must be of type string: '
            '"boolean", spec.scaling.mode: Unsupported value: false: supported values: "Active", "Advisory", '
            '"Paused"'
        ),
        rules_skipped=True,
    ),
    BadObject(
        "an unknown precision",
        DEPLOYMENT,
        {"spec.model.precision": "FP4"},
        field="spec.model.precision",
        problem='"FP4" is not supported',
        fix="use one of FP16, BF16, FP8, INT8, INT4, NVFP4, MXFP4",
        server=(
            'spec.model.precision: Unsupported value: "FP4": supported values: "FP16", "BF16", "FP8", "INT8", '
            '"INT4", "NVFP4", "MXFP4"'
        ),
        rules_skipped=True,
    ),
    BadObject(
        "an unknown runtime",
        DEPLOYMENT,
        {"spec.targetRef": REMOVED, "spec.runtime": {"type": "TGI", "image": "tgi:1"}},
        field="spec.runtime.type",
        problem='"TGI" is not supported',
        fix="use one of NIM, Triton, VLLM, SGLang, TRTLLMServe",
        server=(
            'spec.runtime.type: Unsupported value: "TGI": supported values: "NIM", "Triton", "VLLM", "SGLang", '
            '"TRTLLMServe"'
        ),
        rules_skipped=True,
    ),
    BadObject(
        "fewer replicas than none",
        DEPLOYMENT,
        {"spec.scaling.minReplicas": -1},
        field="spec.scaling.minReplicas",
        problem="-1 is out of bounds",
        fix="use 0 or more",
        server=(
            "spec.scaling.minReplicas: Invalid value: -1: spec.scaling.minReplicas in body should be greater than or "
            "equal to 0"
        ),
    ),
    BadObject(
        "no replicas at all",
        DEPLOYMENT,
        {"spec.scaling": {"minReplicas": 0, "maxReplicas": 0}},
        field="spec.scaling.maxReplicas",
        problem="0 is out of bounds",
        fix="use 1 or more",
        server=(
            "spec.scaling.maxReplicas: Invalid value: 0: spec.scaling.maxReplicas in body should be greater than or "
            "equal to 1"
        ),
    ),
    BadObject(
        "a time of the day on a twelve-hour clock",
        DEPLOYMENT,
        {"spec.traffic.schedule": [{"start": "8:00", "end": "20:00", "peakRequestsPerSecond": 300}]},
        field="spec.traffic.schedule[0].start",
        problem='"8:00" is not a time of the day as HH:MM',
        fix="write it as in 08:30",
        of_form=True,
    ),
    BadObject(
        "a time zone of this machine only",
        DEPLOYMENT,
        {
            "spec.traffic.schedule": [
                {"timeZone": "localtime", "start": "08:00", "end": "20:00", "peakRequestsPerSecond": 300}
            ]
        },
        field="spec.traffic.schedule[0].timeZone",
        problem='"localtime" is not a time zone of the IANA database',
        fix="write it as in Europe/Berlin",
        of_form=True,
    ),
    BadObject(
        "an unknown day",
        DEPLOYMENT,
        {
            "spec.traffic.schedule": [
                {"days": ["Saturday"], "start": "08:00", "end": "20:00", "peakRequestsPerSecond": 300}
            ]
        },
        field="spec.traffic.schedule[0].days[0]",
        problem='"Saturday" is not supported',
        fix="use one of Mon, Tue, Wed, Thu, Fri, Sat, Sun",
        server=(
            'spec.traffic.schedule[0].days[0]: Unsupported value: "Saturday": supported values: "Mon", "Tue", "Wed", '
            '"Thu", "Fri", "Sat", "Sun"'
        ),
        rules_skipped=True,
    ),
    BadObject(
        "too many windows",
        DEPLOYMENT,
        {
            "spec.traffic.schedule": [
                {"start": "00:00", "end": f"01:{minute:02}", "peakRequestsPerSecond": 300} for minute in range(51)
            ]
        },
        field="spec.traffic.schedule",
        problem="51 entries are out of bounds",
        fix="write at most 50",
        server="spec.traffic.schedule: Too many: 51: must have at most 50 items",
        rules_skipped=True,
    ),
    BadObject(
        "an absurd number of replicas",
        DEPLOYMENT,
        {"spec.scaling.maxReplicas": 1000000000000},
        field="spec.scaling.maxReplicas",
        problem="1000000000000 is out of bounds",
        fix="use 100000 or less",
        server=(
            "spec.scaling.maxReplicas: Invalid value: 1000000000000: spec.scaling.maxReplicas in body should be "
            "less than or equal to 100000"
        ),
    ),
    BadObject(
        "a window of zero",
        DEPLOYMENT,
        {"spec.scaling.scaleDownStabilizationSeconds": 0},
        field="spec.scaling.scaleDownStabilizationSeconds",
        problem="0 is out of bounds",
        fix="use 15 or more",
        server=(
            "spec.scaling.scaleDownStabilizationSeconds: Invalid value: 0: "
            "spec.scaling.scaleDownStabilizationSeconds in body should be greater than or equal to 15"
        ),
    ),
    BadObject(
        "replicas as a string",
        DEPLOYMENT,
        {"spec.scaling.minReplicas": "2"},
        field="spec.scaling.minReplicas",
        problem='"2" is not an integer',
        fix="write an integer",
        server=(
            'spec.scaling.minReplicas: Invalid value: "string": spec.scaling.minReplicas in body must be of type '
            'integer: "string"'
        ),
        rules_skipped=True,
    ),
    BadObject(
        "no GPU",
        DEPLOYMENT,
        {"spec.hardware.gpus": []},
        field="spec.hardware.gpus",
        problem="0 entries are out of bounds",
        fix="write at least 1",
        server="spec.hardware.gpus: Invalid value: 0: spec.hardware.gpus in body should have at least 1 items",
    ),
    BadObject(
        "too many GPUs",
        DEPLOYMENT,
        {"spec.hardware.gpus": [f"GPU-{i}" for i in range(9)]},
        field="spec.hardware.gpus",
        problem="9 entries are out of bounds",
        fix="write at most 8",
        server="spec.hardware.gpus: Too many: 9: must have at most 8 items",
        rules_skipped=True,
    ),
    BadObject(
        "a limit of zero milliseconds",
        DEPLOYMENT,
        {"spec.sla.timeToFirstToken.milliseconds": 0},
        field="spec.sla.timeToFirstToken.milliseconds",
        problem="0 is out of bounds",
        fix="use 1 or more",
        server=(
            "spec.sla.timeToFirstToken.milliseconds: Invalid value: 0: spec.sla.timeToFirstToken.milliseconds in "
            "body should be greater than or equal to 1"
        ),
    ),
    BadObject(
        "a model name that is a sentence",
        DEPLOYMENT,
        {"spec.model.name": "the big one"},
        field="spec.model.name",
        problem='"the big one" is not a model name of letters, digits, ., _, - and /',
        fix="write it as in meta-llama/Meta-Llama-3-8B-Instruct",
        of_form=True,
    ),
    BadObject(
        "a metrics source that is a URL",
        DEPLOYMENT,
        {"spec.metrics.source": "http://prometheus:9090"},
        field="spec.metrics.source",
        problem='"http://prometheus:9090" is not a name of lower-case letters, digits and -',
        fix="write it as in chat-8b",
        of_form=True,
    ),
    BadObject(
        "a flag with two values in it",
        DEPLOYMENT,
        {
            "spec.targetRef": REMOVED,
            "spec.runtime": {"type": "VLLM", "image": "vllm:1", "flags": ["--seed=1 --trust-remote-code"]},
        },
        field="spec.runtime.flags[0]",
        problem='"--seed=1 --trust-remote-code" is not a flag of the form --name or --name=value without spaces',
        fix="write it as in --seed=1",
        of_form=True,
    ),
    BadObject(
        "a checkpoint outside the names and paths that there are",
        DEPLOYMENT,
        {
            "spec.targetRef": REMOVED,
            "spec.runtime": {"type": "VLLM", "image": "vllm:1", "checkpoint": "--trust-remote-code"},
        },
        field="spec.runtime.checkpoint",
        problem='"--trust-remote-code" is not the name of a checkpoint on Hugging Face, or a path',
        fix="write it as in RedHatAI/Meta-Llama-3-8B-Instruct-FP8",
        of_form=True,
    ),
    BadObject(
        "a version in words",
        DEPLOYMENT,
        {"spec.targetRef": REMOVED, "spec.runtime": {"type": "VLLM", "image": "vllm:1", "version": "latest"}},
        field="spec.runtime.version",
        problem='"latest" is not a version of two or three numbers',
        fix="write it as in 0.33",
        of_form=True,
    ),
    BadObject(
        "an unknown location",
        POOL,
        {"spec.location": "Edge"},
        field="spec.location",
        problem='"Edge" is not supported',
        fix="use one of Cloud, OnPrem",
        server='spec.location: Unsupported value: "Edge": supported values: "Cloud", "OnPrem"',
        rules_skipped=True,
    ),
    BadObject(
        "a budget of a million servers",
        POOL,
        {"spec.baseGPUs": 8000000},
        field="spec.baseGPUs",
        problem="8000000 is out of bounds",
        fix="use 1000000 or less",
        server="spec.baseGPUs: Invalid value: 8000000: spec.baseGPUs in body should be less than or equal to 1000000",
    ),
    BadObject(
        "a currency in words",
        POOL,
        {"spec.pricing.currency": "euro"},
        field="spec.pricing.currency",
        problem='"euro" is out of bounds',
        fix="use at most 3 characters",
        server="spec.pricing.currency: Too long: may not be more than 3 bytes",
        rules_skipped=True,
    ),
    BadObject(
        "a benchmark without points",
        BENCHMARK,
        {"spec.points": []},
        field="spec.points",
        problem="0 entries are out of bounds",
        fix="write at least 1",
        server="spec.points: Invalid value: 0: spec.points in body should have at least 1 items",
    ),
    BadObject(
        "a point that completes nothing",
        BENCHMARK,
        {"spec.points": [{"concurrency": 1, "requestsPerSecond": 0}]},
        field="spec.points[0].requestsPerSecond",
        problem="0 is out of bounds",
        fix="use more than 0",
        server=(
            "spec.points[0].requestsPerSecond: Invalid value: 0: spec.points[0].requestsPerSecond in body should be "
            "greater than 0"
        ),
    ),
    BadObject(
        "an unknown load",
        BENCHMARK,
        {"spec.load": "Static"},
        field="spec.load",
        problem='"Static" is not supported',
        fix="use one of ClosedLoop, Poisson",
        server='spec.load: Unsupported value: "Static": supported values: "ClosedLoop", "Poisson"',
        rules_skipped=True,
    ),
)
