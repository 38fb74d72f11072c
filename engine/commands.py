"""What the terminal commands do: one run, a fetch, a proof, a sweep.

Text goes to stdout as it is written; everything about the work goes to stderr. Errors are
raised and become one sentence in `main.py`. Torch is imported only inside the commands that
decode in this process; a picture's engine is always a process of its own.

Knows the engine and the terminal, never a window.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from engine import codec, prompts, replies
from engine.comparison import Comparison
from engine.config import EngineConfig, settings_of
from engine.prompts import Prompt
from engine.requests import Shown, Start
from engine.source import EventSource, LiveSource
from engine.stats import Stats
from engine.terminal import Progress, Writer, closing_line
from engine.trace import (
    EngineState,
    Round,
    RunEvent,
    RunFailed,
    RunFinished,
    RunHeader,
    RunProof,
    Settings,
    Trace,
)

if TYPE_CHECKING:
    from engine.assembly import Engine
    from engine.doctor import Check

T = TypeVar("T")

ROOT = Path(__file__).resolve().parent.parent
ASSETS = ROOT / "assets"


class CommandError(RuntimeError):
    """A command that cannot do its work; the message is one clear sentence."""


class WrongUse(CommandError):
    """A command that was asked for something it never does."""


# --- the commands ------------------------------------------------------------------------


def run(args: argparse.Namespace) -> int:
    """One run in this terminal. Returns 130 when interrupted; what was written stays.

    With ``--check`` the target alone is run after it; 1 when it would have written another text.
    """
    if args.check and args.temperature > 0:
        raise WrongUse("--check compares texts, at temperature 0; `prove` compares sampled laws.")
    with Progress() as progress:
        start = start_of(args)
        engine = _open(args, progress, start)
        session = _allow(lambda: engine.begin(start))
    rounds: list[Round] = []
    text = None if args.json else Writer(sys.stdout, frozenset(engine.eos_ids))
    with trace_file(args.trace, session.header) as keep:
        try:
            while session.finished is None:
                rounds.append(session.advance())
                keep(rounds[-1])
                if text is not None:
                    text.write(rounds[-1])
        except KeyboardInterrupt:
            session.cancel()
        except Exception as error:
            keep(RunFailed(str(error)))
            raise
        assert session.finished is not None
        keep(session.finished)
        engine.remember()
        if text is not None:
            text.close()
        proof = _proof(engine) if args.check else None
        if proof is not None:
            keep(proof)
    result = Trace(session.header, tuple(rounds), session.finished, proof)
    if text is None:
        print(json.dumps(summary(session.header, result)), flush=True)
    else:
        print(closing_line(session.header, result.rounds), file=sys.stderr)
    if notice := engine.take_notice():
        print(notice, file=sys.stderr)
    if proof is not None:
        print(proof.words, file=sys.stderr)
    if session.finished.reason == "cancelled":
        return 130
    return 0 if proof is None or proof.holds else 1


def fetch(args: argparse.Namespace) -> int:
    """Get the model, once; one that is there already is left alone unless asked for again."""
    from engine import fetch as fetching

    with Progress() as progress:
        pair = args.pair or fetching.DEFAULT_PAIR
        folder = fetching.fetch(pair, progress.engine, again=args.again)
    print(folder)
    return 0


def forget(args: argparse.Namespace) -> int:
    """Remove every reply that is remembered, of every target."""
    folder = replies_folder()
    found = replies.forget(folder)
    print(f"Forgotten: {folder} is empty." if found else "No reply is remembered.")
    return 0


def prove(args: argparse.Namespace) -> int:
    """Show on the real pair that speculation changes nothing."""
    from engine import prove as proving

    with Progress() as progress:
        engine = _open(args, progress)
    return proving.main(engine, args)


def bench(args: argparse.Namespace) -> int:
    """Measure a sweep and print it as tables."""
    from engine import fetch as fetching
    from engine.bench import command

    order = _allow(lambda: command.read(args))
    args.drafter = order.drafters
    with Progress() as progress:
        if args.pair not in (None, fetching.DEFAULT_PAIR):
            args.target = fetching.fetch(args.pair, progress.engine)
        engine = _open(args, progress)
    return command.main(engine, order)


def doctor(pictures: list[Check], *, as_json: bool) -> int:
    """Print the engine's checks and the `pictures`' ones; 1 when something is missing."""
    from engine import doctor as report
    from engine.fetch import cache_root, cached_folder

    found = report.checks(cache_root(), cached_folder(), runs_folder()) + pictures
    print(report.as_json(found) if as_json else report.as_text(found))
    missing = [check.name for check in found if check.state == "missing"]
    if missing:
        print(f"main.py: missing here: {', '.join(missing)}; see the fixes.", file=sys.stderr)
    return 1 if missing else 0


# --- what options mean -------------------------------------------------------------------


def start_of(args: argparse.Namespace) -> Start:
    """The run these options ask for."""
    return Start(
        prompt=args.prompt,
        chat=not args.raw,
        settings=settings_of(args),
        seed=args.seed,
        max_new_tokens=args.max_new_tokens,
        stop=tuple(getattr(args, "stop", ())),
        remember=getattr(args, "remember", False),
    )


def engine_arguments(args: argparse.Namespace) -> tuple[str, ...]:
    """The engine's options as words for ``python -m engine``."""
    options = (
        ("--target", args.target),
        ("--drafters", args.drafters),
        ("--device", args.device),
        ("--dtype", args.dtype),
        ("--threads", args.threads),
        ("--weights", args.weights),
        ("--replies", replies_folder() if getattr(args, "remember", False) else None),
    )
    return tuple(str(word) for option in options if option[1] is not None for word in option)


