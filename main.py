"""VerifyBox: watch real speculative decoding, live, in 3D.

Command line only: joins the engine's process, the scenes and the window or recorder.
Importing this file, and ``--help``, need neither a display nor torch.
"""

from __future__ import annotations

import argparse
import shlex
import sys
import traceback
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from engine import arguments, codec, commands, config, terminal
from engine.source import EventSource, ReplaySource
from visualizer.errors import NeverDone, VisualizerError

if TYPE_CHECKING:
    from engine.trace import Trace
    from visualizer.config import RecordOptions

EPILOG = "Without a command: the window, on a live run. See also: main.py window --help"
INTERRUPTED = 130


def parser() -> arguments.Parser:
    """Every command of the program, each with the function that does it."""
    top = arguments.Parser(
        prog="main.py", description="Watch real speculative decoding, live, in 3D.", epilog=EPILOG
    )
    verbs = top.add_subparsers(title="commands", metavar="COMMAND", required=True)

    def verb(
        name: str,
        action: Callable[[argparse.Namespace], int],
        options: Callable[[argparse.ArgumentParser], None],
        says: str,
    ) -> None:
        command = verbs.add_parser(name, help=says, description=says)
        command.set_defaults(action=action)
        arguments.add_verbose(command)
        options(command)

    verb("window", window, arguments.add_window, "the window, on a live run (the default)")
    verb("replay", replay, arguments.add_replay, "the same window on a recorded run")
    verb("run", commands.run, arguments.add_run, "one run in the terminal, no window")
    verb(
        "prove", commands.prove, arguments.add_prove, "show that nothing is lost, on the real pair"
    )
    verb("record", record, arguments.add_record, "a video of a run, offline, without a display")
    verb("bench", commands.bench, arguments.add_bench, "measure drafters, guesses and quality")
    verb("fetch", commands.fetch, arguments.add_fetch, "get the model once, for use offline")
    verb("forget", commands.forget, lambda parser: None, "remove the replies that are remembered")
    verb("doctor", doctor, arguments.add_doctor, "what works here, what is missing, and the fix")
    return top


def window(args: argparse.Namespace) -> int:
    """The window on a live run; with no display, 20 seconds of video instead."""
    from visualizer.window import NoDisplay

    source = commands.live_source(args)
    try:
        return _show(source, args)
    except NoDisplay as problem:
        options = _instead_of_window(str(problem))
        run = commands.gather(source, commands.first_start(args))
    finally:
        source.close()
    return _record(run, options)


def _instead_of_window(problem: str) -> RecordOptions:
    """Say that a video takes the window's place, one whose drawing nobody has to wait long for."""
    from visualizer.config import RecordOptions

    options = RecordOptions(commands.new_recording(Path("recordings")), seconds=20.0, badge="LIVE")
    try:
        slow = _check(options)
    except VisualizerError as fault:
        raise commands.CommandError(f"{problem} Nor can a video be made: {fault}") from fault
    if slow:
        width, height, fps = arguments.PRESETS["draft"]
        options = replace(options, width=width, height=height, fps=fps)
    small = ", small because there is no GPU to draw it" if slow else ""
    print(f"{problem} Recording 20 seconds of a live run instead{small}.", file=sys.stderr)
    return options


def replay(args: argparse.Namespace) -> int:
    """The window on a run file."""
    from visualizer.window import NoDisplay

    try:
        return _show(ReplaySource(args.run), args)
    except NoDisplay as problem:
        words = ("record", "--run", str(args.run), "--out", f"{args.run.stem}.mp4")
        raise commands.CommandError(
            f"{problem} A video needs none: python main.py {shlex.join(words)}"
        ) from problem


