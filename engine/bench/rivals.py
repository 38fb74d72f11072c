"""Other people's engines on the same weights: transformers, and flashspec and llama.cpp if there.

Every one gets the very prompt ids our engine reads, decodes greedily on as many threads, and is
timed from its first token to its last, so that nobody's reading of the prompt counts. Each
uses the settings its own documents recommend; `what` says exactly which.

- ``transformers``: `generate` plain; with our own small drafter as assistant (the same two
  layers and reduced head, as a Hugging Face model), or where there is none for this target with
  its own first layers; with prompt lookup.
- ``flashspec``: that drafter again, and its prompt lookup (PyPI; needs transformers).
- ``llama.cpp``: through `llama-cpp-python`, on a GGUF file, plain and with prompt lookup.

Knows how each is called; measures nothing but time.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Protocol

import torch
from safetensors.torch import load_file
from torch import Tensor, nn

from engine.drafters.packing import unpacked

NAMES = ("transformers", "flashspec", "llama.cpp")
PACKAGES = {
    "transformers": ("transformers", "transformers"),
    "flashspec": ("flashspec", "flashspec"),
    "llama.cpp": ("llama_cpp", "llama-cpp-python"),
}
"""By rival: the module that has to be there, and what to install for it."""

LOOKUP_TOKENS = 10
"""As in the examples of prompt lookup's author and of transformers."""

ASSISTANT_TOKENS = 4


@dataclass(frozen=True, slots=True)
class Written:
    """A reply as ids; `seconds` from the first token to the last, in which `timed_tokens` came."""

    ids: tuple[int, ...]
    seconds: float
    timed_tokens: int


class Rival(Protocol):
    """Somebody else's engine."""

    @property
    def name(self) -> str: ...
    @property
    def what(self) -> str:
        """What exactly is run, in one line."""

    def write(self, prompt: Sequence[int], tokens: int) -> Written:
        """Greedily continue the ids, by at most `tokens`."""


@dataclass(frozen=True, slots=True)
class Setting:
    """What all rivals share: the target's folder, our small drafter's, a GGUF file, and threads."""

    target: Path
    small: Path | None
    gguf: Path | None
    device: str
    dtype: torch.dtype
    threads: int


def missing(names: Sequence[str], gguf: Path | None) -> str | None:
    """Why these rivals cannot be had here, in one sentence; None when they can."""
    for name in names:
        module, package = PACKAGES[name]
        if find_spec(module) is None:
            return f"{name} is not installed: python -m pip install {package}"
    if "llama.cpp" in names and gguf is None:
        return "llama.cpp reads its weights from a GGUF file: name it with --gguf"
    if gguf is not None and not gguf.is_file():
        return f"There is no file {gguf}"
    return None


def rivals(names: Sequence[str], setting: Setting) -> list[Rival]:
    """Everybody of those names. Loading takes seconds, and memory for the weights once more."""
    found: list[Rival] = []
    if "transformers" in names or "flashspec" in names:
        pair = HuggingFacePair(setting)
        if "transformers" in names:
            found += _transformers(pair)
        if "flashspec" in names:
            found += _flashspec(pair)
    if "llama.cpp" in names:
        found += _llama_cpp(setting)
    return found


@dataclass(frozen=True, slots=True)
class Threaded:
    """A rival that is a function, and the threads it may use while it is called."""

    name: str
    what: str
    threads: int
    decode: Callable[[Sequence[int], int], Written]

    def write(self, prompt: Sequence[int], tokens: int) -> Written:
        before = torch.get_num_threads()
        torch.set_num_threads(self.threads)
        try:
            return self.decode(prompt, tokens)
        finally:
            torch.set_num_threads(before)


# --- transformers --------------------------------------------------------------------------


