"""Documents cut into windows: what goes into which, what is repeated, what is missing."""

import numpy as np
import pytest

from headscope.datasets import OUTSIDE, Corpus, Sentence
from headscope.errors import HeadscopeError, InputError
from headscope.extraction.batches import Tally, batches
from headscope.extraction.calibration import KeepMaps, observe
from headscope.extraction.observers import Resampling
from headscope.extraction.run import run
from headscope.extraction.windows import Windows, windowed
from headscope.probing.analysis import Settings, analyse
from headscope.probing.dependency import Dependency
from headscope.probing.surface import Surface
from tests.extraction.toys import (
    EVERY_KIND,
    NeverCalled,
    boundaries_from_text,
    encoder_of,
    wordpiece,
)
from tests.models import encoder

RESAMPLING = Resampling(0, "ab" * 32)


def sentence(number, words, unit=0):
    """A chain: each word depends on the one before; single letters are one piece each."""
    words = tuple(words.split())
    n = len(words)
    return Sentence(
        words,
        tuple(range(n)),
        ("root", *["dep"] * (n - 1)),
        ("X",) * n,
        f"s{number}",
        number,
        unit,
        1,
    )


def corpus(*sentences, unit="document", **changes):
    read = changes.pop("read", lambda: iter(sentences))
    own = {"format": "conllu", "annotation": "gold", "note": "", "skipped": [], **changes}
    return Corpus("c", "ab" * 32, unit=unit, read=read, **own)


# Two documents; with the two special tokens of BERT a window of 8 tokens holds six letters.
TEXT = corpus(
    sentence(0, "a b c"), sentence(1, "d e"), sentence(2, "f g"), sentence(3, "h", 1),
    sentence(4, "i j k l m n o p", 1), sentence(5, "q r", 1),
)  # fmt: skip


@pytest.fixture(scope="module")
def model():
    return encoder("bert", max_position_embeddings=20)


def cut(model, data, **windows):
    made = windowed(data, model, Windows(**windows), wants_maps=True)
    return made, list(made.read())


def test_windows_are_packed_from_the_start_of_each_document(model):
    made, windows = cut(model, TEXT, tokens=8)
    assert [" ".join(w.words) for w in windows] == [
        "a b c d e",
        "f g",
        "h",
        "i j k l m n",
        "o p",
        "q r",
    ]
    assert [w.sent_id for w in windows] == ["s0 to s1", "s2", "s3", "s4", "s4", "s5"]
    assert [w.unit for w in windows] == [0, 0, 1, 1, 1, 1]
    assert [w.ordinal for w in windows] == list(range(6))
    assert [w.n_sentences for w in windows] == [2, 1, 1, 1, 0, 1]
    assert windows[0].heads == (0, 1, 2, 0, 4)
    assert (made.unit, made.n_sentences) == ("document", None)
    assert made.note == "windows of whole sentences, up to 8 tokens"


def test_arcs_of_a_sentence_that_had_to_be_cut_are_missing(model):
    _, windows = cut(model, TEXT, tokens=8)
    assert windows[3].heads == (0, 1, 2, 3, 4, 5)
    assert windows[4].heads == (OUTSIDE, 1)


def test_a_stride_repeats_sentences_as_context(model):
    made, windows = cut(model, TEXT, tokens=8, stride=1)
    shown = [(" ".join(w.words), w.n_context) for w in windows]
    assert shown[:3] == [("a b c d e", 0), ("d e f g", 2), ("h", 0)]
    assert [w.n_sentences for w in windows[:2]] == [2, 1]
    assert made.note.endswith("8 tokens, the last 1 of each repeated in the next")
    # A long sentence leaves no room for its neighbours, and is nobody's context.
    assert shown[3:] == [("i j k l m n", 0), ("o p", 0), ("q r", 0)]


def test_repeated_sentences_never_crowd_out_the_new_one(model):
    data = corpus(sentence(0, "a b c"), sentence(1, "d e f"), sentence(2, "g h i j k"))
    _, windows = cut(model, data, tokens=8, stride=2)
    assert [" ".join(w.words) for w in windows] == ["a b c d e f", "g h i j k"]


def test_without_documents_the_file_is_one_and_windows_are_resampled(model):
    data = corpus(*(sentence(i, "a b", unit=i) for i in range(5)), unit="sentence")
    made, windows = cut(model, data, tokens=8)
    assert [len(w.words) for w in windows] == [6, 4]
    assert ([w.unit for w in windows], made.unit) == ([0, 1], "window")


def test_length_is_that_of_the_model_and_of_whole_maps(model):
    assert Windows().length(model, wants_maps=False) == 20
    assert Windows(12).length(model, wants_maps=True) == 12
    assert Windows(99).length(model, wants_maps=False) == 20
    long = encoder("bert", max_position_embeddings=3000)
    long.max_length = 3000
    assert Windows().length(long, wants_maps=False) == 3000
    assert Windows().length(long, wants_maps=True) == 1024
    long.max_length = None  # no table of positions
    assert Windows().length(long, wants_maps=False) == 1024
    assert Windows(5000).length(long, wants_maps=False) == 5000


