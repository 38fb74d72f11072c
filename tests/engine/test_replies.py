"""Replies that are remembered: kept whole, once, by one target, and never a run's misfortune."""

from __future__ import annotations

import queue
import sqlite3
import subprocess
import sys
import textwrap
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest
import saved_model
from hypothesis import given
from hypothesis import strategies as st
from test_suffix_index import ask

import main
from engine import assembly, commands, fetch, replies, source, terminal, worker
from engine.codec import Message
from engine.config import EngineConfig
from engine.decode import Session
from engine.drafters import suffix_index
from engine.drafters.memory import Memory, fingerprint, memory_of
from engine.drafters.suffix_index import Layers, SuffixIndex, pooled
from engine.replies import ENDING, Kept, Replies
from engine.requests import Quit, Shown, Start
from engine.trace import EngineState, Round, RunFailed, RunFinished, RunProof, Settings
from engine.worker import Worker

# --- an index that grows ---------------------------------------------------------------------

texts = st.lists(st.lists(st.sampled_from([0, 1, 2, 49151]), min_size=1, max_size=20), max_size=8)
contexts = st.lists(st.sampled_from([0, 1, 2, 49151]), max_size=8)


def grown(batches: list[list[int]], bits: int, small: int) -> Layers:
    """An index of these texts, each joining alone; a layer is done once it holds `small` ids."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(suffix_index, "GROWING", small)
        made = Layers(bits)
        for each in batches:
            made = made.grown([each])
    return made


def as_one(batches: list[list[int]], bits: int) -> SuffixIndex:
    return SuffixIndex([n for each in batches for n in (*each, (1 << bits) - 1)], bits)


@given(texts, contexts, st.sampled_from([16, 32]), st.integers(1, 60))
def test_layers_answer_as_one_index_of_everything(batches, context, bits, small):
    assert ask(grown(batches, bits, small), context) == ask(as_one(batches, bits), context)


@pytest.mark.parametrize(
    "fault", [lambda found: found[0], lambda found: max(found, key=lambda each: each[0])]
)
def test_layers_that_are_not_pooled_are_caught(fault, monkeypatch):
    """The first layer's answer alone, or that of the longest match alone."""
    batches = [[1, 2, 3], [1, 2, 4], [1, 2, 4], [0, 1, 2, 5]]
    right = {(1, 2): (2, {3: 1, 4: 2, 5: 1}), (0, 1, 2): (3, {5: 1})}
    for context, answer in right.items():
        assert ask(grown(batches, 16, 1), list(context)) == answer
    monkeypatch.setattr(suffix_index, "pooled", fault)
    assert any(ask(grown(batches, 16, 1), list(each)) != right[each] for each in right)


def test_a_reply_that_joins_leaves_the_big_part_as_it_is():
    big = Layers().grown([np.arange(suffix_index.GROWING) % 5000])
    more = big.grown([[1, 2, 3]]).grown([[4, 5, 6]])
    assert more._layers[0] is big._layers[0]
    assert [len(each) for each in more._layers[1:]] == [8]
    assert len(big) == suffix_index.GROWING + 1, "and what a run holds does not grow"
    assert Layers().grown([]).continuations([1, 2]) == pooled([])


def test_ids_of_large_vocabularies_are_found():
    index = Layers(32).grown([[150_000, 150_001, 65_535, 65_536, 3]])
    assert ask(index, [150_000, 150_001]) == (2, {65_535: 1})
    assert ask(index, [150_001, 65_535]) == (2, {65_536: 1})


# --- the file --------------------------------------------------------------------------------


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "data" / f"one{ENDING}"


def held(store: Replies) -> list[list[int]]:
    return [np.frombuffer(text, "<u4").tolist() for text in store.after(Kept()).texts]


def test_replies_come_back_in_order_and_an_identical_one_once(path):
    store = Replies(path)
    assert held(store) == []
    assert not path.exists(), "looking makes no file"
    for each in ([1, 2, 3], [4, 5, 100_000], [1, 2, 3]):
        store.add(each)
    assert held(store) == held(Replies(path)) == [[1, 2, 3], [4, 5, 100_000]]
    assert store.notice == ""


