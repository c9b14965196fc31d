"""The written forms that the API asks for: each regular expression, in words, with an example.

Refusals say the words, ours and the API server's (`schema.said_in_words`).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

RATE = r"^([0-9]+(\.[0-9]{1,3})?|[0-9]+m)$"
AMOUNT = r"^[0-9]+(\.[0-9]{1,6})?$"
SIGNED_AMOUNT = r"^-?[0-9]+(\.[0-9]{1,6})?$"
QUANTITY = r"^[0-9]+(\.[0-9]{1,9})?(m|k|M|G|T|Ki|Mi|Gi|Ti)?$"
DATE = r"^[0-9]{4}-[0-9]{2}-[0-9]{2}$"
HOUR = r"^([01][0-9]|2[0-3]):[0-5][0-9]$"
HOUR_OR_MIDNIGHT = r"^(([01][0-9]|2[0-3]):[0-5][0-9]|24:00)$"
# NB: every name of the IANA database begins with a capital; what a host adds (localtime, right/...) does not, and would
# mean another thing on another machine.
ZONE = r"^[A-Z][A-Za-z0-9_+-]*(/[A-Za-z0-9_+-]+){0,2}$"
CURRENCY = r"^[A-Z]{3}$"
NAME = r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?$"
LONG_NAME = r"^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$"
LABEL_KEY = r"^([a-z0-9]([-a-z0-9.]*[a-z0-9])?/)?[A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?$"
LABEL_VALUE = r"^([A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?)?$"
API_VERSION = r"^([a-z0-9]([-a-z0-9.]*[a-z0-9])?/)?v[a-z0-9]+$"
CAMEL_CASE_WORD = r"^[A-Z][A-Za-z0-9]*$"
SECRET_KEY = r"^[-._A-Za-z0-9]+$"
SETTING = r"^[A-Z][A-Z0-9_]*$"
FLAG = r"^--[a-z][a-z0-9_-]*(=[^ \t\r\n]+)?$"
CHECKPOINT = r"^/?[A-Za-z0-9][A-Za-z0-9._/-]*$"
SERVER_VERSION = r"^[0-9]{1,5}\.[0-9]{1,5}(\.[0-9]{1,5})?$"
IMAGE = r"^[A-Za-z0-9][-A-Za-z0-9._:/@]*$"
PATH = r"^/[-A-Za-z0-9._/]*$"
MODEL_NAME = r"^[A-Za-z0-9][A-Za-z0-9._/-]*$"
GPU_NAME = r"^[A-Za-z0-9][A-Za-z0-9._ -]*$"


class Form(NamedTuple):
    """A form in words, after "is not"; an example of it."""

    words: str
    example: str


FORMS: Mapping[str, Form] = {
    RATE: Form("a decimal number with at most three decimals", "28.54"),
    AMOUNT: Form("a decimal number with at most six decimals", "2.50"),
    SIGNED_AMOUNT: Form("a decimal number with at most six decimals", "-2.50"),
    QUANTITY: Form("a Kubernetes quantity", "64Gi"),
    DATE: Form("a day as YYYY-MM-DD", "2026-01-31"),
    HOUR: Form("a time of the day as HH:MM", "08:30"),
    HOUR_OR_MIDNIGHT: Form("a time of the day as HH:MM, or 24:00", "18:30"),
    ZONE: Form("a time zone of the IANA database", "Europe/Berlin"),
    CURRENCY: Form("a currency in three capitals", "EUR"),
    NAME: Form("a name of lower-case letters, digits and -", "chat-8b"),
    LONG_NAME: Form("a name of lower-case letters, digits, - and .", "chat-8b"),
    LABEL_KEY: Form("the key of a label or taint", "example.com/pool"),
    LABEL_VALUE: Form("the value of a label: at its ends a letter or digit, else also -, _ and .", "gpu-a"),
    API_VERSION: Form("an API version", "apps/v1"),
    CAMEL_CASE_WORD: Form("one word that begins with a capital", "Deployment"),
    SECRET_KEY: Form("a key of letters, digits, -, _ and .", "api-key"),
    SETTING: Form("a variable of capitals, digits and _", "NCCL_DEBUG"),
    FLAG: Form("a flag of the form --name or --name=value without spaces", "--seed=1"),
    CHECKPOINT: Form("the name of a checkpoint on Hugging Face, or a path", "RedHatAI/Meta-Llama-3-8B-Instruct-FP8"),
    SERVER_VERSION: Form("a version of two or three numbers", "0.33"),
    IMAGE: Form("a container image", "nvcr.io/nim/meta/llama3-8b-instruct:1.0.3"),
    PATH: Form("a path that begins with /", "/metrics"),
    MODEL_NAME: Form("a model name of letters, digits, ., _, - and /", "meta-llama/Meta-Llama-3-8B-Instruct"),
    GPU_NAME: Form("a GPU name of letters, digits, ., _, - and spaces", "H100-SXM-80GB"),
}
