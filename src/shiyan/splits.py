"""Folds by group, the paper's subsets, and classes that weigh equally.

A group is a human poem with all its imitations; a ci whose theme came from the
list belongs to its cipai's group, and near-duplicates join groups. A group never
straddles a fold, in any subset: the fold is drawn once, over all poems, and a
subset is a choice of rows. Up-sampling or weighting comes after the split
(AIGenPoetry, section 5, up-samples the human poems; a copy must not cross over).
"""

import random
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Protocol, TypeVar, get_args

from shiyan.errors import UserError
from shiyan.families import family_of
from shiyan.records import Assignment, Fold, Poem, Written
from shiyan.twins import copied_share, root

MERGES = {
    "D2+4+5": ("P2", "P4", "P5"),
    "D6-8": ("P6", "P7", "P8"),
    "D10-13": ("P10", "P11", "P12", "P13"),
}
"""The merged subsets of AIGenPoetry, Table 4."""
FOLDS: tuple[Fold, ...] = get_args(Fold)
LARGEST_BY_TWINS = 0.2
"""Share of all poems that LLM twins may tie into one group."""
REDRAWS = 200
"""How often a draw that leaves a fold without a class is drawn again."""

Item = TypeVar("Item")


class Authored(Protocol):
    """A poem with or without its text: what subsets are chosen by."""

    @property
    def poem_id(self) -> str: ...
    @property
    def author(self) -> str: ...
    @property
    def generation(self) -> Written | None: ...


P = TypeVar("P", bound=Authored)


# --- groups and folds -----------------------------------------------------------------


def group_poems(
    poems: Sequence[Poem],
    twins: Iterable[Collection[str]] = (),
    tunes: Mapping[str, str] = MappingProxyType({}),
) -> dict[str, str]:
    """Poem id -> group id: families that touch are one group.

    A human poem and its imitations are a family (`families.family_of`); a family
    `cipai:X` of LLM ci takes in every human ci of the cipai X, by whichever of its
    names a ci calls it (金缕曲 is 贺新郎); twins join theirs.
    Only a family of LLM twins whose joining would tie more than a fifth of all
    poems together stays apart: a generator that answers every title alike would
    else leave a single group. `twins_across_folds` counts what that costs.

    Args:
        poems: human and LLM poems, ids distinct.
        twins: families of near-duplicates, by poem id.
        tunes: a cipai's name -> the name that all names of the tune share; a name that
            is not in it is a tune of its own.
    """
    family = {poem.poem_id: family_of(poem) for poem in poems}
    parent = {name: name for name in family.values()}
    of_tune: dict[str, set[str]] = defaultdict(set)
    for poem in poems:
        if poem.cipai and family[poem.poem_id] == f"cipai:{poem.cipai}":
            of_tune[tunes.get(poem.cipai, poem.cipai)].add(family[poem.poem_id])
    for families in of_tune.values():
        _join(parent, families)
    for poem in poems:
        tune = tunes.get(poem.cipai or "", poem.cipai or "")
        if poem.generation is None and tune in of_tune:
            _join(parent, [family[poem.poem_id], *of_tune[tune]])
    human = {poem.poem_id for poem in poems if poem.generation is None}
    of_llms: list[list[str]] = []
    for members in map(sorted, twins):
        if human.isdisjoint(members):
            of_llms.append(members)
        else:
            _join(parent, [family[member] for member in members])
    sizes = Counter(root(parent, name) for name in family.values())
    for members in sorted(of_llms, key=lambda members: (len(members), members)):
        roots = {root(parent, family[member]) for member in members}
        total = sum(sizes[name] for name in roots)
        if total <= LARGEST_BY_TWINS * len(poems):
            sizes[_join(parent, roots)] = total
    return {poem_id: root(parent, name) for poem_id, name in family.items()}


def _join(parent: dict[str, str], names: Iterable[str]) -> str:
    """One set out of several, named for a cipai if there is one, else for its first id."""
    first, *others = sorted(
        {root(parent, name) for name in names},
        key=lambda name: (not name.startswith("cipai:"), name),
    )
    for other in others:
        parent[other] = first
    return first


def twins_across_folds(
    twins: Iterable[Collection[str]], folds: Mapping[str, Fold]
) -> list[tuple[str, ...]]:
    """The families of near-duplicates that stand in both folds; none holds a human poem."""
    return [tuple(family) for family in twins if len({folds[member] for member in family}) > 1]