def test_every_word_is_scored_once(model):
    for windows in (Windows(8), Windows(8, 1), Windows(12, 2)):
        tally = Tally()
        made = windowed(TEXT, model, windows, wants_maps=True)
        group = list(batches(model, made.read(), tally=tally))
        assert (tally.n_words, tally.n_sentences) == (18, 6)
        assert tally.n_tokens == 18 + 2 * sum(len(batch) for batch in group)
        scored = sum(int((batch.scored & ~batch.special).sum()) for batch in group)
        assert scored == 18


def test_windows_of_one_sentence_give_the_numbers_of_single_sentences(model):
    apart = corpus(*(sentence(i, "a b c d", unit=i) for i in range(3)))
    plain, cut_up = Surface(model, RESAMPLING), Surface(model, RESAMPLING)
    run(model, apart, [plain])
    run(model, windowed(apart, model, Windows(), wants_maps=True), [cut_up])
    assert np.array_equal(plain.sums, cut_up.sums)


def test_context_is_attended_to_and_not_scored(model):
    """Sums over the new rows of the window, by hand from its whole map."""
    data = corpus(sentence(0, "a b c"), sentence(1, "d e"), sentence(2, "f g"))
    made = windowed(data, model, Windows(8, 1), wants_maps=True)
    surface, arcs, maps = Surface(model, RESAMPLING), Dependency(model, RESAMPLING), KeepMaps()
    (batch,) = batches(model, list(made.read())[1:])
    with observe(model, [surface, arcs, maps]) as seen:
        seen.forward(batch)
    # [CLS] d e f g [SEP]: d and e are context.
    rows = [0, 3, 4, 5]
    expected = np.array([m[0, :, rows, 0].sum(1).tolist() for m in maps.maps])
    place = list(surface.result()).index("first")
    assert np.allclose(surface.sums[0, :, :, 0, place], expected, atol=1e-12)
    assert surface.counts[0, 0, 0, place] == 4
    sums, _ = arcs.totals()
    assert sums["dep"][0, -1] == 1  # e depends on d, and was scored before; g depends on f
    assert surface.result()["previous"].n == 3


def test_missing_arcs_are_counted(model):
    result = analyse(model, TEXT, settings=Settings(windows=Windows(8)))
    skipped = result.dependency.provenance.data.skipped
    assert skipped["arcs_across_windows"] == 1
    assert result.dependency.overall["all_arcs"].count == 18 - 6 - 1
    assert result.surface.provenance.settings["windows"] == {"tokens": 8, "stride": 0}
    assert analyse(model, TEXT).surface.provenance.settings["windows"] is None
    whole = analyse(model, TEXT, settings=Settings(windows=Windows())).surface
    assert whole.provenance.settings["windows"] == {"tokens": 20, "stride": 0}


def test_shuffled_words_stay_in_their_sentence(model):
    result = analyse(
        model, TEXT, ("surface",), settings=Settings(windows=Windows(8), control="shuffled-words")
    )
    own, control = result.surface.measures["entropy"], result.surface.control.measures["entropy"]
    assert own.n == control.n
    assert not np.array_equal(own.values, control.values)


def test_what_cannot_be_cut_alone_is_left_out_by_name(model):
    data = corpus(sentence(0, "a b"), sentence(1, "abcdefghijklmnopqrstuvwxyz"), sentence(2, "c"))
    tally = Tally()
    made = windowed(data, model, Windows(8), wants_maps=True)
    group = list(batches(model, made.read(), tally=tally))
    assert sum(len(batch) for batch in group) == 2
    assert tally.skipped["too_long"] == 1
    assert "sentence s1 " in tally.left_out[0]


def tried(toy, data, windows, **options):
    """The windows, and what batches make of them."""
    made = list(windowed(data, toy, windows, wants_maps=True).read())
    tally = Tally()
    return made, list(batches(toy, made, tally=tally, **options)), tally


# "cats" is one piece at the start of a text, and two after a space: "▁" and "cats".
CATS = boundaries_from_text("cats", "▁see", "▁dogs")


def test_words_that_are_longer_after_a_space_are_measured_in_place():
    data = corpus(*(sentence(i, "cats see dogs") for i in range(30)))
    made, group, tally = tried(encoder_of(CATS), data, Windows(20))
    # With two special tokens: 2 + 3 + 4 + 4 + 4 = 17, and one more sentence makes 21.
    assert [len(window.words) for window in made] == [12] * 7 + [6]
    assert sorted({int(n) for batch in group for n in batch.n_tokens}) == [9, 17]
    assert (tally.n_sentences, tally.n_words) == (30, 90)
    assert set(tally.skipped.values()) == {0}


