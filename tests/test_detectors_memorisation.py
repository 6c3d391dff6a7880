"""What a model would recite, from ranks set by hand."""

import numpy as np
import pytest
from detector_fakes import human, written
from test_zero_shot import ROLES, detectors_over

from shiyan.detectors.memorisation import NO_SPANS, counted, memorised, recited, told
from shiyan.records import Memorisation
from shiyan.token_statistics import ModelStatistics, TextStatistics

TEXT = "渡口有人数鞋，\n旧木船停在岸边。\n谁把灯芯拨亮，又吹灭"
"""Clauses: 6 characters, 7, and of the last line 6 and 3."""


def spans_of(text: str, joined: tuple[str, ...] = ()) -> tuple[tuple[int, int], ...]:
    """A token a character, but for words that are one token and marks that take a line break."""
    found, start = [], 0
    while start < len(text):
        word = next(
            (w for w in (*joined, "，\n", "。\n") if text.startswith(w, start)), text[start]
        )
        found.append((start, start + len(word)))
        start += len(word)
    return tuple(found)


def statistics(spans, missed: set[int] = frozenset(), tied: int | None = None) -> ModelStatistics:
    """All tokens but the first are first choices, except those that begin where `missed` says."""
    starts = [start for start, _ in spans[1:]]
    rank = np.array([2 if start in missed else 1 for start in starts], np.float32)
    ties = np.array([start == tied for start in starts], np.float32)
    n = len(starts)
    return ModelStatistics(
        np.full(n, -0.5, np.float32), rank, ties, np.zeros(n + 1), np.zeros(n + 1)
    )


def test_all_first_choices_recite_every_clause_after_the_first():
    spans = spans_of(TEXT)
    found = recited(TEXT, spans, statistics(spans))
    assert (found.lines, found.lines_recited) == (2, 2)  # 又吹灭 is too short to count
    assert found.longest_run == 6 + 7 + 6 + 3 - 1  # the first token is not predicted
    assert found.mean_log_probability == -0.5
    assert (found.n_new, found.first_choice_share) == (22, 21 / 22)
    assert found.by_heart


def test_a_missed_mark_breaks_nothing_and_a_missed_character_its_clause():
    spans = spans_of(TEXT)
    after_a_line = TEXT.index("。\n")
    assert recited(TEXT, spans, statistics(spans, {after_a_line})).lines_recited == 2
    found = recited(TEXT, spans, statistics(spans, {TEXT.index("船")}))
    assert (found.lines, found.lines_recited, found.longest_run) == (2, 1, 4 + 6 + 3)
    assert found.first_choice_share == 20 / 22


@pytest.mark.parametrize(("n_missed", "by_heart"), [(12, True), (13, False)])
def test_a_poem_is_known_from_two_fifths_of_its_characters(n_missed, by_heart):
    spans = spans_of(TEXT)
    characters = [i for i, character in enumerate(TEXT) if character not in "，。\n"]
    # The first of the 22 is never guessed: 9 of 22 are two fifths, 8 are not.
    found = recited(TEXT, spans, statistics(spans, set(characters[1 : n_missed + 1])))
    assert found.by_heart is by_heart


def test_too_few_characters_tell_nothing():
    text = "谁把灯芯拨亮，又吹灭。旧木船停在岸边，"
    spans = spans_of(text)
    found = recited(text, spans, statistics(spans))
    assert (found.n_new, found.first_choice_share, found.by_heart) == (16, 15 / 16, False)


def test_a_word_that_is_one_token_is_missed_as_a_whole():
    spans = spans_of(TEXT, joined=("木船",))
    found = recited(TEXT, spans, statistics(spans, {TEXT.index("木船")}))
    assert (found.lines_recited, found.longest_run) == (1, 4 + 6 + 3)


def test_a_character_in_two_tokens_needs_both():
    spans = list(spans_of(TEXT))
    place = spans.index((TEXT.index("船"), TEXT.index("船") + 1))
    doubled = (*spans[: place + 1], *spans[place:])
    p = statistics(doubled)
    p.rank[place] = 3  # the second of the two: predicted tokens lack the first of all
    assert recited(TEXT, doubled, p).lines_recited == 1


