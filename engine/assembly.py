"""Puts an engine together: model on disk to a target, its drafters and runs of both.

The one place where folder, device, kernels, tokenizer and drafters meet. Says what it is doing
through `report`, for opening takes seconds and a first fetch takes longer.

Knows which part does what; does none of it.
"""

from __future__ import annotations

import hashlib
import uuid
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import cached_property
from pathlib import Path

import torch
from safetensors.torch import load_file
from torch import Tensor

from engine import config, devices, fetch, kernels
from engine.bench.live import Aside, Comparing
from engine.beside import Beside
from engine.comparison import ALONE
from engine.config import EngineConfig
from engine.decode import READ_AT_ONCE, Session, check_prompt
from engine.devices import Device, DeviceError
from engine.drafters import auto, trained
from engine.drafters.auto import Choice, Measured
from engine.drafters.catalogue import Catalogue, Makers, unigram
from engine.drafters.eagle import FusedRunner
from engine.drafters.medusa import Heads
from engine.drafters.memory import Memory, memory_of
from engine.drafters.packing import BYTES, unpacked
from engine.drafters.pard import MaskRunner
from engine.drafters.suffix_index import Layers
from engine.footprint import Footprint, footprint
from engine.gguf_model import NoBlocksError, read_blocks
from engine.kernels import Kernels
from engine.llama import LlamaConfig, ModelError, Runner, Weights
from engine.lowbit import Width, copy_of, encode
from engine.requests import Compare, Start
from engine.tokenizer import Tokenizer, TokenizerError
from engine.trace import Baseline, EngineState, RunHeader, Settings

Report = Callable[[EngineState], None]

CONTEXT = 2048
"""Most tokens a run may hold, prompt included; a model's own limit may be lower."""

MOST_THREADS = 8
"""Threads beyond these wait for memory, not for each other's work."""

DRAFTERS = Path(__file__).resolve().parent.parent / "assets" / "drafters"


WARM_UP_PROMPT = 32

SIP = 16
"""Tokens of a prompt read in one pass beside a run on a CPU, where a longer pass would delay."""


@dataclass(frozen=True, slots=True)
class Machine:
    """What everything is computed on, as the header of a run tells it."""

    device: str
    dtype: str
    kernel: str
    threads: int
    notice: str = ""


def open_engine(
    options: EngineConfig,
    report: Report,
    beside_window: bool = False,
    first: Start | None = None,
) -> Engine:
    """Load what `options` name, fetching the default target first if it is not there.

    `beside_window` leaves a core to whoever draws. The prompt of the `first` run is looked at
    before anything heavy is loaded. Raises ModelError, TokenizerError, FetchError, DeviceError or
    OSError, each one clear sentence; for that prompt as `Engine.admit`.
    """
    folder = options.target or fetch.cached_folder() or fetch.fetch(report=report)
    report(EngineState("loading", f"Loading {folder.name}"))
    if first is not None:
        _look_at(first, folder)
    shipped = DRAFTERS if options.target is None else None
    if options.drafters is not None:
        shipped = trained.check(options.drafters, LlamaConfig.from_folder(folder))
    device = _device(options, beside_window)
    if device.notice:
        report(EngineState("loading", device.notice))
    threads = options.threads or min(MOST_THREADS, device.threads)
    report(EngineState("loading", "Preparing the kernels"))
    kernel = kernels.choose(device.name, device.dtype, threads)
    report(EngineState("loading", f"Computing on {device.name} with {kernel.name}"))
    # Beside compiled passes torch only shapes laws: threads there would wait, not work.
    torch.set_num_threads(1 if kernel.team else threads)
    dtype = device.dtype_name if options.weights == "full" else options.weights
    machine = Machine(device.name, dtype, kernel.name, threads, device.notice)
    try:
        weights = _weights(folder, options.weights, device)
        memory = None
        if options.replies is not None:
            memory = memory_of(options.replies, folder, options.weights, weights.config.vocab_size)
        engine = Engine(folder, weights, kernel, machine, shipped, report, memory)
    except (ModelError, TokenizerError) as error:
        if options.target is not None or isinstance(error, NoBlocksError):
            raise
        raise ModelError(
            f"The model in {folder} is damaged: delete that folder and run "
            f"`python main.py fetch` ({error})."
        ) from error
    if engine.machine.kernel != kernel.name:
        report(EngineState("loading", f"Computing with {engine.machine.kernel}"))
    report(EngineState("loading", "Making a first pass"))
    engine.warm_up()
    return engine


