"""Agreement with values made by another reader, other tables, and the paper's Table 1.

Our own ci in tests/cases/ are always checked; the 17,871 of ../shared are additional.
"""

import csv
import gzip
import json
import random
from collections import Counter

import pytest
from shared import BUGS, OWN, SHARED, json_lines, needs_shared

from shiyan.ci.check import Checker
from shiyan.ci.pattern import Pattern, ToneCount
from shiyan.report.of_ci import published

FLAGS = {
    "std_strict": "structure_standard",
    "any_strict": "structure_any",
    "std_optional": "structure_standard_optional",
    "any_optional": "structure_any_optional",
}
LACUNAE = "□■◆◇＿{"


def lines(path):
    with gzip.open(path, "rt", encoding="utf-8") as file:
        yield from file


@pytest.fixture(scope="module")
def checker():
    return Checker()


# --- our own ci -------------------------------------------------------------------------


OWN_CI = json_lines(OWN / "ci_reference.jsonl")


@pytest.mark.parametrize("row", OWN_CI, ids=lambda row: row["id"])
def test_an_own_ci_has_the_verdict_of_the_reference(checker, row):
    """`ours` is what we say where we differ, and `why` says which is right."""
    verdict = checker.check(row["text"], row["cipai"])
    found = {theirs: getattr(verdict, ours) for theirs, ours in FLAGS.items()}
    found["characters"] = len(verdict.text)
    if verdict.pattern:
        found |= {
            "tone_fit": verdict.tone.fit,
            "fixed_fit": verdict.tone.fixed_fit,
            "fixed_n": verdict.tone.fixed_n,
            "one_reading_fit": verdict.tone.definite_fit,
            "one_reading_n": verdict.tone.definite_n,
            "unknown": verdict.sounds.unknown.bit_count(),
            "rhymes_kept": verdict.rhymes.n_kept,
            "rhymes": verdict.rhymes.n,
        }
    assert found == row["reference"] | row.get("ours", {})


def test_an_own_ci_without_a_name_is_named_right(checker):
    kept = [row for row in OWN_CI if row["reference"]["any_strict"]]
    assert len(kept) >= 30
    for row in kept:
        assert checker.check(row["text"]).cipai in checker.catalogue.find(row["cipai"]), row["id"]


# --- the ci of ../shared ----------------------------------------------------------------


@pytest.fixture(scope="module")
def verdicts(checker):
    poems = [json.loads(line) for line in lines(SHARED / "data/ci30_corpus.jsonl.gz")]
    return [(poem, checker.check(poem["text"], poem["cipai"])) for poem in poems]


@pytest.fixture(scope="module")
def reference():
    rows = csv.DictReader(lines(SHARED / "cases/ci_reference.tsv.gz"), delimiter="\t")
    return {row["id"]: row for row in rows}


@needs_shared
@pytest.mark.parametrize("theirs", FLAGS)
def test_the_structure_of_every_poem(verdicts, reference, theirs):
    ours = FLAGS[theirs]
    differ = [
        poem
        for poem, verdict in verdicts
        if getattr(verdict, ours) != bool(int(reference[poem["id"]][theirs]))
    ]
    assert len(differ) <= 0.001 * len(verdicts)
    # The reference drops ◆ ◇ ＿ and counts {components} by the letter: ours is right there.
    assert all(any(mark in poem["text"] for mark in LACUNAE) for poem in differ)


@needs_shared
def test_the_tones_in_total(verdicts, reference):
    theirs: Counter[str] = Counter()
    for row in reference.values():
        for name in ("tone_fit", "tone_n", "one_reading_fit", "one_reading_n"):
            theirs[name] += int(row[name] or 0)
    kept = [verdict.tone for _, verdict in verdicts if verdict.tone]
    fit = sum(t.fit for t in kept) / sum(t.n for t in kept)
    one = sum(t.definite_fit for t in kept) / sum(t.definite_n for t in kept)
    assert fit == pytest.approx(theirs["tone_fit"] / theirs["tone_n"], abs=0.003)
    assert one == pytest.approx(theirs["one_reading_fit"] / theirs["one_reading_n"], abs=0.003)