@dataclass(frozen=True)
class _Group:
    """What counts when a group is drawn."""

    name: str
    stratum: tuple[bool, bool, str]
    """Has human poems, has LLM poems, and the poet if there is only one."""
    weight: float
    """Its share of the human poems plus its share of the LLM poems; (0, 2]."""


def assign_folds(
    poems: Sequence[Poem], groups: Mapping[str, str], test_share: float, seed: int
) -> list[Assignment]:
    """The fold of every poem, in the order of `poems`; whole groups only.

    Both classes count alike, poets are spread as well as their groups allow, and
    a poet with one poem falls to either fold by chance.

    Args:
        groups: poem id -> group id, as `group_poems` gives them.
        test_share: the share of either class that is wanted in test, 0 < share < 1.
        seed: of the draw; the order of `poems` does not matter.

    Raises:
        UserError: fewer than two groups, a class without a poem, or no draw that
            leaves both classes in both folds.
    """
    drawn = _described(poems, groups)
    for label, name in enumerate(("human", "LLM")):
        if not any(poem.label == label for poem in poems):
            raise UserError(
                f"there is no {name} poem among the {len(poems)} poems, and a split needs both "
                "classes; see the counts of the stages collect and generate"
            )
    if len(drawn) < 2:
        raise UserError(
            f"all {len(poems)} poems belong to one group ({drawn[0].name!r}: a human poem with its "
            "imitations, or near-duplicates), so nothing can be held out; add other poems or cipai"
        )
    rng = random.Random(seed)
    for _ in range(REDRAWS):
        in_test = _draw(drawn, test_share, rng)
        folds: dict[str, Fold] = {g.name: "test" if g.name in in_test else "train" for g in drawn}
        if len({(folds[groups[poem.poem_id]], poem.label) for poem in poems}) == 4:
            return [
                Assignment(
                    poem_id=poem.poem_id,
                    group_id=groups[poem.poem_id],
                    fold=folds[groups[poem.poem_id]],
                )
                for poem in poems
            ]
    raise UserError(
        f"no draw of the {len(drawn)} groups leaves human and LLM poems in both folds; bring "
        "split.test_share nearer to 0.5, or add poems (LLM poems to more of the human ones)"
    )


def _described(poems: Sequence[Poem], groups: Mapping[str, str]) -> list[_Group]:
    members: dict[str, list[Poem]] = defaultdict(list)
    for poem in poems:
        members[groups[poem.poem_id]].append(poem)
    n_llm = sum(poem.label for poem in poems)
    n_human = len(poems) - n_llm
    described = []
    for name, inside in sorted(members.items()):
        llm = sum(poem.label for poem in inside)
        human = len(inside) - llm
        poets = {poem.author for poem in inside if poem.generation is None}
        described.append(
            _Group(
                name,
                (human > 0, llm > 0, poets.pop() if len(poets) == 1 else ""),
                human / max(n_human, 1) + llm / max(n_llm, 1),
            )
        )
    return described


def _draw(groups: Sequence[_Group], test_share: float, rng: random.Random) -> set[str]:
    """The groups of the test fold.

    Groups with the same classes in them are dealt together, so that each class is
    divided well; poet by poet, large groups first, each group goes where it brings
    the test fold's weight nearest to its share of what was dealt. What one poet
    leaves over is carried into the next. A random phase decides who begins.
    """
    kinds: dict[tuple[bool, bool], dict[str, list[_Group]]] = {}
    for group in groups:
        has_human, has_llm, poet = group.stratum
        kinds.setdefault((has_human, has_llm), {}).setdefault(poet, []).append(group)
    in_test: set[str] = set()
    for _, by_poet in sorted(kinds.items()):
        poets = sorted(by_poet)
        rng.shuffle(poets)
        dealt = tested = 0.0
        phase: float | None = None
        for poet in poets:
            rng.shuffle(by_poet[poet])
            for group in sorted(by_poet[poet], key=lambda g: -g.weight):
                if phase is None:
                    phase = (rng.random() - 0.5) * group.weight
                dealt += group.weight
                if tested + group.weight / 2 + phase < test_share * dealt:
                    in_test.add(group.name)
                    tested += group.weight
    return in_test


