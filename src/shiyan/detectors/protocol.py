"""What a detector learns from and what it is tested on: the rows of AIGenPoetry's tables.

A *lesson* is a choice of poems to learn from; a *setting* tests what was learnt in a
lesson on some poems. A detector without training learns its threshold alone. Several
settings share a lesson: Table 4 tests what was learnt from D2+4+5 on five subsets.

Poems of a lesson and of its tests never share a group. But for the settings that compare
temperatures, LLM poems are those of `splits.at_main_temperature`.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from shiyan.config import LessonKind as Kind
from shiyan.records import EvaluatedPoem, Fold
from shiyan.splits import (
    MERGES,
    Authored,
    HeldOut,
    at_main_temperature,
    leave_one_generator_out,
    leave_one_poet_out,
    subset_name,
    subsets_of,
)

OUT_OF_DOMAIN: Mapping[str, tuple[str, ...]] = {
    "D2+4+5": ("D2+4+5", "D1", "D6-8", "D9", "D10-13"),
    "D6-8": ("D6-8", "D1", "D10-13", "D2+4+5"),
    "D10-13": ("D10-13", "D1", "D2+4+5", "D2", "D3", "D6-8", "D6", "D9", "D10"),
}
"""Learnt from -> tested on, the subset itself first (AIGenPoetry, Table 4)."""
EVERYBODY = "all"
"""All generators, or all poems of the train fold."""


@dataclass(frozen=True)
class Lesson:
    """Poems to learn from, and every poem that is tested by what was learnt."""

    name: str
    train: tuple[str, ...]
    test: tuple[str, ...]


@dataclass(frozen=True)
class Setting:
    """One cell of a table, the same for every detector.

    Attributes:
        lesson: the name of a `Lesson`.
        generator: whose poems are tested; `EVERYBODY` for those of all generators.
        trained_on, tested_on: as the table names them.
        test: poem ids.
    """

    kind: Kind
    lesson: str
    generator: str
    trained_on: str
    tested_on: str
    test: tuple[str, ...]


@dataclass(frozen=True)
class Protocol:
    """Every lesson by name, and every setting in the order of the tables."""

    lessons: Mapping[str, Lesson]
    settings: tuple[Setting, ...]

    @classmethod
    def of(cls, poems: Mapping[str, EvaluatedPoem]) -> "Protocol":
        """What can be learnt and tested with these poems; attacked ones are in no setting.

        Only settings that the poems allow are there: no transfer with one generator,
        no temperatures with one temperature.
        """
        every = [poem for poem in poems.values() if poem.attack is None]
        main = at_main_temperature(every)
        folds = {poem.poem_id: poem.fold for poem in every}
        groups = {poem.poem_id: poem.group_id for poem in every}
        subsets = subsets_of(main)
        train = {name: _of_fold(ids, folds, "train") for name, ids in subsets.items()}
        tests = {name: _of_fold(ids, folds, "test") for name, ids in subsets.items()}
        settings = [*_within(tests, generators_of(every)), *_across(tests, generators_of(every))]
        for name, learnt, found in _temperatures(every, folds):
            train[name] = learnt
            settings += found
        left_out: tuple[tuple[Kind, Iterable[HeldOut]], ...] = (
            ("generator_left_out", leave_one_generator_out(main, folds)),
            ("poet_left_out", leave_one_poet_out(main, groups)),
        )
        for kind, held_outs in left_out:
            for held in held_outs:
                name = f"without {held.name}"
                train[name] = held.train
                whose = held.name if kind == "generator_left_out" else EVERYBODY
                settings.append(Setting(kind, name, whose, name, held.name, held.test))
        tested: dict[str, dict[str, None]] = {name: {} for name in train}
        for setting in settings:
            tested[setting.lesson] |= dict.fromkeys(setting.test)
        lessons = {name: Lesson(name, ids, tuple(tested[name])) for name, ids in train.items()}
        return cls(lessons, tuple(settings))

    def of_kind(self, kind: Kind) -> list[Setting]:
        return [setting for setting in self.settings if setting.kind == kind]


def _within(tests: Mapping[str, tuple[str, ...]], generators: Sequence[str]) -> Iterator[Setting]:
    """In-domain: learnt from a subset's train fold, tested on its test fold (Tables 2, 3)."""
    for name, test in tests.items():
        generator, chosen = _parted(name, generators)
        yield Setting("in_domain", name, generator, chosen, chosen, test)