def first_start(args: argparse.Namespace) -> Start:
    """The run these options ask for; without a prompt, the first curated one."""
    if getattr(args, "prompt", None) is not None:
        return start_of(args)
    first = curated_prompts()[0]
    limit = min(args.max_new_tokens, first.max_new_tokens)
    return Start(first.text, first.chat, settings_of(args), args.seed, limit)


def runs_folder() -> Path:
    """Where every live run is kept."""
    import platformdirs

    return Path(platformdirs.user_data_dir("verifybox", appauthor=False)) / "runs"


def replies_folder() -> Path:
    """Where replies are remembered: ``VERIFYBOX_REPLIES``, or a folder beside the runs."""
    chosen = os.environ.get("VERIFYBOX_REPLIES")
    if chosen:
        return Path(os.path.expanduser(chosen)).absolute()
    return runs_folder().with_name("replies")


def live_source(args: argparse.Namespace) -> LiveSource:
    """A fresh engine process with these options; its runs are kept."""
    return LiveSource(engine_arguments(args), runs_folder(), verbose=args.verbose)


def curated_prompts() -> tuple[Prompt, ...]:
    return prompts.load(ASSETS / "prompts.json")


def opening_run() -> Trace | None:
    """The bundled run that plays until the engine is ready."""
    bundled = sorted((ASSETS / "runs").glob("*.jsonl"))
    return codec.read_run(bundled[0]) if bundled else None


def new_recording(folder: Path) -> Path:
    """A file name in `folder` that nothing has yet."""
    folder.mkdir(parents=True, exist_ok=True)
    stamp = datetime.now().strftime("%Y%m%d-%H%M%S")
    names = (f"{stamp}{suffix}.mp4" for suffix in ("", *(f"-{n}" for n in range(1, 1000))))
    return next(path for path in map(folder.joinpath, names) if not path.exists())


# --- pieces of a run ---------------------------------------------------------------------