def _device(options: EngineConfig, beside_window: bool) -> Device:
    """The device these options come to. Raises DeviceError."""
    name, dtype = options.device, options.dtype
    if options.weights != "full":
        if name not in ("auto", "cpu") or dtype not in ("auto", "float32"):
            raise DeviceError(
                f"{options.weights} weights run on the CPU in float32: leave out --device and "
                "--dtype, or --weights."
            )
        name, dtype = "cpu", "float32"
    return devices.choose(name, dtype, options.threads or 0, beside_window)


def _weights(folder: Path, form: str, device: Device) -> Weights:
    """The target's weights in one of the forms of `arguments.WEIGHTS`."""
    if form == "q4_1":
        return Weights.from_tensors(LlamaConfig.from_folder(folder), read_blocks(folder))
    weights = Weights.load(folder, device.dtype, device.name)
    return copy_of(weights, Width(8)) if form == "int8" else weights


class Engine:
    """A target and its drafters. Makes one run at a time: a new one takes over the target."""

    def __init__(
        self,
        folder: Path,
        weights: Weights,
        kernel: Kernels,
        machine: Machine,
        shipped: Path | None,
        report: Report,
        memory: Memory | None = None,
    ) -> None:
        """`shipped` is the folder of drafters made for this very target, if there are any.

        `memory` holds its earlier replies, where they are kept.
        """
        self._target = kernel.runner(weights, CONTEXT, same_bits=True)
        self.name = fetch.title(folder)
        self._tokenizer = Tokenizer.from_folder(folder)
        self._kernel = kernel
        self._unigram = unigram(shipped, weights.config.vocab_size).to(weights.embedding.device)
        self._desk = kernel.desk(weights, self._unigram)  # of one run after the other
        self.machine = replace(machine, kernel=kernel.name_of(self._target, self._desk))
        self._catalogue = Catalogue(
            _makers(self._target, kernel, report), shipped, remembers=memory is not None
        )
        self._report, self._speed_mark = report, _speed_mark(shipped or DRAFTERS)
        self._memory = memory
        self._notice = ""
        self._measured: dict[tuple[int, int], Measured] = {}
        self._run: Session | None = None
        self._to_keep: Session | None = None  # the run whose reply is to be remembered

    @property
    def drafters(self) -> tuple[str, ...]:
        """Every name that can be chosen."""
        return ("auto", "none", *self._catalogue.names)

    @property
    def eos_ids(self) -> tuple[int, ...]:
        return self._tokenizer.eos_ids

    def warm_up(self) -> None:
        """Make passes of the usual widths: compiled code is loaded, or made, at first use."""
        for width in (WARM_UP_PROMPT, 1, Settings().k + 1):
            self._target.rollback(0)
            self._target.forward([0] * width)
        self._target.rollback(0)

    def meant_by_auto(self, settings: Settings) -> Choice:
        """What "auto" means on this machine under these settings: measured once, then remembered.

        It is measured on rows of its own, for a run may be going on.
        """
        asked, m = auto.asked_for(settings), self.machine
        if asked not in self._measured:
            self._measured[asked] = auto.choose(
                lambda prompt, settings, tokens: self._session(
                    Start(prompt, settings=settings, max_new_tokens=tokens),
                    settings.drafter,
                    reason="",
                    target=self._second_target,
                ),
                self._catalogue.names,
                key=f"{self.name} {m.device} {m.dtype} {m.kernel} {m.threads} {self._speed_mark}",
                memory=fetch.cache_root() / "auto.json",
                progress=lambda step: self._report(EngineState("measuring", f"Measuring {step}")),
                asked=asked,
            )
        return self._measured[asked].choice(settings)

    def check(self, settings: Settings) -> None:
        """Raise ValueError, one clear sentence, when no run can have these settings."""
        config.check(settings)
        if settings.drafter not in ("auto", "none"):
            self._catalogue.look_at(settings.drafter)

    def admit(self, start: Start) -> None:
        """Raise ValueError or DecodeError, one clear sentence, when no such run can be had.

        Touches no run.
        """
        self.check(start.settings)
        check_prompt(len(prompt_ids(self._tokenizer, start)), self._target.context)

    def begin(self, start: Start, baseline: Baseline | None = None) -> Session:
        """Start a run, its baseline measured; the target then holds that run and no other.

        `baseline` is one that was measured in this session already. Raises as `admit`.
        """
        self.admit(start)
        drafter, reason = start.settings.drafter, "chosen by name"
        if drafter == "auto":
            meant = self.meant_by_auto(start.settings)
            drafter, reason = meant.drafter, meant.reason
            if start.settings.auto_k:
                start = replace(start, settings=replace(start.settings, k=meant.k))
        if drafter != "none" and start.settings.effective_k:
            self._catalogue(drafter)  # made before the run rather than inside its first round
        self._run = session = self._session(start, drafter, reason, self._target)
        self._to_keep = None
        if start.remember and self._memory is not None:
            self._to_keep, session.memory = session, self._recall(self._memory)
            session.header = replace(session.header, remembered=len(session.memory))
        if baseline is not None:
            session.header = replace(session.header, baseline=baseline)
        elif session.finished is None:
            session.measure_baseline()
        return session

    def remember(self) -> None:
        """Keep the reply of the run begun last, if it may be kept; nothing where it did not end."""
        run, self._to_keep = self._to_keep, None
        if run is None or self._memory is None:
            return
        if run.finished is not None and run.finished.reason != "cancelled":
            self._memory.keep(run.ids[len(run.header.prompt_tokens) :])
            self._notice = self._memory.notice

    def _recall(self, memory: Memory) -> Layers:
        earlier = memory.recall()
        self._notice = memory.notice
        return earlier

    def take_notice(self) -> str:
        """One sentence people should see although all goes on, once; "" when there is none."""
        notice, self._notice = self._notice, ""
        return notice

    def footprint(self, name: str) -> Footprint:
        """What the drafter of this name holds beside the target. Raises ValueError as `check`."""
        return footprint(self._catalogue(name), (self._target,))

    def aside(self) -> Aside:
        """Runs on cache rows of their own, for as long as somebody keeps it."""
        target = self._kernel.runner(self._target.weights, CONTEXT, same_bits=True)
        drafters = self._catalogue.on_rows_of(target.first_layers)
        return Aside(
            lambda start: self._session(
                start, start.settings.drafter, "compared", target, drafters
            ),
            lambda name: footprint(drafters(name), (self._target, target)),
        )

    def compare(self, request: Compare) -> Comparing:
        """Compare drafters beside whatever run goes on. Raises as `admit` where it cannot be."""
        for name in request.drafters:  # a damaged one costs only its own row
            if name not in ("auto", ALONE):
                self._catalogue.check(name)
        for each in request.samples:
            alone = replace(request.settings, drafter=ALONE)
            self.admit(Start(each.prompt, each.chat, alone, max_new_tokens=request.tokens))
        return Comparing(self.aside(), request)

    def beside(self) -> Beside | None:
        """The target alone beside the run begun last; None where its text was sampled."""
        run = self._run
        choices = [choice for choice in run.choices if choice is not None] if run else []
        if run is None or not choices or len(choices) < len(run.choices):
            return None
        at_once = SIP if self._target.weights.embedding.device.type == "cpu" else READ_AT_ONCE
        return Beside(self._second_target, self._tokenizer, run.ids, choices, at_once)

    @cached_property
    def _second_target(self) -> Runner:
        """The target on cache rows of its own, for passes beside a run that may be going on."""
        return self._kernel.runner(self._target.weights, CONTEXT, same_bits=True)

    def _session(
        self,
        start: Start,
        drafter: str,
        reason: str,
        target: Runner,
        drafters: Catalogue | None = None,
    ) -> Session:
        made = drafters or self._catalogue
        header = RunHeader(
            run_id=uuid.uuid4().hex[:8],
            created=datetime.now(UTC).isoformat(timespec="seconds"),
            target=self.name,
            device=self.machine.device,
            dtype=self.machine.dtype,
            kernel=self.machine.kernel,
            drafter=drafter,
            drafter_reason=reason,
            settings=start.settings,
            prompt=start.prompt,
            chat=start.chat,
            prompt_tokens=tuple(map(self._tokenizer.token, prompt_ids(self._tokenizer, start))),
            vocab_size=target.weights.config.vocab_size,
            context_limit=target.context,
            max_new_tokens=start.max_new_tokens,
            stop=start.stop,
            seed=start.seed,
            baseline=None,
            prefill_seconds=0.0,
            target_layers=target.weights.config.layers,
        )
        return Session(
            target,
            self._tokenizer,
            lambda name: made(
                self.meant_by_auto(start.settings).drafter if name == "auto" else name
            ),
            self._unigram,
            header,
            reading=lambda done, total: self._report(
                EngineState("reading", "Reading the prompt", done, total)
            ),
            desk=self._desk,
        )


