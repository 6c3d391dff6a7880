"""Which weights wrote the poems: what later stages compare their own with."""

from collections.abc import Collection, Mapping, Sequence

from shiyan.config import AnyModelParams, ApiModelParams, LocalModelParams
from shiyan.models import identity_of
from shiyan.records import GeneratorIdentity, Poem, Reply


def identities(
    poems: Sequence[Poem],
    replies: Sequence[Reply],
    models: Mapping[str, AnyModelParams],
    asked: Collection[str],
) -> list[GeneratorIdentity]:
    """What stands behind each name that a poem bears, in the order of the names.

    No price, address of a key or limit is part of it, so that a change of one reruns
    nothing. A generator of finished replies is the model of that name in generate.models, if
    there is one; else nothing is known of it.

    Args:
        models: those of generate.models, by name.
        asked: names of the models that were asked in this run.

    Raises:
        UserError: a model that was asked and cannot be had any more.
    """
    names = sorted({poem.generation.generator for poem in poems if poem.generation})
    return [_identity(name, models.get(name), replies, name in asked) for name in names]


def _identity(
    name: str, model: AnyModelParams | None, replies: Sequence[Reply], asked: bool
) -> GeneratorIdentity:
    served = sorted(
        {r.served_model for r in replies if r.generator == name and r.served_model}
        if isinstance(model, ApiModelParams)
        else ()
    )
    if model is None:
        return GeneratorIdentity(generator=name, identity=None, family=None)
    # Nothing is fetched for the sake of a name in a file of replies.
    known = asked or isinstance(model, ApiModelParams)
    known = known or (isinstance(model, LocalModelParams) and model.sha256 is not None)
    return GeneratorIdentity(
        generator=name,
        identity=identity_of(name, model) if known else None,
        names=tuple(dict.fromkeys([model.model, *served]))
        if isinstance(model, ApiModelParams)
        else (),
        family=model.family,
    )