def test_only_what_is_new_is_read_again(path):
    store = Replies(path)
    store.add([1, 2, 3])
    first = store.after(Kept())
    assert store.after(first).texts == ()
    Replies(path).add([4, 5, 6])  # another program's
    fresh = store.after(first)
    assert (fresh.mark, len(fresh.texts)) == (first.mark, 1)


def test_the_oldest_go_when_there_are_too_many(path):
    store = Replies(path, most_tokens=10)
    for first in range(5):
        store.add([first] * 4)
    assert held(store) == [[3] * 4, [4] * 4]


def test_several_writers_lose_nothing(path, monkeypatch):
    monkeypatch.setattr(replies, "PATIENCE", 60.0)
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda n: Replies(path).add([n, n, n]), range(40)))
    assert sorted(held(Replies(path))) == [[n, n, n] for n in range(40)]


def test_forgetting_removes_every_target_s_and_is_noticed(path):
    store, other = Replies(path), Replies(path.with_name(f"two{ENDING}"))
    store.add([7, 8, 9])
    other.add([7, 8, 9])
    before = store.after(Kept())
    assert replies.forget(path.parent) == 2
    assert list(path.parent.iterdir()) == []
    assert replies.forget(path.parent) == replies.forget(path.parent / "never") == 0
    store.add([1, 2, 3])
    fresh = store.after(before)
    assert fresh.mark != before.mark
    assert len(fresh.texts) == 1, "numbered like one that was forgotten, and yet new"


@pytest.mark.parametrize("damage", [b"nothing of ours", b"SQLite format 3\x00" + b"\xff" * 4000])
def test_a_damaged_file_is_set_aside_and_a_new_one_begins(path, damage):
    path.parent.mkdir()
    path.write_bytes(damage)
    store = Replies(path)
    store.add([1, 2, 3])
    assert store.notice == (
        f"The remembered replies were damaged: they now lie in {path.name}.damaged."
    )
    assert path.with_name(f"{path.name}.damaged").read_bytes() == damage
    assert held(store) == [[1, 2, 3]]
    assert store.notice == "", "said once"
    replies.forget(path.parent)
    assert list(path.parent.iterdir()) == [], "forgotten too"


def test_a_page_that_is_damaged_later_is_found_out(path):
    store = Replies(path)
    for first in range(300):
        store.add(list(range(first, first + 60)))
    body = bytearray(path.read_bytes())
    body[4096:] = b"\xff" * (len(body) - 4096)
    path.write_bytes(body)
    assert store.after(Kept()).texts == ()
    assert "damaged" in store.notice


@pytest.mark.parametrize("missing", ["DROP TABLE replies", "DROP TABLE store", "DELETE FROM store"])
def test_a_file_that_lacks_a_part_is_set_aside_as_well(path, missing):
    store = Replies(path)
    store.add([1, 2, 3])
    with closing(sqlite3.connect(path)) as db, db:
        db.execute(missing)
    assert held(store) == []
    assert "damaged" in store.notice
    store.add([4, 5, 6])
    assert (store.notice, held(store)) == ("", [[4, 5, 6]])


def test_a_newer_file_is_left_alone(path):
    Replies(path).add([1, 2, 3])
    with sqlite3.connect(path) as db:
        db.execute("PRAGMA user_version = 99")
    db.close()
    before = path.read_bytes()
    store = Replies(path)
    store.add([4, 5, 6])
    assert "newer version" in store.notice
    assert held(store) == []
    assert path.read_bytes() == before


def test_a_file_that_somebody_holds_is_not_waited_for_long(path, monkeypatch):
    monkeypatch.setattr(replies, "PATIENCE", 0.05)
    Replies(path).add([1, 2, 3])
    holder = sqlite3.connect(path, isolation_level=None)
    holder.execute("BEGIN EXCLUSIVE")
    store = Replies(path)
    store.add([4, 5, 6])
    assert store.notice == "This reply is not remembered: database is locked."
    holder.close()
    assert held(store) == [[1, 2, 3]]


def test_a_folder_that_cannot_be_had_is_one_sentence(path):
    path.parent.write_text("a file where the folder should be")
    store = Replies(path)
    store.add([1, 2, 3])
    assert store.notice.startswith("This reply is not remembered: ")
    assert store.notice.endswith(".")
    assert held(store) == []


