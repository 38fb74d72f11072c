"""Text to token ids and back, exactly.

Text that a person typed never becomes a special token: ``<|im_end|>`` in a prompt is a few
ordinary pieces. A token that holds part of a character decodes with ``surrogateescape``, so
that it joins with its neighbours into the right text.

Knows ``tokenizer.json`` and ``tokenizer_config.json`` of a model folder, and only tokenizers
over bytes (GPT-2's alphabet), whose ids stand for exact byte strings.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from functools import cache, cached_property
from pathlib import Path
from typing import Any

from engine.trace import Token, join_text

# Stands for the prompt while the template is rendered; a private-use character no template has.
_PROMPT_MARK = "\ue0f7"


class TokenizerError(ValueError):
    """A folder whose tokenizer this program cannot use; the message is one clear sentence."""


class Tokenizer:
    """The tokenizer of one model folder. `eos_ids` end a reply."""

    def __init__(
        self, rules: str, config: dict[str, Any], eos_ids: tuple[int, ...], scored: int = 0
    ) -> None:
        """Take the text of ``tokenizer.json``, the tokenizer config and the ids that end text.

        `scored` ids have a place in the model's law: those past the vocabulary, which pad it to a
        round size, are tokens of no text.
        """
        import tokenizers

        self._backend = tokenizers.Tokenizer.from_str(rules)
        self._backend.no_truncation()
        self._backend.no_padding()
        self._backend.encode_special_tokens = True  # special tokens in text stay plain text
        added = self._backend.get_added_tokens_decoder()
        self._specials = {token.content: id_ for id_, token in added.items()}
        self._template: str | None = config.get("chat_template")
        self._template_names = {
            name: _content(config.get(name)) for name in ("bos_token", "eos_token")
        }
        self.eos_ids = eos_ids
        self.vocab_size = max(scored, self._backend.get_vocab_size(with_added_tokens=True))
        pieces = self._backend.get_vocab(with_added_tokens=False)
        self._lacking = {byte for char, byte in _byte_of_char().items() if char not in pieces}
        self._tokens = [self._build_token(id_) for id_ in range(self.vocab_size)]

    @classmethod
    def from_folder(cls, folder: Path) -> Tokenizer:
        """Read the tokenizer of a model folder. Raises TokenizerError."""
        try:
            rules = (folder / "tokenizer.json").read_text(encoding="utf-8")
            config = json.loads((folder / "tokenizer_config.json").read_text(encoding="utf-8"))
            model = json.loads((folder / "config.json").read_text(encoding="utf-8"))
            if '"ByteLevel"' not in rules:
                raise TokenizerError(f"the tokenizer of {folder.name} does not work on bytes")
            eos_ids = _eos_ids(model)
            generation = folder / "generation_config.json"
            if generation.is_file():  # often names more of them: end of turn, end of message
                eos_ids += _eos_ids(json.loads(generation.read_text(encoding="utf-8")))
            size = int(model.get("vocab_size") or 0)
            return cls(rules, config, tuple(dict.fromkeys(eos_ids)), size)
        except TokenizerError:
            raise
        except Exception as error:  # the tokenizers library raises bare Exception
            raise TokenizerError(f"{folder} has no usable tokenizer: {error}") from error

    def encode(self, text: str) -> list[int]:
        """Return the ids of `text`, all of them ordinary tokens.

        Lone surrogates (bytes that were not UTF-8 on a command line) become U+FFFD first, and so
        do characters the vocabulary has no bytes for (the default target's lacks some control
        characters), which would otherwise vanish.
        """
        whole = text.encode("utf-8", "surrogateescape").decode("utf-8", "replace")
        if self._lacking.intersection(whole.encode()):
            whole = "".join(map(self._or_replacement, whole))
        ids: list[int] = self._backend.encode(whole, add_special_tokens=False).ids
        return ids

    def _or_replacement(self, char: str) -> str:
        return "\ufffd" if self._lacking.intersection(char.encode()) else char

    def chat(self, prompt: str) -> list[int]:
        """Return the ids of one user turn in the model's template, ready for the reply.

        Only the template's own text yields special tokens. Without a template, the bare prompt.
        """
        ids: list[int] = []
        for piece, special in _split(self._turn, self._specials):
            ids += (
                [special]
                if special is not None
                else self.encode(piece.replace(_PROMPT_MARK, prompt))
            )
        return ids

    @property
    def frame(self) -> tuple[str, str]:
        """What the template writes before and after one user turn."""
        before, _, after = self._turn.partition(_PROMPT_MARK)
        return before, after

    @cached_property
    def _turn(self) -> str:
        """The template around the mark of a prompt; without a template, the bare mark."""
        if self._template is None:
            return _PROMPT_MARK
        return _render(self._template, _PROMPT_MARK, **self._template_names)

    def token(self, id_: int) -> Token:
        """Return token `id_` with its text. Raises IndexError on an id outside the vocabulary."""
        if id_ < 0:
            raise IndexError(f"token id {id_} is negative")
        return self._tokens[id_]

    def decode(self, ids: Iterable[int]) -> str:
        """Return the text of `ids`; bytes that never became a character read as U+FFFD."""
        return join_text(self.token(id_) for id_ in ids)

    def _build_token(self, id_: int) -> Token:
        piece = self._backend.id_to_token(id_)
        if piece is None:
            return Token(id_, "")
        if piece in self._specials:
            return Token(id_, piece)
        alphabet = _byte_of_char()
        return Token(
            id_, bytes(alphabet[char] for char in piece).decode("utf-8", "surrogateescape")
        )


@cache
def _byte_of_char() -> dict[str, int]:
    """GPT-2's alphabet: printable characters stand for themselves, 68 further ones for the rest."""
    printable = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    others = sorted(set(range(256)) - set(printable))
    stand_ins = {chr(256 + index): byte for index, byte in enumerate(others)}
    return {chr(byte): byte for byte in printable} | stand_ins


def _render(template: str, content: str, **names: str) -> str:
    """Render a Hugging Face chat template for one user turn and the opening of the reply."""
    from jinja2.sandbox import ImmutableSandboxedEnvironment

    environment = ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True)
    messages = [{"role": "user", "content": content}]
    return environment.from_string(template).render(
        messages=messages, add_generation_prompt=True, **names
    )


def _split(text: str, specials: dict[str, int]) -> Iterable[tuple[str, int | None]]:
    """Cut `text` at special tokens: (piece, its special id or None), empty pieces left out."""
    import re

    longest_first = sorted(specials, key=len, reverse=True)
    pattern = "|".join(re.escape(special) for special in longest_first)
    for piece in re.split(f"({pattern})", text) if specials else [text]:
        if piece:
            yield piece, specials.get(piece)


def _eos_ids(config: dict[str, Any]) -> tuple[int, ...]:
    """The ids that end text as configs write them: one, a list, or none."""
    eos = config.get("eos_token_id")
    return tuple(map(int, eos)) if isinstance(eos, list) else () if eos is None else (int(eos),)


def _content(token: Any) -> str:
    """The text of a token as tokenizer configs write it: a string or a dict with ``content``."""
    return str(token.get("content", "")) if isinstance(token, dict) else str(token or "")
