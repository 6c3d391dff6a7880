"""A poem's own family: what folds are drawn over and intervals are resampled by."""

from shiyan.records import Poem, Reply


def family_of(poem: Poem) -> str:
    """The human poem that a poem imitates, or its cipai, or the poem itself.

    `splits.group_poems` joins families that touch (a human ci and the cipai's
    LLM ci; near-duplicates); a fold is drawn over those joined groups.
    """
    if poem.generation is None or (poem.generation.seed_poem_id is None and poem.cipai is None):
        return poem.poem_id
    return poem.generation.seed_poem_id or f"cipai:{poem.cipai}"


def family_lacking(reply: Reply) -> str:
    """The family of the poem that did not come of a reply; the cipai decides where no seed does."""
    return reply.seed_poem_id or f"cipai:{reply.cipai}"