@pytest.fixture
def read_only(monkeypatch):
    """Makes files that can only be read: root may write anywhere, so SQLite is told as well."""
    real = sqlite3.connect

    def connect(place, uri=False, **more):
        place = place if uri else f"{Path(place).absolute().as_uri()}?mode=ro"
        return real(place, uri=True, **more)

    def begin(path):
        path.chmod(0o444)
        path.parent.chmod(0o555)
        monkeypatch.setattr("engine.replies.sqlite3.connect", connect)

    return begin


def test_a_folder_that_can_only_be_read_is_read_and_said_to_be_so_once(path, read_only):
    Replies(path).add([1, 2, 3])
    read_only(path)
    try:
        store = Replies(path)
        assert (held(store), store.notice) == ([[1, 2, 3]], "")
        store.add([4, 5, 6])
        assert store.notice == (
            "Earlier replies are looked up, but new ones are not remembered: "
            f"{path.parent} can only be read."
        )
        store.add([7, 8, 9])
        assert store.notice == "", "said once"
        assert (held(store), store.notice) == ([[1, 2, 3]], "")
    finally:
        path.parent.chmod(0o755)


def test_what_stops_a_reply_from_being_kept_is_said_again_when_it_is_something_else(
    path, read_only, monkeypatch
):
    store = Replies(path)
    store.add([1, 2, 3])
    blocked = path.parent / "file"
    blocked.write_text("")
    store.path = blocked / "x"
    store.add([4])
    first = store.notice
    store.add([5])
    assert first.startswith("This reply is not remembered: ")
    assert store.notice == ""
    store.path = path
    store.add([6])
    assert store.notice == ""
    store.path = blocked / "x"
    store.add([7])
    assert store.notice == first, "in between one was kept"


def test_a_folder_nobody_can_look_into_costs_the_memory_and_not_the_run(tmp_path):
    path = tmp_path / ("a" * 300) / f"one{ENDING}"
    memory = Memory(Replies(path), 100)
    assert len(memory.recall()) == 0
    assert memory.notice == "Earlier replies are not looked up: File name too long."
    memory.keep([1, 2, 3])
    assert memory.notice == "This reply is not remembered: File name too long."


@pytest.mark.parametrize(
    ("variable", "folder"),
    [("VERIFYBOX_REPLIES", commands.replies_folder), ("VERIFYBOX_CACHE", fetch.cache_root)],
)
def test_the_home_of_nobody_is_a_folder_like_another(monkeypatch, variable, folder):
    monkeypatch.setenv(variable, "~nobody-of-that-name/there")
    assert folder() == Path.cwd() / "~nobody-of-that-name" / "there"
    monkeypatch.setenv(variable, "~/there")
    assert folder() == Path.home() / "there"


@pytest.mark.skipif(sys.platform == "win32", reason="limits of a process are POSIX")
def test_a_full_disk_is_one_sentence_and_leaves_what_was_there(path):
    Replies(path).add([1, 2, 3])
    program = f"""
        import resource
        from pathlib import Path
        from engine.replies import Replies
        resource.setrlimit(resource.RLIMIT_FSIZE, (30_000, 30_000))
        store = Replies(Path({str(path)!r}))
        store.add(list(range(20_000)))
        print(store.notice)
    """
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(program)],
        cwd=commands.ROOT, capture_output=True, text=True, timeout=60,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("This reply is not remembered: ")
    assert held(Replies(path)) == [[1, 2, 3]]


# --- one target's memory ---------------------------------------------------------------------


def test_what_was_recalled_does_not_change_and_the_next_recall_has_more(path):
    memory = Memory(Replies(path), 100)
    memory.keep([1, 2, 3, 4])
    first = memory.recall()
    memory.keep([1, 2, 9, 9])
    Replies(path).add([1, 2, 8])
    assert ask(first, [1, 2]) == (2, {3: 1})
    assert ask(memory.recall(), [1, 2]) == (2, {3: 1, 8: 1, 9: 1})
    replies.forget(path.parent)
    assert len(memory.recall()) == 0


def test_scraps_and_ids_the_target_does_not_have_stay_out(path):
    memory = Memory(Replies(path), 100)
    memory.keep([1, 2])
    assert not path.exists()
    Replies(path).add([1, 2, 100])
    with closing(sqlite3.connect(path)) as db:
        row = "INSERT INTO replies (digest, tokens, ids) VALUES (?, 3, ?)"
        db.executemany(row, [(b"a", b""), (b"b", b"\0" * 7)])
        db.commit()
    assert len(memory.recall()) == 0