def record(args: argparse.Namespace) -> int:
    """A video of a recorded run, or of one decoded now."""
    from visualizer.config import RecordOptions

    width, height, fps = arguments.PRESETS[args.preset]
    options = RecordOptions(
        out=args.out,
        scene=args.scene,
        width=args.size[0] if args.size else width,
        height=args.size[1] if args.size else height,
        fps=args.fps or fps,
        seconds=args.seconds,
        alpha=args.alpha,
        badge="LIVE" if args.run is None else "RECORDED",
        gpu=args.gpu,
    )
    if _check(options) and args.require_gpu:
        raise commands.CommandError(
            "There is no graphics processor here to draw with: leave --require-gpu out, or see "
            "python main.py doctor."
        )
    if args.run is not None:
        return _record(codec.read_run(args.run), options)
    source = commands.live_source(args)
    try:
        run = commands.gather(source, commands.first_start(args))
    finally:
        source.close()
    return _record(run, options)


def doctor(args: argparse.Namespace) -> int:
    """Both halves of the report; code 1 when something needed is missing."""
    from visualizer import doctor as pictures

    if args.frames:
        return _frames(as_json=args.json)
    return commands.doctor(pictures.checks(commands.ASSETS / "fonts"), as_json=args.json)


def _frames(*, as_json: bool) -> int:
    """What pictures take here, for `doctor --frames`."""
    import scenes
    from visualizer import frames

    run = commands.opening_run()
    if run is None:
        raise commands.CommandError("There is no recorded run to draw pictures of.")
    with terminal.Progress() as progress:
        report = frames.measured(run, scenes.CATALOG, progress.frames)
    print(frames.as_json(report) if as_json else frames.as_text(report))
    return 0


def _show(source: EventSource, args: argparse.Namespace) -> int:
    import scenes
    from visualizer import preferences
    from visualizer import window as screen
    from visualizer.config import WindowOptions

    kept = preferences.default_path()
    folders = (commands.runs_folder(), commands.ASSETS / "runs")
    options = WindowOptions(
        verbose=args.verbose,
        run_folders=folders,
        preferences=kept,
        replies=commands.replies_folder(),
        profile=args.profile,
        profile_file=args.profile_to,
    )
    if source.live:
        options = replace(
            options,
            opening=commands.opening_run(),
            prompts=commands.curated_prompts(),
            settings=config.settings_of(args),
            seed=args.seed,
            max_new_tokens=args.max_new_tokens,
            remember=args.remember,
            drafters=args.drafters,
        )
    return screen.run(source, scenes.CATALOG, options)


def _check(options: RecordOptions) -> bool:
    """Refuse a recording that cannot be made before a run is decoded for it; whether it is slow."""
    import scenes
    from visualizer import recorder

    return recorder.check(scenes.CATALOG, options)


def _record(run: Trace, options: RecordOptions) -> int:
    import scenes
    from visualizer import recorder

    with terminal.Progress() as progress:
        done = recorder.record(run, scenes.CATALOG, options, progress.frames)
    for notice in done.notices:
        print(notice, file=sys.stderr)
    print(f"{done.path}  ({done.frames} frames, {done.seconds:.1f} s, drawn by {done.renderer})")
    return 0


def main(argv: Sequence[str] | None = None) -> int:
    """Do what the command line asks. Returns the exit code: 0 fine, 1 failed, 2 wrong use."""
    terminal.prepare_streams()
    words = list(sys.argv[1:] if argv is None else argv)
    if not words or (words[0].startswith("-") and words[0] not in ("-h", "--help")):
        words.insert(0, "window")
    args = parser().parse_args(words)
    try:
        code: int = args.action(args)
        sys.stdout.flush()
        return code
    except KeyboardInterrupt:
        return INTERRUPTED
    except Exception as error:
        if args.verbose:
            traceback.print_exc()
        print(f"main.py: {terminal.sentence(error)}", file=sys.stderr)
        terminal.silence(sys.stdout)
        return 2 if isinstance(error, (commands.WrongUse, NeverDone)) else 1


if __name__ == "__main__":
    sys.exit(main())