def test_what_does_not_fit_after_all_comes_before_the_next_document():
    data = corpus(*(sentence(i, "cats see dogs", i // 5) for i in range(10)))
    made, _, tally = tried(encoder_of(CATS), data, Windows(20))
    assert [(w.sent_id, w.unit) for w in made] == [
        ("s0 to s3", 0), ("s4", 0), ("s5 to s8", 1), ("s9", 1),
    ]  # fmt: skip
    assert (tally.n_sentences, tally.units) == (10, {0, 1})


def test_context_gives_way_where_a_sentence_is_longer_after_it():
    data = corpus(*(sentence(i, "cats see dogs") for i in range(4)))
    for tokens, n_context in ((8, [0, 0, 0, 0]), (9, [0, 3, 3])):
        made, _, tally = tried(encoder_of(CATS), data, Windows(tokens, stride=1))
        assert [window.n_context for window in made] == n_context
        assert (tally.n_sentences, tally.n_words) == (4, 12)
        assert tally.skipped["too_long"] == 0


def test_parts_of_a_sentence_fit_although_their_first_word_is_longer_there():
    """At the start of a text "dogs" is four pieces, and after a space one."""
    data = corpus(sentence(0, " ".join(["dogs"] * 20)))
    toy = encoder_of(boundaries_from_text("▁dogs"))
    made, _, tally = tried(toy, data, Windows(10))
    # Room for 8: d o g s and four more.
    assert [len(window.words) for window in made] == [5] * 4
    assert (tally.n_sentences, tally.n_words, tally.skipped["too_long"]) == (1, 20, 0)


def test_sentences_that_would_share_a_piece_are_not_joined():
    data = corpus(*(sentence(i, words) for i, words in enumerate(["a", "the", "cat", "a the"])))
    toy = encoder_of(boundaries_from_text("the▁cat"))
    made, _, tally = tried(toy, data, Windows(40, stride=1))
    assert [" ".join(window.words) for window in made] == ["a the", "cat a the"]
    assert (tally.n_sentences, tally.skipped["misaligned"]) == (4, 0)


def test_a_token_without_a_vector_costs_one_sentence():
    toy = encoder_of(wordpiece(["a", "b", "c"]))
    toy.model = NeverCalled(7)  # "c" is the eighth piece
    data = corpus(*(sentence(i, words) for i, words in enumerate(["a b", "b c", "b", "a"])))
    _, _, tally = tried(toy, data, Windows(20))
    assert (tally.n_sentences, tally.skipped["misaligned"]) == (3, 1)
    assert tally.left_out[0].startswith("sentence s1 ")


@pytest.mark.parametrize(
    ("single", "n_words"), [("[CLS] $A [SEP]", 8), ("$A [SEP]", 9), ("[CLS] $A", 8), ("$A", 9)]
)
def test_there_is_room_for_the_token_that_a_decoder_starts_with(single, n_words):
    tokenizer = wordpiece(["a"], single=single)
    toy = encoder_of(tokenizer, attention="decoder", start_id=0, max_length=10)
    data = corpus(*(sentence(i, "a") for i in range(40)))
    made, _, tally = tried(toy, data, Windows(), target="copy")
    assert len(made[0].words) == n_words
    assert (tally.n_words, tally.skipped["too_long"]) == (40, 0)


@EVERY_KIND
@pytest.mark.parametrize("stride", [0, 2])
def test_no_window_overflows_and_none_is_half_empty(tokenizer, stride):
    rng = np.random.default_rng(5)
    words = ["the", "cat", "dog", "naïve", ",", "18th", "a"]
    texts = [" ".join(rng.choice(words, rng.integers(1, 12))) for _ in range(150)]
    data = corpus(*(sentence(i, text, i // 50) for i, text in enumerate(texts)))
    made, group, tally = tried(encoder_of(tokenizer), data, Windows(40, stride))
    new = [" ".join(window.words[window.n_context :]) for window in made]
    assert " ".join(new) == " ".join(texts)
    assert set(tally.skipped.values()) == {0}
    assert tally.units == {0, 1, 2}
    n_tokens = np.concatenate([batch.n_tokens.numpy() for batch in group])
    assert n_tokens.max() <= 40
    assert n_tokens.mean() > 26


@pytest.mark.parametrize(
    ("windows", "told"),
    [
        ({"tokens": 2}, "windows of 2 tokens; expected 3 or more"),
        ({"stride": -1}, "a stride of -1 sentences; expected 0 or more"),
    ],
)
def test_numbers_that_make_no_sense(windows, told):
    with pytest.raises(HeadscopeError, match=told):
        Windows(**windows)


@pytest.mark.parametrize(
    ("changes", "told"),
    [({"format": "pairs"}, "a table of texts"), ({"record": "x"}, "a record of attention")],
)
def test_what_has_no_documents_is_refused(model, changes, told):
    with pytest.raises(InputError, match=f"c: found {told}, whose items are not cut .*--windows"):
        windowed(corpus(**changes), model, Windows(), wants_maps=True)