def test_each_target_has_a_file_of_its_own(tmp_path):
    model = saved_model.save(tmp_path / "model")
    seen = {fingerprint(model, "full"), fingerprint(model, "int8")}
    weights = next(model.glob("*.safetensors"))
    for path in (weights, model / "tokenizer.json", model / "config.json"):
        body = path.read_bytes()
        path.write_bytes(body[:-1] + bytes([body[-1] ^ 1]))
        seen.add(fingerprint(model, "full"))
        path.write_bytes(body)
    assert len(seen) == 5
    assert fingerprint(model, "full") in seen, "and the same one gives the same"


# --- in an engine ----------------------------------------------------------------------------

RETRIEVAL = Settings("retrieval", k=4)
PROMPT = "abcabcab"


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return saved_model.save(tmp_path_factory.mktemp("remembering") / "tiny")


@pytest.fixture
def opened(model: Path, tmp_path: Path) -> Callable[[Path | None], assembly.Engine]:
    def make(folder: Path | None) -> assembly.Engine:
        options = EngineConfig(target=model, threads=1, replies=folder)
        return assembly.open_engine(options, lambda state: None)

    return make


def run(engine: assembly.Engine, remember: bool = True, **more: object) -> tuple[Session, list]:
    start = Start(PROMPT, False, RETRIEVAL, max_new_tokens=24, remember=remember, **more)
    session = engine.begin(start)
    rounds = list(session.rounds())
    engine.remember()
    return session, rounds


def from_memory(rounds: list[Round]) -> int:
    return sum(guess.source == "memory" for made in rounds for guess in made.guesses)


def test_a_prompt_asked_again_is_copied_from_the_earlier_reply(opened, tmp_path):
    engine = opened(tmp_path)
    first, rounds = run(engine)
    assert from_memory(rounds) == first.header.remembered == 0
    second, again = run(engine)
    assert second.ids == first.ids
    assert from_memory(again) > 0
    assert len(again) < len(rounds)
    assert second.header.remembered == 25  # 24 tokens and where they end
    later, third = run(opened(tmp_path))
    assert (later.ids, len(third)) == (first.ids, len(again)), "after a restart as before it"


def test_nothing_that_comes_later_enters_a_run(opened, tmp_path):
    """Taken back and made again it is the same run, whatever was kept meanwhile."""
    engine = opened(tmp_path)
    run(engine)
    session = engine.begin(Start(PROMPT, False, RETRIEVAL, max_new_tokens=24, remember=True))
    before = [[g.token.id for g in each.guesses] for each in session.rounds()]
    for token in range(5, 40):
        engine._memory.keep([*session.ids[8:12], token])
    session.rewind(0, RETRIEVAL)
    assert [[g.token.id for g in each.guesses] for each in session.rounds()] == before
    fresh = engine.begin(Start(PROMPT, False, RETRIEVAL, max_new_tokens=24, remember=True))
    after = [[g.token.id for g in each.guesses] for each in fresh.rounds()]
    assert after != before, "the next run has them"


def test_a_memory_that_grew_within_a_run_would_be_caught(opened, tmp_path):
    """The broken twin: a run that looks into the file itself is another one when taken back."""
    engine = opened(tmp_path)
    run(engine)
    session = engine.begin(Start(PROMPT, False, RETRIEVAL, max_new_tokens=24, remember=True))
    session.memory = Live(engine._memory)
    before = [[g.token.id for g in each.guesses] for each in session.rounds()]
    for token in range(5, 40):
        engine._memory.keep([*session.ids[8:12], token])
    session.rewind(0, RETRIEVAL)
    assert [[g.token.id for g in each.guesses] for each in session.rounds()] != before


class Live:
    """Earlier replies as they are at each moment."""

    def __init__(self, memory: Memory) -> None:
        self._memory = memory

    def continuations(self, context, max_len, min_len):
        return self._memory.recall().continuations(context, max_len, min_len)


def test_a_run_that_may_not_remember_neither_reads_nor_writes(opened, tmp_path):
    engine = opened(tmp_path)
    run(engine)
    kept = {path: path.read_bytes() for path in tmp_path.iterdir()}
    session, rounds = run(engine, remember=False, seed=1)
    assert from_memory(rounds) == session.header.remembered == 0
    assert {path: path.read_bytes() for path in tmp_path.iterdir()} == kept