def test_a_tie_is_no_first_choice():
    spans = spans_of(TEXT)
    assert recited(TEXT, spans, statistics(spans, tied=TEXT.index("船"))).lines_recited == 1


def test_with_bos_the_first_token_is_predicted_too():
    spans = spans_of(TEXT)
    p = statistics(((0, 0), *spans))
    assert recited(TEXT, spans, p).longest_run == 6 + 7 + 6 + 3


def test_a_refrain_is_no_recitation():
    line = "旧木船停在岸边"
    text = "\n".join([line] * 6)
    spans = spans_of(text)
    found = recited(text, spans, statistics(spans))
    assert (found.lines, found.lines_recited) == (0, 0)
    assert found.longest_run == len(line) - 1


@pytest.mark.parametrize(("second", "lines"), [("旧木船停在水边", 0), ("旧木船问谁家灯火", 1)])
def test_a_line_of_a_pattern_counts_from_four_new_characters(second, lines):
    text = f"旧木船停在岸边\n{second}"
    spans = spans_of(text)
    assert recited(text, spans, statistics(spans)).lines == lines


def zero_shot(names=("log_likelihood",)):
    return detectors_over(names)


def of_text(text: str, spans=None) -> TextStatistics:
    own = spans_of(text)
    return TextStatistics(len(own), {ROLES.scoring: statistics(own)}, {}, 512, spans or own)


def test_only_human_poems_are_flagged_and_an_llms_counted_apart():
    poems = {"h": human("h", TEXT), "w": written("w", "h", TEXT), "s": human("s", "雨")}
    measured = {p: of_text(TEXT) for p in "hw"} | {"s": TextStatistics(1, longest=512)}
    found = memorised(zero_shot(), poems.values(), measured)
    assert [(record.poem_id, record.flagged) for record in found] == [
        ("h", True),
        ("w", False),
        ("s", False),
    ]
    assert found[1].lines_recited == 2
    assert found[2] == Memorisation(
        poem_id="s",
        model=ROLES.scoring,
        unscored_reason="too short: 1 tokens, at least 8 are needed",
    )
    counts = counted(found, poems)
    assert "40% or more are the model's first choice" in counts.pop("rule")
    assert counts == {
        ROLES.scoring: {
            "n_human": 2,
            "n_flagged": 1,
            "flagged": ["h"],
            "n_llm": 1,
            "n_llm_recited": 1,
            "n_unscored": 1,
        }
    }
    assert told(found) == [
        f"{ROLES.scoring} knows 1 human poems by heart (h), which its detectors take for an LLM's"
    ]


@pytest.mark.parametrize("value", [np.nan, -np.inf])
def test_logits_that_are_not_finite_tell_nothing(value):
    measured = of_text(TEXT)
    measured.models[ROLES.scoring].log_prob[3] = value
    (found,) = memorised(zero_shot(), [human("h", TEXT)], {"h": measured})
    assert found.lines is None
    assert found.unscored_reason == f"the logits of {ROLES.scoring} are not finite"


def test_a_tokenizer_without_places_tells_nothing():
    measured = of_text(TEXT)
    without = TextStatistics(measured.n_tokens, measured.models, {}, 512)
    (found,) = memorised(zero_shot(), [human("h", TEXT)], {"h": without})
    assert (found.lines, found.flagged, found.unscored_reason) == (None, False, NO_SPANS)


def test_every_model_that_speaks_for_itself_is_asked():
    spans = spans_of(TEXT)
    measured = TextStatistics(
        len(spans),
        {"3b": statistics(spans), "7b": statistics(spans, set(range(len(TEXT))))},
        {},
        512,
        spans,
    )
    found = memorised(zero_shot(("lrr", "fast_detectgpt")), [human("h", TEXT)], {"h": measured})
    assert [(r.model, r.flagged, r.longest_run) for r in found] == [
        ("3b", True, 21),
        ("7b", False, 0),
    ]