@contextmanager
def trace_file(path: Path | None, header: RunHeader) -> Iterator[Callable[[RunEvent], None]]:
    """Write a run file at `path`, if one is wanted: gives what takes each further event."""
    if path is None:
        yield lambda event: None
        return
    with path.open("w", encoding="utf-8", newline="\n") as file:

        def keep(event: RunEvent) -> None:
            file.write(codec.encode(event) + "\n")
            file.flush()

        keep(header)
        yield keep


def summary(header: RunHeader, run: Trace) -> dict[str, Any]:
    """The object that ``run --json`` prints. Its names are a stable contract."""
    assert isinstance(run.end, RunFinished)
    settings, baseline = header.settings, header.baseline
    stats = Stats.of(run.rounds, baseline)
    return {
        "token_ids": [token.id for token in run.committed],
        "text": run.text,
        "finish_reason": run.end.reason,
        "rounds": stats.rounds,
        "histogram": stats.histogram,
        "acceptance_rate": stats.acceptance_rate,
        "mean_acceptance_length": stats.mean_acceptance_length,
        "per_position_rate": stats.per_position,
        "alpha": stats.alpha,
        "tokens_per_second": stats.tokens_per_second,
        "baseline_tokens_per_second": None if baseline is None else baseline.tokens_per_second,
        "speedup": stats.speedup,
        "draft_seconds": sum(each.draft_seconds for each in run.rounds),
        "verify_seconds": sum(each.verify_seconds for each in run.rounds),
        "prefill_seconds": header.prefill_seconds,
        "remembered_tokens": header.remembered,
        "device": header.device,
        "dtype": header.dtype,
        "kernel": header.kernel,
        "target": header.target,
        "drafter": header.drafter,
        "drafter_reason": header.drafter_reason,
        "k": "auto" if settings.auto_k else settings.k,
        "match": [settings.shortest_match, settings.longest_match],
        "quality": settings.quality,
        "temperature": settings.temperature,
        "top_k": settings.top_k,
        "top_p": settings.top_p,
        "min_p": settings.min_p,
        "repetition_penalty": settings.repetition_penalty,
        "seed": header.seed,
        "lossless": codec.to_plain(run.proof),
        "prompt": header.prompt,
    }


def gather(source: EventSource, start: Start) -> Trace:
    """Run `start` on `source` to its end and return it. Raises CommandError."""
    source.send(start)
    run = Trace()
    with Progress() as progress:
        while run.end is None:
            if source.fault is not None:
                raise CommandError(source.fault)
            messages = source.poll()
            for message in messages:
                if isinstance(message, EngineState):
                    progress.engine(message)
                elif not isinstance(message, Comparison):
                    run = run.extend(message)
            if run.rounds:
                progress.say("rounds", f"{len(run.rounds)} rounds")
            if messages:
                source.send(Shown(len(run.rounds)))
            else:
                time.sleep(0.01)
    if isinstance(run.end, RunFailed):
        raise CommandError(run.end.message)
    return run


def _open(args: argparse.Namespace, progress: Progress, first: Start | None = None) -> Engine:
    """The engine these options ask for, which has the drafters they name."""
    from engine import assembly  # torch is first imported here

    options = EngineConfig.of(args)
    if getattr(args, "remember", False):
        options = replace(options, replies=replies_folder())
    engine = assembly.open_engine(options, progress.engine, first=first)
    for name in [args.drafter] if isinstance(args.drafter, str) else args.drafter:
        _allow(partial(engine.check, Settings(drafter=name)))
    return engine


def _proof(engine: Engine) -> RunProof | None:
    """The run begun last against the target alone; None when interrupted, or without any text."""
    beside = engine.beside()
    if beside is None:
        return None
    with Progress() as progress:
        progress.say("check", "Running the target alone beside it")
        try:
            return beside.finish()
        except KeyboardInterrupt:
            return None


def _allow(ask: Callable[[], T]) -> T:
    """What `ask` returns; its refusal (a prompt or setting nobody can have) is wrong use."""
    try:
        return ask()
    except ValueError as error:
        raise WrongUse(str(error)) from error