def test_a_reply_broken_off_is_not_kept_and_none_is_kept_twice(opened, tmp_path):
    engine = opened(tmp_path)
    session = engine.begin(Start(PROMPT, False, RETRIEVAL, max_new_tokens=24, remember=True))
    session.advance()
    engine.remember()
    session.cancel()
    engine.remember()
    assert list(tmp_path.iterdir()) == []


def test_an_engine_that_is_told_of_no_folder_has_no_memory(opened, tmp_path):
    engine = opened(None)
    assert "retrieval" not in engine.drafters
    assert "retrieval" in opened(tmp_path).drafters


def served(engine: assembly.Engine, shown: int, *then: Start) -> list[Message]:
    """What is said of a run that a picture follows up to its last round but `shown`, and then."""
    said: list[Message] = []
    inbox: worker.Inbox = queue.SimpleQueue()

    def emit(message: Message) -> None:
        said.append(message)
        if isinstance(message, Round):
            inbox.put(Shown(message.index))  # one behind
        if isinstance(message, RunProof):  # the run has ended, and all is idle
            rounds = sum(isinstance(each, Round) for each in said)
            for request in (Shown(rounds - shown), *then, Quit()):
                inbox.put(request)

    inbox.put(Start(PROMPT, False, RETRIEVAL, max_new_tokens=12, remember=True))
    assert Worker(engine, inbox, emit).work() == 0
    return said


def test_a_reply_is_kept_once_none_of_it_can_be_taken_back(opened, tmp_path):
    served(opened(tmp_path), 1)
    assert list(tmp_path.iterdir()) == [], "its last round may still be taken back"
    served(opened(tmp_path), 0)
    assert len(list(tmp_path.iterdir())) == 1


def test_a_reply_is_kept_when_another_run_begins(opened, tmp_path):
    served(opened(tmp_path), 1, Start(PROMPT, False, RETRIEVAL, max_new_tokens=0))
    assert len(list(tmp_path.iterdir())) == 1


def test_a_memory_that_fails_is_told_and_the_run_is_whole(opened, tmp_path):
    (tmp_path / "file").write_text("where the folder should be")
    said = served(opened(tmp_path / "file"), 0)
    told = [
        each.detail for each in said if isinstance(each, EngineState) and each.phase == "notice"
    ]
    assert told
    assert all(words.endswith(".") for words in told)
    assert any(isinstance(each, RunFinished) for each in said)
    assert not any(isinstance(each, RunFailed) for each in said)


def test_a_notice_is_no_answer_to_a_change():
    """Else a picture would go on before the rounds it waits for have come."""
    assert not source._answers(EngineState("notice", "The disk is full."))
    assert source._answers(EngineState("ready", "No run is going on."))


def test_a_run_in_the_terminal_says_how_much_was_copied(opened, tmp_path):
    engine = opened(tmp_path)
    first, rounds = run(engine)
    assert "earlier replies" not in terminal.closing_line(first.header, rounds)
    second, again = run(engine)
    copied = sum(g.source == "memory" for each in again for g in each.guesses[: each.accepted])
    line = terminal.closing_line(second.header, again)
    assert f"{copied} tokens copied from earlier replies to you" in line


def test_only_runs_of_people_remember():
    """Sweeps, proofs and comparisons are the same on every machine and every day."""
    parse = main.parser().parse_args
    assert parse(["run", "--prompt", "x"]).remember
    assert parse(["window"]).remember
    assert not parse(["window", "--no-remember"]).remember
    for words in (["bench"], ["prove"], ["record", "--out", "x.mp4"]):
        args = parse(words)
        assert not hasattr(args, "remember")
        assert "--replies" not in commands.engine_arguments(args)
    assert "--replies" in commands.engine_arguments(parse(["window"]))
    assert not commands.start_of(parse(["run", "--prompt", "x", "--no-remember"])).remember


def test_forget_says_what_it_did(tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("VERIFYBOX_REPLIES", str(tmp_path))
    memory_of(tmp_path, tmp_path, "full", 100).keep([1, 2, 3])
    for said in (f"Forgotten: {tmp_path} is empty.\n", "No reply is remembered.\n"):
        assert main.main(["forget"]) == 0
        assert capsys.readouterr().out == said