def _look_at(start: Start, folder: Path) -> None:
    """Refuse a prompt before anything heavy is loaded; faults of the folder are found later."""
    try:
        tokenizer, shape = Tokenizer.from_folder(folder), LlamaConfig.from_folder(folder)
    except (ModelError, TokenizerError):
        return
    check_prompt(len(prompt_ids(tokenizer, start)), min(CONTEXT, shape.context))


def prompt_ids(tokenizer: Tokenizer, start: Start) -> list[int]:
    """The prompt as ids. Raises ValueError when there is nothing in it."""
    if not start.prompt.strip():
        raise ValueError("The prompt is empty: write something for the model to answer.")
    return list((tokenizer.chat if start.chat else tokenizer.encode)(start.prompt))


def _speed_mark(drafters: Path) -> str:
    """Changes with whatever else decides how fast a drafter is: code, libraries, weights."""
    here = Path(__file__).parent
    code = [*(here / name for name in _SPEED), *sorted(here.glob("drafters/*.py"))]
    digest = hashlib.sha256(torch.__version__.encode())
    for path in (*code, *sorted(drafters.rglob("*.json"))):
        digest.update(path.read_bytes())
    sizes = [path.stat().st_size for path in sorted(drafters.rglob("*.safetensors"))]
    digest.update(repr(sizes).encode())
    return digest.hexdigest()[:12]