class HuggingFacePair:
    """The target as transformers loads it, and our small drafter as one more such model."""

    def __init__(self, setting: Setting) -> None:
        from transformers import AutoModelForCausalLM

        self.setting = setting
        load: Any = AutoModelForCausalLM.from_pretrained
        self.target: Any = load(
            setting.target, dtype=setting.dtype, local_files_only=True, trust_remote_code=False
        )
        self.target.to(setting.device).eval()
        self.small: Any = None
        if setting.small is not None:
            self.small = _as_hugging_face(self.target, setting.small)


class ReducedHead(nn.Module):
    """Logits over the whole vocabulary from a head of few rows: others get none."""

    def __init__(self, rows: Tensor, ids: Tensor, vocab_size: int) -> None:
        """`rows` (reduced, H), and the `ids` (reduced,) they stand for."""
        super().__init__()
        self.rows, self.ids = rows, ids
        self.vocab_size = vocab_size

    def forward(self, hidden: Tensor) -> Tensor:
        logits = nn.functional.linear(hidden, self.rows)
        lowest = torch.finfo(logits.dtype).min
        whole = logits.new_full((*logits.shape[:-1], self.vocab_size), lowest)
        return whole.index_copy_(-1, self.ids, logits)


def _as_hugging_face(target: Any, folder: Path) -> Any:
    """Our distilled drafter (see `engine.training.student`) as a transformers model.

    It shares the target's embedding, as it does in our own engine.
    """
    from transformers import LlamaConfig, LlamaForCausalLM

    shape = LlamaConfig.from_pretrained(folder, local_files_only=True)
    shape.eos_token_id, shape.tie_word_embeddings = target.config.eos_token_id, False
    tensors = unpacked(load_file(folder / "model.safetensors"))
    ids = tensors.pop("vocab_ids").long()
    embedding = target.get_input_embeddings().weight
    with torch.no_grad():
        model: Any = LlamaForCausalLM(shape)
        model.model.load_state_dict(tensors, strict=False)  # all but the embedding
        model.to(dtype=embedding.dtype, device=embedding.device)
        model.model.embed_tokens.weight = embedding
        model.lm_head = ReducedHead(embedding[ids], ids.to(embedding.device), shape.vocab_size)
    model.generation_config.num_assistant_tokens = ASSISTANT_TOKENS
    model.generation_config.num_assistant_tokens_schedule = "constant"
    model.eval()
    return model


