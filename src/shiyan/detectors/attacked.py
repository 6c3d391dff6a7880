"""Attacked poems as the scorers see them: further poems of the test fold."""

from collections.abc import Iterable, Mapping, Sequence

from shiyan.records import Assignment, AttackedPoem, DetectorScore, Poem


def with_attacked(
    poems: Mapping[str, Poem],
    assignments: Mapping[str, Assignment],
    attacked: Sequence[AttackedPoem],
) -> tuple[dict[str, Poem], dict[str, Assignment]]:
    """The poems and, as further poems of the test fold, what attacks made of them."""
    changed = [(item.poem, assignments[item.of]) for item in attacked if item.poem is not None]
    return (
        {**poems, **{poem.poem_id: poem for poem, _ in changed}},
        {**assignments, **{poem.poem_id: own for poem, own in changed}},
    )


def attack_records(
    scores: Iterable[DetectorScore], attacked: Sequence[AttackedPoem], detectors: Iterable[str]
) -> list[DetectorScore]:
    """Scores of attacked poems under the attacked poem's id, and a reason where there is none.

    Args:
        scores: under the ids of `AttackedPoem.poem`; a detector that left some out did not
            read them.
        detectors: who were to score them.
    """
    by_id = {item.poem.poem_id: item for item in attacked if item.poem is not None}
    found = [
        score.model_copy(update={"poem_id": item.of, "attack": item.attack})
        for score in scores
        if (item := by_id.get(score.poem_id)) is not None
    ]
    failed = [item for item in attacked if item.poem is None]
    return found + [
        DetectorScore(
            poem_id=item.of,
            detector=detector,
            score=None,
            unscored_reason=item.reason,
            attack=item.attack,
        )
        for detector in dict.fromkeys(detectors)
        for item in failed
    ]
