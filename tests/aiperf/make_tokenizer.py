"""Makes a tokenizer for AIPerf that needs no network and counts as the emulated server does.

Run by the Python of AIPerf's own environment: `python make_tokenizer.py CORPUS FOLDER`. One token is a word or a
punctuation mark; the vocabulary is that of the corpus which AIPerf ships and makes its prompts from.

AIPerf's own `--tokenizer builtin` does not work offline: its tiktoken encoding is downloaded at first use.
"""

from __future__ import annotations

import re
import sys
from collections import Counter
from pathlib import Path

from tokenizers import Regex, Tokenizer, models, pre_tokenizers
from transformers import PreTrainedTokenizerFast

PATTERN = r"\w+|[^\w\s]"
"""That of firsttoken_operator.emulate.openai.count_tokens."""
SPECIAL = ("<unk>", "<end>")


def main(corpus: str, folder: str) -> None:
    found = Counter(re.findall(PATTERN, Path(corpus).read_text(encoding="utf-8")))
    vocabulary = {token: number for number, token in enumerate((*SPECIAL, *sorted(found)))}
    tokenizer = Tokenizer(models.WordLevel(vocabulary, unk_token=SPECIAL[0]))
    # Without a decoder, tokens are joined by blanks, so that decoded text splits into the same tokens again.
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [pre_tokenizers.WhitespaceSplit(), pre_tokenizers.Split(Regex(PATTERN), behavior="isolated")]
    )
    PreTrainedTokenizerFast(tokenizer_object=tokenizer, unk_token=SPECIAL[0], eos_token=SPECIAL[1]).save_pretrained(
        folder
    )


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2])
