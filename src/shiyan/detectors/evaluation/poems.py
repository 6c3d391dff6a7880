"""The poems of an evaluation: who wrote them and where they stand, without their texts."""

from collections.abc import Collection, Iterable, Mapping

from shiyan.errors import UserError
from shiyan.families import family_of
from shiyan.poem import characters, lines
from shiyan.records import Assignment, EvaluatedPoem, Fold, Poem, Written
from shiyan.splits import seed_overlap


def evaluated_poems(
    poems: Mapping[str, Poem],
    assignments: Mapping[str, Assignment],
    memorised: Collection[str] = (),
) -> dict[str, EvaluatedPoem]:
    """What evaluation needs to know of each poem.

    Args:
        memorised: ids of human poems that a scoring model recites.

    Raises:
        UserError: a poem without a fold, or a split that leaks.
    """
    found = {}
    for poem in poems.values():
        if poem.poem_id not in assignments:
            raise UserError(f"poem {poem.poem_id!r} has no fold; run the stage split again")
        found[poem.poem_id] = _evaluated(
            poem, poems, assignments[poem.poem_id], poem.poem_id in memorised
        )
    refuse_leaks(found.values())
    return found


def _evaluated(
    poem: Poem, poems: Mapping[str, Poem], assignment: Assignment, memorised: bool
) -> EvaluatedPoem:
    written = poem.generation
    imitated = poems.get(written.seed_poem_id or "") if written else None
    return EvaluatedPoem(
        poem_id=poem.poem_id,
        group_id=assignment.group_id,
        fold=assignment.fold,
        family=family_of(poem),
        author=poem.author,
        poet=poem.author if written is None else (imitated.author if imitated else ""),
        generation=Written(**{name: getattr(written, name) for name in Written.model_fields})
        if written
        else None,
        n_lines=len(lines(poem.text)),
        n_characters=len(characters(poem.text)),
        seed_overlap=seed_overlap(poem, poems),
        memorised=memorised,
    )


def refuse_leaks(poems: Iterable[EvaluatedPoem]) -> None:
    """Stop where a poem and its imitation, or two poems of a group, stand in both folds.

    Raises:
        UserError: names the group and the poem.
    """
    fold_of: dict[str, Fold] = {}
    for poem in poems:
        for group in (f"group {poem.group_id}", f"family {poem.family}"):
            if fold_of.setdefault(group, poem.fold) != poem.fold:
                raise UserError(
                    f"the split leaks: {group!r} stands in train and in test (poem "
                    f"{poem.poem_id!r}); a poem and its imitations must share a fold, "
                    "so run the stage split again"
                )


def attacked_id(poem_id: str, attack: str) -> str:
    """The row of a poem after an attack."""
    return f"{poem_id}|attack {attack}"


def with_attacked(
    poems: Mapping[str, EvaluatedPoem], attacked: Iterable[tuple[str, str]]
) -> dict[str, EvaluatedPoem]:
    """The poems, and a row for each (id of the attacked poem, attack)."""
    further = {}
    for poem_id, attack in attacked:
        own = attacked_id(poem_id, attack)
        change = {"poem_id": own, "attack": attack, "of": poem_id}
        further[own] = poems[poem_id].model_copy(update=change)
    return {**poems, **further}