def fold_counts(poems: Sequence[Poem], assignments: Sequence[Assignment]) -> dict[str, Any]:
    """Groups and poems of each fold, by class and by subset, for the metrics file."""
    fold_of = {assignment.poem_id: assignment.fold for assignment in assignments}
    label_of = {poem.poem_id: poem.label for poem in poems}

    def counted(members: Iterable[str], fold: Fold) -> dict[str, int]:
        labels = [label_of[poem_id] for poem_id in members if fold_of[poem_id] == fold]
        return {"human": len(labels) - sum(labels), "llm": sum(labels)}

    sizes = Counter(assignment.group_id for assignment in assignments)
    return {
        "poems": len(poems),
        "groups": len(sizes),
        "largest_group": max(sizes.values(), default=0),
        "folds": {
            fold: {
                "groups": len({a.group_id for a in assignments if a.fold == fold}),
                **counted(fold_of, fold),
            }
            for fold in FOLDS
        },
        "subsets": {
            name: {fold: counted(members, fold) for fold in FOLDS}
            for name, members in subsets_of(poems).items()
        },
    }


# --- subsets --------------------------------------------------------------------------


def subsets_of(poems: Iterable[Authored]) -> dict[str, tuple[str, ...]]:
    """Subset name -> poem ids: every human poem, and the LLM poems of the subset.

    LLM poems are those `at_main_temperature`, so that no subset pools temperatures or
    counts a generator's P1 twice.

    `all`; each generator; D1 … D13 for P1 … P13 (any other prompt by its own name);
    the merges of Table 4 whose prompts are all there; and, where there are several
    generators, `generator/D1` … for each of these. Human poems are the other class
    of every subset, as in the paper; which of them a detector may learn from is the
    fold's affair alone.
    """
    human: list[str] = []
    written: dict[tuple[str, str], list[str]] = defaultdict(list)
    for poem in at_main_temperature(poems):
        if poem.generation is None:
            human.append(poem.poem_id)
        else:
            written[poem.generation.generator, poem.generation.prompt_id].append(poem.poem_id)
    generators = sorted({generator for generator, _ in written})
    prompts = sorted({prompt for _, prompt in written}, key=prompt_order)
    choices: dict[str, tuple[str, ...]] = {subset_name(prompt): (prompt,) for prompt in prompts}
    choices |= {name: wanted for name, wanted in MERGES.items() if set(wanted) <= set(prompts)}

    def members(of: Collection[str], to: Collection[str]) -> tuple[str, ...]:
        return (*human, *(p for cell, ids in written.items() if _in(cell, of, to) for p in ids))

    found = {"all": members(generators, prompts)}
    found |= {generator: members([generator], prompts) for generator in generators}
    found |= {name: members(generators, wanted) for name, wanted in choices.items()}
    if len(generators) > 1:
        found |= {
            f"{generator}/{name}": members([generator], wanted)
            for generator in generators
            for name, wanted in choices.items()
        }
    return found


def _in(cell: tuple[str, str], generators: Collection[str], prompts: Collection[str]) -> bool:
    return cell[0] in generators and cell[1] in prompts


def at_main_temperature(poems: Iterable[P]) -> list[P]:
    """The human poems, and each generator's poems to a prompt at one temperature.

    The others are there to compare temperatures (AIGenPoetry, Tables 5 and 6). A poem
    whose temperature was not told is taken to be at the main one.
    """
    poems = list(poems)
    main = main_temperatures(poems)
    return [
        poem
        for poem in poems
        if (made := poem.generation) is None
        or made.temperature is None
        or made.temperature == main[made.generator, made.prompt_id]
    ]


def main_temperatures(poems: Iterable[Authored]) -> dict[tuple[str, str], float]:
    """(generator, prompt) -> the temperature whose poems are the generator's to the prompt.

    It is the one at which the generator wrote to most prompts, of several such the
    highest: 1.5 in AIGenPoetry, with P1 alone too. Poems are not counted, since a high
    temperature leaves more replies without one.
    """
    told: dict[tuple[str, str], set[float]] = defaultdict(set)
    for poem in poems:
        made = poem.generation
        if made is not None and made.temperature is not None:
            told[made.generator, made.prompt_id].add(made.temperature)
    prompts = Counter((cell[0], degree) for cell, degrees in told.items() for degree in degrees)
    return {
        cell: max((prompts[cell[0], degree], degree) for degree in degrees)[1]
        for cell, degrees in told.items()
    }