@needs_shared
def test_few_characters_are_unknown(verdicts):
    unknown = sum(v.sounds.unknown.bit_count() for _, v in verdicts)
    assert unknown <= 0.003 * sum(len(v.text) for _, v in verdicts)


@needs_shared
def test_rhymes_are_near_what_was_known(verdicts):
    kept = [v.rhymes for _, v in verdicts if v.pattern and v.rhymes and v.rhymes.n]
    assert 0.95 <= sum(r.n_kept for r in kept) / sum(r.n for r in kept) <= 0.97
    assert 0.79 <= sum(r.n_kept == r.n for r in kept) / len(kept) <= 0.84


@needs_shared
def test_shuffled_characters_score_near_chance(checker, verdicts):
    rng = random.Random(0)
    counts: list[ToneCount] = []
    for _, verdict in verdicts[::4]:
        if not verdict.cipai or not verdict.pattern:
            continue
        shuffled = "".join(rng.sample(verdict.text.characters, len(verdict.text)))
        sounds = checker.tones.sounds(shuffled)
        fitting: list[Pattern] = [
            p for p in checker.patterns(verdict.cipai) if p.fits(verdict.text)
        ]
        counts.append(max((ToneCount.of(p, sounds) for p in fitting), key=lambda c: c.share))
    assert sum(c.fit for c in counts) / sum(c.n for c in counts) == pytest.approx(0.704, abs=0.01)
    definite = sum(c.definite_fit for c in counts) / sum(c.definite_n for c in counts)
    assert definite == pytest.approx(0.507, abs=0.01)


@needs_shared
def test_the_cipai_is_named_right(checker, verdicts):
    named = right = 0
    for _, verdict in verdicts[::4]:
        if verdict.pattern and verdict.cipai:
            best = checker.identify(verdict.text, verdict.sounds)
            named += 1
            right += best is not None and best.name.startswith(f"{verdict.cipai.name}/")
    assert right >= 0.95 * named


def table_1(checker, rows) -> list[str]:
    """The cipai whose numbers of structures differ; all standard lengths must agree.

    A row is (cipai, standard characters, structure variants, mean characters).
    """
    standard, structures = 0, []
    for cipai, length, variants, mean in rows:
        tune = checker.catalogue.find(cipai)[0]
        standard += len(tune.standard) == length
        ours = sum(map(sum, tune.structures)) / len(tune.structures)
        if (len(tune.structures), round(ours, 2)) != (variants, mean):
            structures.append(cipai)
    assert standard == len(rows) == 30
    return structures


def test_table_1_of_the_paper(checker):
    names = ("cipai", "standard_characters", "structure_variants", "mean_characters")
    rows = [tuple(row[name] for name in names) for row in published()["table_1"]]
    assert table_1(checker, rows) == ["满庭芳", "望江南", "忆江南"]


@needs_shared
def test_table_1_as_another_read_it(checker):
    given = json.loads((SHARED / "cases/cciv_published.json").read_text(encoding="utf-8"))
    names = ("cipai", "std_chars", "structure_variants", "avg_chars")
    rows = [tuple(row[name] for name in names) for row in given["table1"]]
    assert table_1(checker, rows) == ["满庭芳", "望江南", "忆江南"]


# --- reported trouble; own lines of each kind stand in the other test_ci files ----------


def case(number):
    return next((BUGS).glob(f"{number}-*"))


def read(path):
    return path.read_text(encoding="utf-8")


@needs_shared
def test_20_nine_ways_of_marking_one_ci(checker):
    for path in sorted(case(20).glob("*.txt")):
        verdict = checker.check(read(path), "虞美人")
        assert verdict.structure_standard_optional, path.name
        assert len(verdict.text) == 56
        assert (verdict.tone.fixed_fit, verdict.tone.fixed_n) == (43, 43)
        assert (verdict.tone.definite_fit, verdict.tone.definite_n) == (39, 39)
        assert [all(group.kept) for group in verdict.rhymes.groups] == [True] * 4
        assert checker.check(read(path)).cipai.name == "虞美人"