def _across(tests: Mapping[str, tuple[str, ...]], generators: Sequence[str]) -> Iterator[Setting]:
    """Out-of-domain over all generators (Table 4), and from one generator to another."""
    for trained_on, columns in OUT_OF_DOMAIN.items():
        for tested_on in columns:
            if trained_on in tests and tested_on in tests:
                yield Setting(
                    "out_of_domain", trained_on, EVERYBODY, trained_on, tested_on, tests[tested_on]
                )
    if len(generators) > 1:
        for trained_on in generators:
            for tested_on in generators:
                yield Setting(
                    "generator", trained_on, tested_on, trained_on, tested_on, tests[tested_on]
                )


def _temperatures(
    poems: Sequence[EvaluatedPoem], folds: Mapping[str, Fold]
) -> Iterator[tuple[str, tuple[str, ...], list[Setting]]]:
    """(lesson, its poems, settings) from each temperature to each (Tables 5 and 6).

    On P1, as in the paper, where it is there. Over all generators that wrote at the
    temperatures (the same as its own where there is one), and then over each.
    """
    human = [poem.poem_id for poem in poems if poem.generation is None]
    by_generator = {g: _comparable(cells) for g, cells in sorted(_by_temperature(poems).items())}
    several = {g: written for g, written in by_generator.items() if written}
    whose = {EVERYBODY: _comparable(several.values())} if several else {}
    for generator, written in (whose | several).items():
        tests = {t: _of_fold((*human, *ids), folds, "test") for t, ids in written.items()}
        for trained_on in written:
            of_whom = "" if generator == EVERYBODY else f"{generator}, "
            name = f"{of_whom}temperature {trained_on:g}"
            train = _of_fold((*human, *written[trained_on]), folds, "train")
            yield (
                name,
                train,
                [
                    Setting(
                        "temperature", name, generator, f"{trained_on:g}", f"{tested_on:g}", ids
                    )
                    for tested_on, ids in tests.items()
                ],
            )


def _by_temperature(poems: Sequence[EvaluatedPoem]) -> dict[str, list[dict[float, list[str]]]]:
    """Generator -> for each prompt, temperature -> poem ids."""
    prompts = {poem.generation.prompt_id for poem in poems if poem.generation}
    cells: dict[str, dict[str, dict[float, list[str]]]] = {}
    for poem in poems:
        made = poem.generation
        if made is None or made.temperature is None:
            continue
        if "P1" in prompts and made.prompt_id != "P1":
            continue
        of_prompt = cells.setdefault(made.generator, {}).setdefault(made.prompt_id, {})
        of_prompt.setdefault(made.temperature, []).append(poem.poem_id)
    return {generator: list(of_prompt.values()) for generator, of_prompt in cells.items()}


def _comparable(cells: Iterable[Mapping[float, Sequence[str]]]) -> dict[float, list[str]]:
    """Temperature -> poem ids, the highest first, of the cells that have several.

    Every such cell has all the temperatures, so that two of them differ in nothing else;
    empty where fewer than two are common to all.
    """
    several = [written for written in cells if len(written) > 1]
    shared = set.intersection(*map(set, several)) if several else set()
    if len(shared) < 2:
        return {}
    return {t: [p for written in several for p in written[t]] for t in sorted(shared, reverse=True)}


def generators_of(poems: Iterable[Authored]) -> list[str]:
    """Who wrote the LLM poems among these."""
    return sorted({poem.generation.generator for poem in poems if poem.generation})


def _parted(subset: str, generators: Sequence[str]) -> tuple[str, str]:
    """(generator, subset of its prompts) of a subset's name."""
    for generator in generators:
        if subset == generator:
            return generator, EVERYBODY
        if subset.startswith(f"{generator}/"):
            return generator, subset.removeprefix(f"{generator}/")
    return EVERYBODY, subset


def _of_fold(poem_ids: Iterable[str], folds: Mapping[str, Fold], fold: Fold) -> tuple[str, ...]:
    return tuple(poem_id for poem_id in poem_ids if folds[poem_id] == fold)


def subset_order(name: str) -> tuple[int, int, str]:
    """Sorts D1 … D13, each merge behind its first subset, other names first."""
    firsts = {merge: subset_name(prompts[0]) for merge, prompts in MERGES.items()}
    number = firsts.get(name, name).removeprefix("D")
    if not number.isdecimal():
        return (0, 0, name)
    return (1, int(number), name)
