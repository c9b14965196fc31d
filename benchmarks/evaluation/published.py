"""Published throughput of TensorRT-LLM in the layouts that mixtures of experts are deployed in.

Output tokens a second and GPU, every request there at once, requests of equal length (Apache-2.0):
developer-guide/perf-overview.md of NVIDIA/TensorRT-LLM at 03e27c7, without the pipelines of RTX 6000 and
without 1024/1024, which is 1000/1000 again. "DEP": attention on every GPU for itself, experts over all. What the page
says of the settings is declared: DeepSeek-R1, and gpt-oss on Blackwell, with a KV cache in FP8. It also gave the cache
95 % of the memory "in many cases", without saying which; the engine's own share is left.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from firsttoken_sizing.catalog import resolve_gpu, resolve_model
from firsttoken_sizing.declared import AS_INSTALLED, DeclaredSettings
from firsttoken_sizing.profile import ConfigurationKey

_GPUS = {"B200": "B200-SXM-180GB", "GB200": "GB200", "H200": "H200-SXM-141GB", "H100": "H100-SXM-80GB"}
_EIGHT_BITS = DeclaredSettings(kv_cache_bits=8)
_TABLES = """
deepseek-ai/DeepSeek-R1 | B200 NVFP4 DEP4 8 | GB200 NVFP4 DEP4 8 | H200 FP8 DEP8 8
1000/1000 | 6463 | 6939 | 1627
1024/8192 | 3862 | 4379 | 1218
1024/32768 | 1451 | 1465 | 438
8192/1024 | 1168 | 1192 |

openai/gpt-oss-120b | B200 MXFP4 DEP2 8 | GB200 MXFP4 TP1 8 | H200 MXFP4 TP1 | H100 MXFP4 DEP4
1000/1000 | 25943 | 27198 | 6868 | 4685
1024/8192 | 17289 | 14800 | 3543 |
1024/32768 | 6279 | 5556 | | 1177
8192/1024 | 6111 | 6835 | 1828 | 1169
32768/1024 | 1392 | 1645 | 519 | 333

openai/gpt-oss-20b | B200 MXFP4 TP1 8 | GB200 MXFP4 TP1 8 | H200 MXFP4 TP1 | H100 MXFP4 TP1
1000/1000 | 53812 | 55823 | 13858 | 11557
1024/8192 | 34702 | 38100 | 12743 | 8617
1024/32768 | 14589 | 16463 | |
8192/1024 | 11904 | 12941 | 4015 | 3366
32768/1024 | 2645 | 2905 | 915 | 785

meta-llama/Llama-3.3-70B-Instruct | B200 NVFP4 TP1 | GB200 NVFP4 TP1 | H200 FP8 TP2 | H100 FP8 TP2
1000/1000 | 6920 | 7769 | 2587 | 2209
1024/8192 | 3242 | 3805 | 2009 |
8192/1024 | 1362 | 1491 | 537 | 398
32768/1024 | 274 | 302 | 120 |

Llama-4-Maverick | B200 NVFP4 DEP4 | GB200 NVFP4 DEP4 | H200 FP8 DEP8
1000/1000 | 11337 | 11828 | 4146
1024/8192 | 5174 | 5508 | 1157
1024/32768 | 2204 | 2300 | 679
8192/1024 | 3279 | 3444 | 1276
32768/1024 | 859 | 963 |

Qwen/Qwen3-235B-A22B | B200 NVFP4 DEP4 | GB200 NVFP4 DEP4 | H200 FP8 DEP4 | H100 FP8 DEP8
1000/1000 | 5764 | 6172 | 3288 | 1932
1024/8192 | 3389 | 3423 | 1417 | 873
1024/32768 | 1255 | | |
8192/1024 | 1410 | 1464 | 627 |
32768/1024 | 319 | 333 | 134 |

Qwen/Qwen3-30B-A3B | B200 NVFP4 TP1 | GB200 NVFP4 TP1
1000/1000 | 26971 | 22856
1024/8192 | 13497 | 14272
1024/32768 | 4494 | 4925
8192/1024 | 5735 | 6201
32768/1024 | 1265 | 1380
"""


@dataclass(frozen=True, slots=True)
class Published:
    """One figure: a layout, its lengths, and output tokens a second and GPU."""

    key: ConfigurationKey
    declared: DeclaredSettings
    input_tokens: float
    output_tokens: float
    tokens_per_second_and_gpu: float


def published() -> Iterator[Published]:
    """Every figure of the tables."""
    for table in _TABLES.strip().split("\n\n"):
        head, *lines = (tuple(cell.strip() for cell in line.split("|")) for line in table.splitlines())
        for lengths, *figures in lines:
            prompt, answer = map(float, lengths.split("/"))
            for layout, figure in zip(head[1:], figures, strict=True):
                if figure:
                    yield Published(*_layout(head[0], layout), prompt, answer, float(figure))


def _layout(model: str, words: str) -> tuple[ConfigurationKey, DeclaredSettings]:
    gpu, precision, layout, *cache = words.split()
    ways = int(layout.removeprefix("DEP").removeprefix("TP"))
    groups = ways if layout.startswith("DEP") else 1
    name, server = resolve_model(model).name, resolve_gpu(_GPUS[gpu]).name
    key = ConfigurationKey(name, server, precision, ways, attention_data_parallel=groups)
    return key, _EIGHT_BITS if cache else AS_INSTALLED