def subset_name(prompt_id: str) -> str:
    """D1 for P1 (AIGenPoetry, section 4); any other prompt's own name."""
    return f"D{prompt_id[1:]}" if prompt_id[0] == "P" and prompt_id[1:].isdecimal() else prompt_id


def prompt_order(prompt_id: str) -> tuple[str, int]:
    """P2 before P10."""
    name = prompt_id.rstrip("0123456789")
    return name, int(prompt_id[len(name) :] or 0)


@dataclass(frozen=True)
class HeldOut:
    """A division beside the folds, in which a poet or a generator is unknown in training."""

    name: str
    train: tuple[str, ...]
    test: tuple[str, ...]


def leave_one_poet_out(poems: Sequence[Authored], groups: Mapping[str, str]) -> Iterator[HeldOut]:
    """For each poet: test on all groups that hold a poem of the poet's, train on the rest.

    A group is left whole, so a twin by another name goes to test with the poet's
    poem. Poems without an author are never held out; a poet without whom no human
    poem is left is passed over.
    """
    touched: dict[str, set[str]] = defaultdict(set)
    for poem in poems:
        if poem.generation is None and poem.author:
            touched[poem.author].add(groups[poem.poem_id])
    for poet in sorted(touched):
        train = [poem for poem in poems if groups[poem.poem_id] not in touched[poet]]
        if any(poem.generation is None for poem in train):
            test = [poem for poem in poems if groups[poem.poem_id] in touched[poet]]
            yield HeldOut(poet, _ids(train), _ids(test))


def leave_one_generator_out(
    poems: Sequence[Authored], folds: Mapping[str, Fold]
) -> Iterator[HeldOut]:
    """For each generator: train on the train fold without it, test on the test fold's human
    poems and its own. With a single generator there is nothing to train on.

    Args:
        folds: poem id -> fold.
    """
    generators = sorted({poem.generation.generator for poem in poems if poem.generation})
    for held in generators if len(generators) > 1 else []:
        train = [p for p in poems if folds[p.poem_id] == "train" and _generator(p) != held]
        test = [p for p in poems if folds[p.poem_id] == "test" and _generator(p) in (None, held)]
        yield HeldOut(held, _ids(train), _ids(test))


def _generator(poem: Authored) -> str | None:
    return poem.generation.generator if poem.generation else None


def _ids(poems: Iterable[Authored]) -> tuple[str, ...]:
    return tuple(poem.poem_id for poem in poems)


def seed_overlap(poem: Poem, poems: Mapping[str, Poem]) -> float | None:
    """Share of an LLM poem's 3-grams that stand in the human poem it imitates; 0 … 1.

    From some share on the poem is a copy, which says nothing about how its writer writes
    (prompts P2-P5 show the human poem). Null where it imitates none of `poems`.

    Args:
        poems: by id; the human ones at least.
    """
    made = poem.generation
    source = poems.get(made.seed_poem_id or "") if made else None
    return copied_share(poem.text, source.text) if source else None


# --- balance --------------------------------------------------------------------------


def class_weights(labels: Sequence[int]) -> list[float]:
    """A weight for each item: either class sums to half the number of items.

    Raises:
        ValueError: a class is missing, so nothing can be balanced.
    """
    n_llm = sum(labels)
    sizes = (len(labels) - n_llm, n_llm)
    if 0 in sizes:
        raise ValueError(f"{sizes[0]} human and {sizes[1]} LLM items cannot weigh equally")
    return [len(labels) / 2 / sizes[label] for label in labels]


def up_sampled(items: Sequence[Item], labels: Sequence[int], seed: int) -> list[Item]:
    """The items with the smaller class repeated until both are equally many.

    Every item of the smaller class comes as often as any other or once more; who
    comes once more is drawn by seed. For one fold at a time, after the split.

    Raises:
        ValueError: a class is missing.
    """
    by_class = [[i for i, label in zip(items, labels, strict=True) if label == c] for c in (0, 1)]
    fewer, more = sorted(by_class, key=len)
    if not fewer:
        raise ValueError("a class is missing, so nothing can be up-sampled")
    times, rest = divmod(len(more) - len(fewer), len(fewer))
    return [*items, *fewer * times, *random.Random(seed).sample(fewer, rest)]