@needs_shared
def test_21_titles(checker):
    rows = list(csv.reader(lines_of(case(21) / "titles.tsv"), delimiter="\t"))[1:]
    for title, wanted, *_ in rows:
        found = checker.catalogue.read_title(title.replace("\\n", "\n")).cipai
        names = {name for tune in found for name in tune.names}
        if "no cipai" in wanted:
            assert not found, title
        else:
            assert any(name in wanted for name in names), title


def lines_of(path):
    return read(path).splitlines()


@needs_shared
def test_22_polyphones(checker):
    verdict = checker.check(read(case(22) / "ci.txt"))
    assert (verdict.tone.fixed_fit, verdict.tone.fixed_n) == (29, 29)
    assert (verdict.tone.definite_fit, verdict.tone.definite_n) == (26, 26)
    assert verdict.record("x", "浣溪沙").n_polyphones == 3


@needs_shared
def test_24_langtaosha_or_ling(checker):
    long, short = read(case(24) / "ling54.txt"), read(case(24) / "short28.txt")
    verdict = checker.check(long)
    assert not verdict.structure_any_optional
    assert any(
        "this is 浪淘沙令/钦1: 54 characters, all 10 lines; tone 40/40 (33/33" in remark
        for remark in verdict.remarks
    )
    assert checker.check(long, "浪淘沙令").structure_standard
    whole = checker.check(short)
    assert (whole.tone.fixed_fit, whole.rhymes.groups[0].part) == (28, 10)
    assert not checker.check(short, "浪淘沙令").structure_any_optional


@needs_shared
def test_26_tanpo_and_jianzi(checker):
    tanpo = checker.check(read(case(26) / "tanpo.txt"))
    assert tanpo.elsewhere.name == "山花子/钦1"
    whole = checker.check(read(case(26) / "tanpo.txt"), "山花子")
    assert (whole.tone.fixed_fit, whole.tone.fixed_n) == (35, 35)
    assert whole.rhymes.groups[0].part == 11
    jianzi = checker.check(read(case(26) / "jianzi.txt"))
    assert [group.part for group in jianzi.rhymes.groups] == [10, 12, 4, 3]
    assert (jianzi.tone.definite_fit, jianzi.tone.definite_n) == (29, 29)


@needs_shared
@pytest.mark.parametrize(
    ("file", "edit"),
    [
        ("missing.txt", "line 5 has 6 characters, 7 wanted"),
        ("extra.txt", "line 2 has 8 characters, 7 wanted"),
        ("missing_nopunct.txt", "cannot tell in which line"),
    ],
)
def test_27_one_character_missing(checker, file, edit):
    verdict = checker.check(read(case(27) / file), "浣溪沙")
    (told,) = verdict.nearest.edits
    assert edit in told
    assert verdict.nearest.distance == 1
    assert verdict.tonal_any == 0 < verdict.nearest.tonal
    assert any("slip" in remark for remark in verdict.remarks)


@needs_shared
def test_30_reduplication(checker):
    for name in "abcde":
        verdict = checker.check(read(case(30) / f"{name}.txt"), "如梦令")
        assert verdict.structure_standard
        assert (verdict.tone.fixed_fit, verdict.rhymes.share) == (18, 1)
    assert checker.check(read(case(30) / "f.txt"), "如梦令").nearest.edits == ("line 6 missing",)


@needs_shared
def test_31_traditional_one_to_many(checker):
    for path in sorted(case(31).glob("*.txt")):
        verdict = checker.check(read(path), "浣溪沙")
        assert (verdict.tone.fixed_fit, verdict.tone.fixed_n) == (29, 29)
        assert [(group.part, all(group.kept)) for group in verdict.rhymes.groups] == [(7, True)]


@needs_shared
def test_34_replies_of_llms(checker):
    for line in lines_of(case(34) / "replies.jsonl"):
        row = json.loads(line)
        verdict = checker.check(row["reply"], "如梦令")
        if row["id"] == "short":
            assert verdict.nearest.edits == ("lines 5-7 missing",)
        else:
            assert verdict.structure_standard
            assert (len(verdict.text), verdict.tone.fixed_fit) == (33, 18)