def _transformers(pair: HuggingFacePair) -> Iterator[Rival]:
    from transformers import StoppingCriteria, StoppingCriteriaList
    from transformers import __version__ as version

    setting = pair.setting

    def rival(name: str, what: str, **options: Any) -> Threaded:
        def decode(prompt: Sequence[int], tokens: int) -> Written:
            ids = torch.tensor([list(prompt)], device=setting.device)
            ticks = Ticks()
            with torch.inference_mode():
                out = pair.target.generate(
                    ids,
                    attention_mask=torch.ones_like(ids),
                    max_new_tokens=tokens,
                    do_sample=False,
                    stopping_criteria=StoppingCriteriaList([ticks]),
                    **options,
                )
            ended = time.perf_counter()
            written = tuple(out[0, len(prompt) :].tolist())
            assert ticks.first is not None  # asked after every pass
            began, already = ticks.first
            return Written(written, ended - began, len(written) - (already - len(prompt)))

        return Threaded(name, f"transformers {version} generate, {what}", setting.threads, decode)

    class Ticks(StoppingCriteria):  # type: ignore[misc, unused-ignore]
        """Never stops; remembers when the first tokens were there, and the length then."""

        first: tuple[float, int] | None = None

        def __call__(self, ids: Tensor, scores: Tensor, **_: Any) -> Tensor:
            self.first = self.first or (time.perf_counter(), ids.shape[1])
            return torch.zeros(ids.shape[0], dtype=torch.bool, device=ids.device)

    yield rival("transformers plain", "greedy, one token a pass")
    if pair.small is not None:
        what = f"the same small drafter as assistant, {ASSISTANT_TOKENS} tokens, constant schedule"
        yield rival("transformers assisted", what, assistant_model=pair.small)
    else:
        layers = max(1, pair.target.config.num_hidden_layers * 2 // 3)
        what = f"the target's own first {layers} layers as assistant"
        yield rival("transformers early exit", what, assistant_early_exit=layers)
    what = f"prompt lookup of {LOOKUP_TOKENS} tokens"
    yield rival("transformers lookup", what, prompt_lookup_num_tokens=LOOKUP_TOKENS)


# --- flashspec -----------------------------------------------------------------------------


def _flashspec(pair: HuggingFacePair) -> Iterator[Rival]:
    import flashspec
    from flashspec.engine import HuggingFaceDrafter, NgramDrafter, TargetModel

    setting = pair.setting
    device = torch.device(setting.device)
    eos = pair.target.config.eos_token_id
    stops = (eos,) if isinstance(eos, int) else tuple(eos)

    def rival(name: str, what: str, strategy: str, drafter: Any) -> Threaded:
        target = TargetModel("target", device, setting.dtype, model=pair.target)
        options = flashspec.FlashSpecConfig(
            device=setting.device,
            drafter_strategy=strategy,
            sampling=flashspec.SamplingConfig(temperature=0.0),
            **({"bandit": flashspec.BanditConfig(n_arms=1)} if strategy == "bandit" else {}),
        )
        engine = flashspec.SpeculativeEngine(options, [drafter], target)

        def decode(prompt: Sequence[int], tokens: int) -> Written:
            ids = torch.tensor([list(prompt)], device=device)
            with torch.inference_mode():
                done = engine.generate(ids, max_new_tokens=tokens, eos_token_ids=stops)
            written = tuple(done.output_ids[0, : done.n_tokens_generated].tolist())
            steps = done.arm_steps[1:]  # the first reads the prompt
            seconds = sum(step.seconds for step in steps)
            return Written(written, seconds, sum(step.emitted for step in steps))

        return Threaded(name, f"flashspec {flashspec.__version__}, {what}", setting.threads, decode)

    if pair.small is not None:
        small = HuggingFaceDrafter("small", device, setting.dtype, 0.0, model=pair.small)
        what = "its default composite-g6-f2: prompt lookup, else the same small drafter"
        yield rival("flashspec", what, "composite-g6-f2", small)
    yield rival("flashspec lookup", "its prompt lookup alone", "bandit", NgramDrafter())


# --- llama.cpp -----------------------------------------------------------------------------


def _llama_cpp(setting: Setting) -> Iterator[Rival]:
    import llama_cpp
    from llama_cpp.llama_speculative import LlamaPromptLookupDecoding

    assert setting.gguf is not None
    version = f"llama-cpp-python {llama_cpp.__version__}, {setting.gguf.name}"

    def rival(name: str, what: str, drafter: Any) -> Threaded:
        model = llama_cpp.Llama(
            str(setting.gguf),
            n_ctx=2048,
            n_threads=setting.threads,
            n_threads_batch=setting.threads,
            n_gpu_layers=0 if setting.device == "cpu" else -1,
            draft_model=drafter,
            verbose=False,
        )

        def decode(prompt: Sequence[int], tokens: int) -> Written:
            model.reset()
            written: list[int] = []
            began = ended = 0.0
            for token in model.generate(list(prompt), temp=0.0, repeat_penalty=1.0):
                written.append(token)
                ended = time.perf_counter()
                began = began or ended
                if token == model.token_eos() or len(written) >= tokens:
                    break
            return Written(tuple(written), ended - began, max(len(written) - 1, 0))

        return Threaded(name, f"{version}, {what}", setting.threads, decode)

    yield rival("llama.cpp plain", "greedy, one token a pass", None)
    lookup = LlamaPromptLookupDecoding(num_pred_tokens=LOOKUP_TOKENS)
    yield rival("llama.cpp lookup", f"prompt lookup of {LOOKUP_TOKENS} tokens", lookup)