_SPEED = (
    "decode.py", "desk.py", "device_round.py", "graphs.py", "kernels.py", "lanes.py", "llama.py",
    "lowbit.py", "rowpass.py", "tiles.py", "weights.py",
)  # fmt: skip


def _makers(target: Runner, kernel: Kernels, report: Report) -> Makers:
    """How drafters are made of, or for, this target."""
    weights = target.weights
    like = weights.embedding

    def low_bit_copy(width: Width) -> Runner:
        report(EngineState("measuring", f"Rounding the target to {width.bits} bits"))
        runner = kernel.runner(copy_of(weights, width), CONTEXT)
        runner.forward([0])  # its compiled code is loaded, or made, at first use
        runner.rollback(0)
        return runner

    def shipped(folder: Path) -> tuple[Weights, dict[str, Tensor]]:
        """A drafter's weights; compiled passes read a byte a weight, which costs hardly a guess."""
        shape = LlamaConfig.from_folder(folder)
        tensors = unpacked(load_file(folder / "model.safetensors"))
        whole = Weights.from_tensors(shape, tensors, like.dtype, str(like.device), like)
        return copy_of(whole, BYTES) if kernel.team is not None else whole, tensors

    def distilled(folder: Path) -> Runner:
        return kernel.runner(shipped(folder)[0], CONTEXT)

    def masked(folder: Path) -> MaskRunner:
        model, tensors = shipped(folder)
        context = min(CONTEXT, model.config.context)
        masks = tensors["masks"].to(like)
        return MaskRunner(model, masks, context, kernel.kernel(model, context))

    def fused(folder: Path) -> FusedRunner:
        layer, tensors = shipped(folder)
        context = min(CONTEXT, layer.config.context)
        fusion = tensors["fusion.weight"].to(like)
        return FusedRunner(layer, fusion, context, kernel.kernel(layer, context))

    def heads(folder: Path) -> Heads:
        tensors = unpacked(load_file(folder / "model.safetensors"))
        ids = tensors["vocab_ids"].long().to(like.device)
        scored = like[ids].contiguous()
        head = encode(scored, BYTES) if kernel.team is not None else scored
        reduced = replace(weights.first_layers(1), head=head, vocab_ids=ids)
        scorer = Runner(reduced, 1, kernel.kernel(reduced, 1))
        return Heads.from_tensors(tensors, like, scorer.score)

    return Makers(
        low_bit_copy=low_bit_copy,
        first_layers=target.first_layers,
        distilled=distilled,
        masked=masked,
        fused=fused,
        heads=heads,
        layers=weights.config.layers,
        bits=weights.bits,
        row_sizes=tuple({part.shape[-1] for part in (weights.qkv, weights.output, weights.down)}),
    )
